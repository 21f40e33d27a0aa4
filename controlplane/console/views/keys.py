"""The pages of API keys. A key's text is on one page once: the answer to making or rotating it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.console.acting import ActPage
from controlplane.console.api_calls import changing
from controlplane.console.carrying import Base
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.form_pages import NO_REASON
from controlplane.console.formats import clock, count, dollars
from controlplane.console.forms.keys import NO_OVERLAP, KeyForm, RotateForm
from controlplane.console.key_limits import budgets_context, limits_context, requests_facts
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import KEYS, PROJECTS, TEAMS
from controlplane.console.pages import Action, Crumb
from controlplane.console.reviews import Impact, Reach, Review, checks_of
from controlplane.console.tables.keys import (
    KeyTable,
    last_used_words,
    prefix_of,
    routes_words,
    told_state,
)
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.models import Key
from controlplane.selectors.filters import KeyFilters
from controlplane.selectors.key_use import NO_USE, USE_DAYS, KeyUse, get_key_use, is_key_in_use
from controlplane.selectors.keys import list_keys
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.keys import (
    IssuedKey,
    create_key,
    revoke_key,
    rotate_key,
    update_key,
)

SHOWN_ONCE = "console/keys/shown.html"
_NEVER = "never"


class KeyList(ListPage):
    noun = KEYS
    selector = staticmethod(list_keys)
    filters = KeyFilters
    table = KeyTable
    hidden_filters = ListPage.hidden_filters | {"name", "is_enabled", "is_revoked"}
    intro = "What callers send to the gateway; each is shown once, when it is made"
    api_orders: ClassVar[Mapping[str, str]] = {
        name: name for name in ("name", "project", "expires_at")
    }
    empty = Empty(
        "No key yet",
        "A key lets a program call the gateway. It belongs to a project, reaches every route or "
        "those you choose, and is shown once.",
    )

    def actions(self) -> Sequence[Action]:
        # a role in one project is enough to make a key there
        if not _may_make(self):
            return ()
        return (Action("New key", KEYS.create_url(), "primary", "plus"),)

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, KeyTable)
        shown = [row.record.public_id for row in table.paginated_rows]
        table.use = get_key_use(self.scope.organisation.pk, shown, table.now) if shown else {}
        return {}


class KeyDetail(DetailPage):
    noun = KEYS
    tells_budgets = True
    selector = staticmethod(list_keys)
    template_name = "console/keys/detail.html"
    is_name_mono = False

    def get_row(self, pk: str) -> Any:
        self.now = timezone.now()
        return super().get_row(pk)

    def place_of(self, row: Key) -> Mapping[str, str]:
        return _place_of(row)

    def state_of(self, row: Key) -> State:
        return told_state(row, self.now)

    def actions_of(self, row: Key) -> Sequence[Action]:
        if row.revoked_at is not None or not self.may_write(KEYS.key, **_place_of(row)):
            return ()
        act = ("Disable", "disable", "pause") if row.is_enabled else ("Enable", "enable", "play")
        return (
            Action("Revoke", reverse("key-revoke", args=[row.pk]), "danger", "stop"),
            Action(act[0], reverse(f"key-{act[1]}", args=[row.pk]), icon=act[2]),
            Action("Rotate", reverse("key-rotate", args=[row.pk]), icon="restart"),
            Action("Edit", KEYS.edit_url(row.pk), "primary", "edit"),
        )

    def figures_of(self, row: Key) -> Sequence[Fact]:
        use = _use_of(row, self.now)
        cost = (
            "no price" if use.unknown_cost and not use.cost_nanousd else dollars(use.cost_nanousd)
        )
        unknown = f"and {count(use.unknown_cost)} without a price" if use.unknown_cost else ""
        return (
            Fact("Last used, day", last_used_words(use.last_day, self.now.date())),
            Fact(f"Requests, {USE_DAYS} days", count(use.requests), url=_requests_url(row)),
            Fact(f"Errors, {USE_DAYS} days", count(use.errors)),
            Fact(f"Cost, {USE_DAYS} days", cost, unit=unknown),
        )

    def facts_of(self, row: Key) -> Sequence[Fact]:
        zone = self.scope.zone
        expires = _NEVER if row.expires_at is None else clock(row.expires_at, zone)
        ended = () if row.revoked_at is None else (Fact("Revoked", clock(row.revoked_at, zone)),)
        return (
            Fact("Begins with", prefix_of(row), is_mono=True),
            Fact("Project", row.project.name, url=PROJECTS.detail_url(row.project_id)),
            Fact("Team", row.project.team.name, url=TEAMS.detail_url(row.project.team_id)),
            Fact("Scopes", ", ".join(row.scopes)),
            Fact("Routes", routes_words(row, most=50)),
            Fact("Expires", expires),
            *requests_facts(row),
            *ended,
            Fact("Made", clock(row.created_at, zone)),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Key, tab: str) -> Mapping[str, Any]:
        return {
            "secrets": _accepted(row),
            **limits_context(self.scope, row),
            **budgets_context(self.scope, row, self.now),
        }


class KeyCreate(CreatePage):
    noun = KEYS
    form_class = KeyForm

    def place(self) -> Mapping[str, Any]:
        """A role in some project is enough; the form offers those projects alone."""
        for grant in self.scope.access.grants:
            if grant.organisation_id == self.scope.organisation.pk:
                place = {"team_id": grant.team_id, "project_id": grant.project_id}
                if self.may_write(KEYS.key, **place):
                    return place
        return {}

    def initial(self) -> dict[str, Any]:
        project = self.request.GET.get("project", "")
        return {"project": project} if project else {}

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> IssuedKey:
        return create_key(actor, organisation=self.scope.organisation, **values)

    def made(self, row: IssuedKey) -> HttpResponse:
        return self.render(_shown_once(self.request, row), template=SHOWN_ONCE)


class KeyEdit(EditPage):
    noun = KEYS
    selector = staticmethod(list_keys)
    form_class = KeyForm

    def place_of(self, row: Key) -> Mapping[str, str]:
        return _place_of(row)

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_key(actor, key_id=row.pk, changes=changes, expected_version=expected_version)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return _impact_of(row, draft)


class KeyAct(ActPage):
    """Enable or disable: the one thing that ends a key for a while."""

    noun = KEYS
    selector = staticmethod(list_keys)
    form_class = KeyForm
    verbs: ClassVar[Mapping[str, str]] = {"enable": "Enable", "disable": "Disable"}

    def place_of(self, row: Key) -> Mapping[str, str]:
        return _place_of(row)

    def values_of(self, row: Key) -> Mapping[str, Any]:
        wanted = self.act == "enable"
        if row.is_enabled == wanted:
            raise Conflict(f"The key is {self.act}d already.")
        return {"is_enabled": wanted}

    def is_act_risky(self, row: Key, changes: Mapping[str, Any]) -> bool:
        return self.act == "disable"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_key(actor, key_id=row.pk, changes=changes, expected_version=expected_version)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return _impact_of(row, draft)


class KeyRotate(EditPage):
    """A new secret: the form chooses how long the old ones live, the answer shows the new one."""

    noun = KEYS
    selector = staticmethod(list_keys)
    form_class = RotateForm
    template_name = "console/keys/rotate.html"

    def place_of(self, row: Key) -> Mapping[str, str]:
        return _place_of(row)

    def own_crumbs(self) -> Sequence[Crumb]:
        return (Crumb(self.row.name, KEYS.detail_url(self.row.pk)), Crumb("Rotate"))

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Ask how long the old secrets shall live."""
        row = self.get_row(pk)
        return self._asked(row, RotateForm(scope=self.scope, row=row), Base(row.version, {}))

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Rotate, and show the new text this once."""
        row = self.get_row(pk)
        base = Base.read(request.POST)
        form = RotateForm(request.POST, scope=self.scope, row=row)
        if form.is_valid() and form.cleaned_data["overlap_s"] == NO_OVERLAP and not self.reason():
            # whoever uses the old secret is refused from then on, as by a revocation
            form.add_error("overlap_s", NO_REASON)
        if not form.is_valid():
            return self._asked(row, form, base)
        try:
            issued = rotate_key(
                self.actor(self.reason()),
                key_id=row.pk,
                overlap_s=int(form.cleaned_data["overlap_s"]),
                expected_version=base.version,
            )
        except VersionMismatch:
            form.add_error(None, "Somebody changed the key meanwhile; look at it again.")
            return self._asked(row, form, Base(row.version, {}))
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self._asked(row, form, base)
        return self.render(_shown_once(request, issued, is_rotated=True), template=SHOWN_ONCE)

    def _asked(self, row: Key, form: RotateForm, base: Base) -> HttpResponse:
        path = f"{KEYS.api_path(row.pk)}rotate/"
        call = changing(
            self.request, "POST", path, {"overlap_s": int(form.fields["overlap_s"].initial)},
            version=row.version, reason="REASON",
        )  # fmt: skip
        context = {
            "row": row,
            "title": f"Rotate key {row.name}",
            "cancel": KEYS.detail_url(row.pk),
            "secrets": _accepted(row),
            "use": _use_of(row, timezone.now()),
            "reason": self.reason(),
            "next_step": "save",
            "verb": "Rotate",
            "api": call,
        }
        return self.show_form(form, base, context)


class KeyRevoke(DeletePage):
    """The end of a key. One used in the last hour takes its name."""

    noun = KEYS
    selector = staticmethod(list_keys)
    verb = "Revoke"

    def place_of(self, row: Key) -> Mapping[str, str]:
        return _place_of(row)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return revoke_key(actor, key_id=row.pk, expected_version=expected_version)

    def call_of(self, row: Key) -> tuple[str, str]:
        return "POST", f"{KEYS.api_path(row.pk)}revoke/"

    def values_of(self, row: Key) -> Mapping[str, Any]:
        return {"name": row.name, "begins with": prefix_of(row), "routes": routes_words(row)}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return _impact_of(row, draft)

    def _judged(self, row: Any, base: Base) -> Review:
        review = super()._judged(row, base)
        words = "Its secrets are forgotten, and requests with it are refused within a second."
        if is_key_in_use(row, timezone.now()):
            return replace(review, words=f"{words} It was used in the last hour.")
        return replace(review, words=words, confirm="")


def act_views() -> Mapping[str, Any]:
    """The view of each act, by its name in the address."""
    return {name: KeyAct.as_view(act=name) for name in KeyAct.verbs}


def _place_of(row: Key) -> Mapping[str, str]:
    return {"team_id": row.project.team_id, "project_id": row.project_id}


def _may_make(page: ListPage) -> bool:
    access, home = page.scope.access, page.scope.organisation.pk
    return access.may_write(KEYS.key, home) or any(
        access.may_write(KEYS.key, home, team_id=grant.team_id, project_id=grant.project_id)
        for grant in access.grants
        if grant.organisation_id == home
    )


def _accepted(row: Key) -> Sequence[Any]:
    now = timezone.now()
    return [one for one in row.digests.all() if not one.accepted_until or one.accepted_until > now]


def _use_of(row: Key, now: datetime) -> KeyUse:
    found = get_key_use(row.organisation_id, [row.public_id], now)
    return found.get(row.public_id, NO_USE)


def _requests_url(row: Key) -> str:
    return f"{reverse('requests')}?key={row.public_id}"


def _impact_of(row: Key, draft: Draft) -> Impact:
    now = timezone.now()
    use = _use_of(row, now)
    told = f"{count(use.requests)} requests in {USE_DAYS} days, last "
    told += last_used_words(use.last_day, now.date())
    reach = (
        Reach("Use", told if use.requests else f"none in {USE_DAYS} days"),
        Reach("Routes", routes_words(row, most=10)),
        Reach("Project", row.project.name),
    )
    return Impact(reach=reach, checks=checks_of(draft, KEYS.key))


def _shown_once(
    request: HttpRequest, issued: IssuedKey, *, is_rotated: bool = False
) -> dict[str, Any]:
    """The page that has a key's text; nothing keeps it, so it can't be had again."""
    key = issued.key
    host = request.get_host().partition(":")[0]
    gateway = f"http://{host}:{settings.HEADWORKS.gateway_port}/v1"
    until = [one.accepted_until for one in key.digests.all() if one.accepted_until is not None]
    return {
        "noun": KEYS,
        "row": key,
        "title": f"New secret of {key.name}" if is_rotated else f"New key: {key.name}",
        "text": issued.text,
        "env": f"OPENAI_BASE_URL={gateway}\nOPENAI_API_KEY={issued.text}",
        "is_rotated": is_rotated,
        "old_until": max(until, default=None),
        "done": KEYS.detail_url(key.pk),
    }
