"""The tables of people, programs and the roles they hold."""

from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.icons import icon
from controlplane.console.lists import NUMBER, NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import SERVICE_ACCOUNTS, USERS
from controlplane.console.role_words import place_words
from controlplane.models import RoleBinding, ServiceAccount, User
from controlplane.selectors.users import SEEN_BINDINGS

_PLAIN_NAME = {"td": {"class": "nw"}}


def state_mark(words: str, name: str, tone: str) -> SafeString:
    """A state with its icon."""
    return format_html('<span class="st {}">{}{}</span>', tone, icon(name), words)


def subject_url(binding: RoleBinding) -> str:
    """The page of who holds a role."""
    if binding.user_id is not None:
        return USERS.detail_url(binding.user_id)
    return SERVICE_ACCOUNTS.detail_url(binding.service_account_id)


def held_here(row: User | ServiceAccount, organisation_id: str) -> list[RoleBinding]:
    """The roles somebody holds in one organisation, the widest first."""
    held = [one for one in getattr(row, SEEN_BINDINGS) if one.organisation_id == organisation_id]
    return sorted(
        held, key=lambda one: (one.project_id is not None, one.team_id is not None, one.pk)
    )


class RolesColumn(Column):
    """The roles held in the page's organisation, each with where it is held."""

    def __init__(self) -> None:
        super().__init__(
            "Roles", empty_values=(), orderable=False, attrs={"td": {"data-l": "Roles"}}
        )

    def render(self, record: Any, table: NounTable) -> SafeString:
        held = held_here(record, table.scope.organisation.pk)
        if not held:
            return format_html('<span class="mut">{}</span>', "none")
        return format_html_join(
            ", ",
            '<span class="nb">{} <span class="mut">in {}</span></span>',
            ((one.role, place_words(one)) for one in held),
        )


class UserTable(NounTable):
    """People of an organisation."""

    username = NameColumn(USERS, "User", attrs=_PLAIN_NAME)
    full_name = Column(
        "Name",
        empty_values=(),
        order_by=("last_name", "first_name"),
        attrs={"td": {"class": "opt"}},
    )
    roles = RolesColumn()
    last_login = WhenColumn("Last sign-in", default="never")
    is_active = Column("State", attrs={"td": {"data-l": "State"}})

    caption = "People with a role here"

    def render_full_name(self, record: User) -> str:
        return record.get_full_name() or record.email or self.default

    def render_is_active(self, record: User) -> SafeString:
        return state_of_user(record)


def state_of_user(user: User) -> SafeString:
    """A person's state in a word."""
    if not user.is_active:
        return state_mark("switched off", "stop", "idle")
    if user.must_change_password:
        return state_mark("to choose a password", "clock", "warn")
    return state_mark("active", "ok", "ok")


class ServiceAccountTable(NounTable):
    """Programs of an organisation."""

    name = NameColumn(SERVICE_ACCOUNTS, attrs=_PLAIN_NAME)
    roles = RolesColumn()
    is_enabled = Column("State", attrs={"td": {"data-l": "State"}})
    updated_at = WhenColumn("Changed")

    caption = "Programs that call the API"

    def render_is_enabled(self, value: bool) -> SafeString:
        return state_mark("enabled", "ok", "ok") if value else state_mark("off", "stop", "idle")


class BindingTable(NounTable):
    """Roles, with who holds them and where."""

    subject = Column(
        "Who", empty_values=(), order_by=("user__username", "service_account__name"),
        attrs={"td": {"class": "nw"}},
    )  # fmt: skip
    role = Column("Role", attrs={"td": {"data-l": "Role"}})
    place = Column(
        "Held in", empty_values=(), order_by=("team__name", "project__name"),
        attrs={"td": {"data-l": "In"}},
    )  # fmt: skip
    created_at = WhenColumn("Since")
    revoke = Column("Action", empty_values=(), orderable=False, attrs=NUMBER)

    caption = "Roles held here"

    def render_subject(self, record: RoleBinding) -> SafeString:
        kind = "" if record.user_id is not None else " (program)"
        name = record.user.get_username() if record.user else record.service_account.name
        return format_html('<a href="{}">{}</a>{}', subject_url(record), name, kind)

    def render_place(self, record: RoleBinding) -> str:
        return place_words(record)

    def render_revoke(self, record: RoleBinding) -> SafeString | str:
        return revoke_link(record) if self.scope_may_revoke(record) else ""

    def scope_may_revoke(self, record: RoleBinding) -> bool:
        place = {"team_id": record.team_id, "project_id": record.project_id}
        return self.scope.access.may_write("bindings", record.organisation_id, **place)


def revoke_link(binding: RoleBinding) -> SafeString:
    """The way to take a role away, with a review."""
    url = reverse("binding-delete", args=[binding.pk])
    label = f"Revoke {binding.role} in {place_words(binding)}"
    return format_html('<a href="{}" aria-label="{}">Revoke</a>', url, label)
