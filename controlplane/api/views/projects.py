"""Projects by REST."""

from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.projects import ProjectSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Place, Removing, named
from controlplane.models import Organisation, Project, Team
from controlplane.selectors.filters import ProjectFilters
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.services.projects import create_project, delete_project, update_project


class ProjectView(Bulk, Creating, Changing, Removing):
    noun = "projects"
    selector = staticmethod(list_projects)
    serializer_class = ProjectSerializer
    filterset_class = ProjectFilters
    orderings = BY_NAME

    def place_of(self, row: Any) -> Place:
        return {"team_id": row.team_id, "project_id": row.pk}

    def place_above(self, row: Any) -> Place:
        return {"team_id": row.team_id}

    def place_of_new(self, organisation: Organisation) -> Place:
        team = self.of_body(organisation.teams.all(), "team")
        return {} if team is None else {"team_id": team.pk}

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        team = named(organisation.teams.all(), "team", values["team"])
        return create_project(self.actor, organisation=organisation, team=team, name=values["name"])

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        if "team" in changes:
            changes = {**changes, "team": self._team_to(row, changes["team"])}
        update_project(
            self.actor, project_id=row.pk, changes=changes, expected_version=expected_version
        )

    def _team_to(self, row: Project, asked: str) -> Team:
        """The team asked for; moving between teams takes a role in both."""
        if asked in (row.team_id, row.team.name):
            return row.team
        self.require_write(self.noun, row.organisation_id, team_id=row.team_id)
        teams = list_teams(self.access).filter(organisation=row.organisation_id)
        team = named(teams, "team", asked)
        self.require_write(self.noun, row.organisation_id, team_id=team.pk)
        return team

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_project(self.actor, project_id=row.pk, expected_version=expected_version)
