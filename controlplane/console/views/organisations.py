"""The pages of organisations: the list, and one as a tree of teams and projects."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.http import HttpResponse

from controlplane.console.creating import CreatePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.forms.organisations import OrganisationForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import ORGANISATIONS, PROJECTS, TEAMS
from controlplane.console.pages import Action
from controlplane.console.reviews import Check, Impact, checks_of
from controlplane.console.tables.organisations import OrganisationTable
from controlplane.errors import NotAllowed
from controlplane.models import Organisation
from controlplane.selectors.filters import OrganisationFilters
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.tree import (
    list_organisations_sized,
    list_projects_sized,
    list_teams_sized,
)
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.organisations import create_organisation, update_organisation


class OrganisationList(ListPage):
    noun = ORGANISATIONS
    selector = staticmethod(list_organisations_sized)
    filters = OrganisationFilters
    table = OrganisationTable
    hidden_filters = frozenset()
    api_place = ""
    intro = "The tenants; everything else belongs to exactly one"
    empty = Empty("There is no organisation", "The platform's administrators make them.")

    def rows(self) -> QuerySet[Any]:
        return list_organisations_sized(self.scope.access)

    def actions(self) -> Sequence[Action]:
        if not self.scope.access.is_platform_admin:
            return ()
        return (Action("New organisation", self.noun.create_url(), "primary", "plus"),)


class OrganisationDetail(DetailPage):
    noun = ORGANISATIONS
    selector = staticmethod(list_organisations)
    tells_budgets = True
    template_name = "console/organisations/detail.html"
    is_deleted = False
    is_name_mono = False

    def state_of(self, row: Organisation) -> State:
        return State("On") if row.is_enabled else State("Off", "stop", "idle")

    def facts_of(self, row: Organisation) -> Sequence[Fact]:
        return (
            Fact("Time zone", row.time_zone),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Organisation, tab: str) -> Mapping[str, Any]:
        if tab != "overview":
            return {}
        access = self.scope.access
        projects = list_projects_sized(access).order_by("name")
        teams = list_teams_sized(access).filter(organisation_id=row.pk).order_by("name")
        tree = list(teams.prefetch_related(Prefetch("projects", projects, to_attr="shown")))
        inside = {project.pk for team in tree for project in team.shown}
        own = projects.filter(organisation_id=row.pk).exclude(pk__in=inside)
        return {
            "tree": tree,
            "own_projects": own,
            "new_team": TEAMS.create_url() if self.may_write("teams") else "",
            "new_project": PROJECTS.create_url(),
            "writable_teams": {
                team.pk for team in tree if self.may_write("projects", team_id=team.pk)
            },
        }


class OrganisationCreate(CreatePage):
    noun = ORGANISATIONS
    form_class = OrganisationForm

    def require_write(self, noun: str, **place: str | None) -> None:
        if not self.scope.access.is_platform_admin:
            raise NotAllowed("Only the platform's administrators make organisations.")

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Organisation:
        return create_organisation(actor, **values)

    def made(self, row: Any) -> HttpResponse:
        return self.saved(self.noun.detail_url(row.pk))


class OrganisationEdit(EditPage):
    noun = ORGANISATIONS
    selector = staticmethod(list_organisations)
    form_class = OrganisationForm

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_organisation(
            actor, organisation_id=row.pk, changes=changes, expected_version=expected_version
        )

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = []
        if changes.get("is_enabled") is False:
            told.append(Check("warn", "Off: every request with one of its keys will be refused."))
        if "time_zone" in changes:
            told.append(Check("info", "Days and months of reports are counted anew in this zone."))
        return Impact(checks=(*told, *checks_of(draft, ORGANISATIONS.key)))
