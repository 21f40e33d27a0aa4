"""The pages of people: who may sign in, what they hold, and why they may do what they may."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.console.acting import ActPage
from controlplane.console.carrying import Base
from controlplane.console.creating import CreatePage
from controlplane.console.details import DetailPage, Fact, State, Tab
from controlplane.console.editing import EditPage
from controlplane.console.formats import clock
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.users import MemberForm, UserForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import BINDINGS, USERS
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.reviews import Impact, Reach, checks_of
from controlplane.console.role_words import permissions_of, place_words, role_matrix
from controlplane.console.tables.users import UserTable, held_here, revoke_link
from controlplane.errors import Conflict, Invalid, NotAllowed, NotFound, VersionMismatch
from controlplane.models import Project, Role, RoleBinding, Team, User
from controlplane.selectors.access import Access, get_access_of_user
from controlplane.selectors.filters import UserFilters
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.selectors.users import is_in_charge_of, list_users
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.users import (
    IssuedPassword,
    create_member,
    reset_password,
    update_user,
)

SHOWN_ONCE = "console/users/shown.html"
AT_ONCE = "No gateway reads this; pages and API ask for it with each request."
_DIGITS_OF_AN_ID = 9
_OVERVIEW, _MAY = "overview", "may"


class UserList(ListPage):
    noun = USERS
    selector = staticmethod(list_users)
    filters = UserFilters
    table = UserTable
    order = "username"
    template_name = "console/users/list.html"
    api_orders: ClassVar[Mapping[str, str]] = {"username": "username"}
    empty = Empty(
        "Nobody has a role here", "A person with a role reads or changes what it reaches."
    )

    def rows(self) -> QuerySet[User]:
        home = self.scope.organisation.pk
        require_whole(self.scope.access, home)
        here = RoleBinding.objects.filter(user=OuterRef("pk"), organisation_id=home)
        return list_users(self.scope.access).filter(Exists(here))

    def extra(self, table: NounTable) -> dict[str, Any]:
        return {"title": "Users and roles", "matrix": role_matrix(), "roles": list(Role)}


class UserDetail(DetailPage):
    noun = USERS
    selector = staticmethod(list_users)
    template_name = "console/users/detail.html"
    tabs = (Tab(_OVERVIEW, "Overview"), Tab(_MAY, "What they may do"))
    is_name_mono = False
    is_deleted = False

    def title_of(self, row: User) -> str:
        return row.get_username()

    def get_row(self, pk: str) -> User:
        return _user(self, pk)

    def state_of(self, row: User) -> State:
        if not row.is_active:
            return State("switched off", "stop", "idle")
        if row.must_change_password:
            return State("to choose a password", "clock", "warn")
        return State("active")

    def actions_of(self, row: User) -> Sequence[Action]:
        if not is_in_charge_of(self.scope.access, row):
            return ()
        if not row.is_active:
            return (Action("Reactivate", reverse("user-activate", args=[row.pk]), "primary"),)
        return (
            Action("Deactivate", reverse("user-deactivate", args=[row.pk]), "danger"),
            Action("Reset password", reverse("user-password", args=[row.pk])),
            Action("Edit", USERS.edit_url(row.pk), "primary", "edit"),
        )

    def facts_of(self, row: User) -> Sequence[Fact]:
        zone = self.scope.zone
        seen = "never" if row.last_login is None else clock(row.last_login, zone)
        kind = "administrator of the platform" if row.is_superuser else "person"
        return (
            Fact("Name", row.get_full_name() or "not given"),
            Fact("E-mail", row.email or "not given"),
            Fact("Kind", kind),
            Fact("Last sign-in", seen),
            Fact("Made", clock(row.created_at, zone)),
            Fact("Id", str(row.pk), is_mono=True),
        )

    def extra(self, row: User, tab: str) -> Mapping[str, Any]:
        home = self.scope.organisation.pk
        held = held_here(row, home)
        if tab == _MAY:
            return self._permissions(row, held)
        may_grant = self.may_write("bindings")
        return {
            "held": [(one, place_words(one), self._revoke(one)) for one in held],
            "grant_url": f"{BINDINGS.create_url()}?subject=user:{row.pk}" if may_grant else "",
        }

    def _revoke(self, binding: RoleBinding) -> str:
        place = {"team_id": binding.team_id, "project_id": binding.project_id}
        return revoke_link(binding) if self.may_write("bindings", **place) else ""

    def _permissions(self, row: User, held: Sequence[RoleBinding]) -> Mapping[str, Any]:
        """Why they may do what they may, at the place of the address."""
        access, home = self.scope.access, self.scope.organisation
        teams = list(list_teams(access).filter(organisation_id=home.pk).order_by("name"))
        projects = list(list_projects(access).filter(organisation_id=home.pk).order_by("name"))
        asked = self.request.GET.get("place", "")
        place = _place_named(asked, teams, projects)
        return {
            "places": [
                ("", f"all of {home.name}"),
                *((f"team:{one.pk}", f"team {one.name}") for one in teams),
                *((f"project:{one.pk}", f"project {one.name}") for one in projects),
            ],
            "asked": asked if place else "",
            "permissions": permissions_of(
                get_access_of_user(row), home.pk, {one.pk: one for one in held}, place
            ),
        }


class UserCreate(CreatePage):
    """A new person, with a password that is on the answer's page alone."""

    noun = USERS
    form_class = MemberForm
    is_reviewed = True
    verb = "Create user"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> IssuedPassword:
        return create_member(actor, organisation=self.scope.organisation, **values)

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return AT_ONCE

    def made(self, row: IssuedPassword) -> HttpResponse:
        return self.render(shown_password(row), template=SHOWN_ONCE)


class _OfUser(EditPage):
    """What changes a person's account: theirs to do who are in charge of all of it."""

    noun = USERS
    selector = staticmethod(list_users)
    form_class: ClassVar[type[NounForm]] = UserForm

    def title_of(self, row: User) -> str:
        return row.get_username()

    def get_row(self, pk: str) -> User:
        row = _user(self, pk)
        if not is_in_charge_of(self.scope.access, row):
            raise NotAllowed(
                "You lack the permission to change this account: administrators of all "
                "organisations a person has a role in have it."
            )
        self.row = row
        return row

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return AT_ONCE

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_user(
            actor,
            user_id=row.pk,
            changes=changes,
            expected_version=expected_version,
            keep_admin=not self.scope.access.is_platform_admin,
        )


class UserEdit(_OfUser):
    pass


class UserAct(_OfUser, ActPage):
    """Deactivate or reactivate: history stays, sessions and password go."""

    verbs: ClassVar[Mapping[str, str]] = {"activate": "Reactivate", "deactivate": "Deactivate"}

    def values_of(self, row: User) -> Mapping[str, Any]:
        wanted = self.act == "activate"
        if row.is_active == wanted:
            raise Conflict("This is so already.")
        return {"is_active": wanted}

    def impact(self, row: User, changes: Mapping[str, Any], draft: Draft) -> Impact:
        words = "ends, with all sessions and the password; history keeps the name"
        if self.act == "activate":
            words = "needs a new password: reset it next"
        held = held_here(row, self.scope.organisation.pk)
        roles = ", ".join(f"{one.role} in {place_words(one)}" for one in held) or "none here"
        reach = (Reach("Sign-in", words), Reach("Roles", roles))
        return Impact(reach=reach, checks=checks_of(draft, USERS.key))


class UserPassword(_OfUser):
    """A new password of our making, on the answer's page alone."""

    form_class = NounForm
    template_name = "console/users/password.html"

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Say what it does."""
        return self._asked(self.get_row(pk))

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Do it, and show the password this once."""
        row = self.get_row(pk)
        base = Base.read(request.POST)
        if not self.reason():
            return self._asked(row, "Give a reason. It is kept in the audit log.")
        try:
            issued = reset_password(
                self.actor(self.reason()), user_id=row.pk, expected_version=base.version
            )
        except VersionMismatch:
            return self._asked(row, "Somebody changed the account meanwhile; look again.")
        except (Invalid, Conflict) as error:
            return self._asked(row, error.detail)
        return self.render(shown_password(issued), template=SHOWN_ONCE)

    def own_crumbs(self) -> Sequence[Crumb]:
        first, *_ = super().own_crumbs()
        return (first, Crumb("Reset password"))

    def _asked(self, row: User, problem: str = "") -> HttpResponse:
        form = NounForm(scope=self.scope, row=row)
        context = {
            "row": row,
            "title": f"Reset the password of {row.get_username()}",
            "cancel": USERS.detail_url(row.pk),
            "problem": problem,
            "reason": self.reason(),
            "next_step": "save",
            "verb": "Reset password",
        }
        return self.show_form(form, Base(row.version, {}), context)


def _user(page: Page, pk: str) -> User:
    """The person of this id, or NotFound."""
    if not (pk.isascii() and pk.isdigit() and len(pk) <= _DIGITS_OF_AN_ID):
        raise NotFound
    found: User = page.found(list_users(page.scope.access), pk)
    return found


def require_whole(access: Access, organisation_id: str) -> None:
    """Raise NotAllowed unless the reader reads all of the organisation."""
    if not access.reads_organisation(organisation_id):
        raise NotAllowed(
            "You lack the permission to see people and roles here: a role of the whole "
            "organisation has it."
        )


def shown_password(issued: IssuedPassword) -> dict[str, Any]:
    """The page that has somebody's password; nothing keeps it."""
    return {
        "noun": USERS,
        "row": issued.user,
        "title": f"Password of {issued.user.get_username()}",
        "text": issued.password,
        "done": USERS.detail_url(issued.user.pk),
    }


def _place_named(
    asked: str, teams: Sequence[Team], projects: Sequence[Project]
) -> Mapping[str, str | None]:
    """The team or project of the address as access takes it; raises NotFound for a stranger's."""
    kind, _, pk = asked.partition(":")
    if not asked:
        return {}
    team = next((one for one in teams if kind == "team" and one.pk == pk), None)
    if team is not None:
        return {"team_id": team.pk}
    project = next((one for one in projects if kind == "project" and one.pk == pk), None)
    if project is None:
        raise NotFound
    return {"team_id": project.team_id, "project_id": project.pk}
