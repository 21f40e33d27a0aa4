"""The pages of roles held: who holds which, where, and how one is given and taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from controlplane.console.carrying import Base
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.form_pages import FormPage
from controlplane.console.forms.users import BindingForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import BINDINGS, USERS
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.reviews import Review
from controlplane.console.role_words import place_words
from controlplane.console.tables.users import BindingTable, subject_url
from controlplane.console.views.users import AT_ONCE
from controlplane.models import RoleBinding
from controlplane.selectors.filters import BindingFilters
from controlplane.selectors.users import list_bindings
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role, revoke_role
from controlplane.services.drafts import Draft


class BindingList(ListPage):
    """Who holds which role, and where."""

    noun = BINDINGS
    selector = staticmethod(list_bindings)
    template_name = "console/users/part_list.html"
    filters = BindingFilters
    table = BindingTable
    order = "subject"
    hidden_filters = ListPage.hidden_filters | {"user", "service_account"}
    api_orders: ClassVar[Mapping[str, str]] = {}
    empty = Empty("No role is held here", "A role lets its holder read or change what it reaches.")

    def actions(self) -> Sequence[Action]:
        if not self.may_write(BINDINGS.key):
            return ()
        return (Action("Grant a role", BINDINGS.create_url(), "primary", "plus"),)

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Admin"), Crumb(USERS.title, USERS.list_url()), Crumb(BINDINGS.title))


class BindingCreate(CreatePage):
    """A role for somebody, after a review."""

    noun = BINDINGS
    form_class = BindingForm
    is_reviewed = True
    verb = "Grant role"

    def place(self) -> Mapping[str, str]:
        return place_of_grants(self)

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> RoleBinding:
        place = {f"{name}_id": values[name].pk for name in ("team", "project") if values[name]}
        self.require_write(BINDINGS.key, **place)
        return grant_role(actor, organisation=self.scope.organisation, **values)

    def made(self, row: RoleBinding) -> HttpResponse:
        return self.saved(subject_url(row))

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return AT_ONCE


class BindingDelete(DeletePage):
    """The end of a role."""

    noun = BINDINGS
    selector = staticmethod(list_bindings)
    verb = "Revoke"

    def title_of(self, row: RoleBinding) -> str:
        return f"{row.role} in {place_words(row)}"

    def place_of(self, row: RoleBinding) -> Mapping[str, Any]:
        return {"team_id": row.team_id, "project_id": row.project_id}

    def values_of(self, row: RoleBinding) -> Mapping[str, Any]:
        who = row.user.get_username() if row.user else str(row.service_account)
        return {"role": row.role, "held in": place_words(row), "by": who}

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        keep = not self.scope.access.is_platform_admin
        return revoke_role(actor, binding_id=row.pk, keep_admin=keep)

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return AT_ONCE

    def _judged(self, row: Any, base: Base) -> Review:
        # a role is given back in a minute: a reason is enough
        return replace(super()._judged(row, base), confirm="")


class BindingDetail(Page):
    """A role has no page of its own: it is on that of who holds it."""

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Go there."""
        return HttpResponseRedirect(subject_url(self.found(list_bindings(self.scope.access), pk)))


def place_of_grants(page: FormPage) -> Mapping[str, Any]:
    """The widest place in which the reader may give roles; the form offers all of them."""
    access, home = page.scope.access, page.scope.organisation.pk
    for grant in access.grants:
        place = {"team_id": grant.team_id, "project_id": grant.project_id}
        if grant.organisation_id == home and access.may_write(BINDINGS.key, home, **place):
            return place
    return {}
