"""Projects by REST."""

from typing import Any

from controlplane.api.serializers.projects import ProjectSerializer
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.models import Organisation
from controlplane.selectors.projects import list_projects
from controlplane.services.projects import create_project, delete_project, update_project


class ProjectView(Creating, Changing, Removing):
    noun = "projects"
    selector = staticmethod(list_projects)
    serializer_class = ProjectSerializer
    filterset_fields = ("name", "team", "organisation", "is_default")

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        team = named(organisation.teams.all(), "team", values["team"])
        return create_project(self.actor, organisation=organisation, team=team, name=values["name"])

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        if "team" in changes:
            teams = row.organisation.teams.all()
            changes = {**changes, "team": named(teams, "team", changes["team"])}
        update_project(
            self.actor, project_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_project(self.actor, project_id=row.pk, expected_version=expected_version)
