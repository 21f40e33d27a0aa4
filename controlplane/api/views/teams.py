"""Teams by REST."""

from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.teams import TeamSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Place, Removing
from controlplane.models import Organisation
from controlplane.selectors.filters import TeamFilters
from controlplane.selectors.teams import list_teams
from controlplane.services.teams import create_team, delete_team, update_team


class TeamView(Bulk, Creating, Changing, Removing):
    noun = "teams"
    selector = staticmethod(list_teams)
    serializer_class = TeamSerializer
    filterset_class = TeamFilters
    orderings = BY_NAME

    def place_of(self, row: Any) -> Place:
        return {"team_id": row.pk}

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_team(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_team(self.actor, team_id=row.pk, changes=changes, expected_version=expected_version)

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_team(self.actor, team_id=row.pk, expected_version=expected_version)
