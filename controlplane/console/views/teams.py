"""The pages of teams."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact
from controlplane.console.editing import EditPage
from controlplane.console.forms.organisations import TeamForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import ORGANISATIONS, PROJECTS, TEAMS
from controlplane.console.tables.organisations import TeamTable
from controlplane.models import Team
from controlplane.selectors.filters import TeamFilters
from controlplane.selectors.teams import list_teams
from controlplane.selectors.tree import list_projects_sized, list_teams_sized
from controlplane.services.actors import Actor
from controlplane.services.teams import create_team, delete_team, update_team


class TeamList(ListPage):
    noun = TEAMS
    selector = staticmethod(list_teams_sized)
    filters = TeamFilters
    table = TeamTable
    intro = "Whom projects belong to; roles can be held in one"
    empty = Empty("There is no team", "A team holds projects, and roles in it reach all of them.")


class TeamDetail(DetailPage):
    noun = TEAMS
    selector = staticmethod(list_teams)
    tells_budgets = True
    template_name = "console/teams/detail.html"
    is_name_mono = False

    def place_of(self, row: Team) -> Mapping[str, str]:
        return {"team_id": row.pk}

    def facts_of(self, row: Team) -> Sequence[Fact]:
        home = self.scope.organisation
        return (
            Fact("Organisation", home.name, ORGANISATIONS.detail_url(home.pk)),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Team, tab: str) -> Mapping[str, Any]:
        may_add = self.may_write("projects", team_id=row.pk)
        return {
            "projects": list_projects_sized(self.scope.access).filter(team=row).order_by("name"),
            "new_project": f"{PROJECTS.create_url()}?team={row.pk}" if may_add else "",
        }


class TeamCreate(CreatePage):
    noun = TEAMS
    form_class = TeamForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Team:
        return create_team(actor, organisation=self.scope.organisation, **values)


class TeamEdit(EditPage):
    noun = TEAMS
    selector = staticmethod(list_teams)
    form_class = TeamForm

    def place_of(self, row: Team) -> Mapping[str, str]:
        return {"team_id": row.pk}

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_team(
            actor, team_id=row.pk, changes=changes, expected_version=expected_version
        )


class TeamDelete(DeletePage):
    noun = TEAMS
    selector = staticmethod(list_teams)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_team(actor, team_id=row.pk, expected_version=expected_version)
