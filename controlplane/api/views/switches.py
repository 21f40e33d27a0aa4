"""Kill switches by REST: POST throws one, DELETE puts back, the list is what is off."""

from collections.abc import Sequence
from typing import Any

from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.switches import SwitchSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.models import Organisation
from controlplane.selectors.filters import SwitchFilters
from controlplane.selectors.subjects import list_subject_names
from controlplane.selectors.switches import list_switches
from controlplane.services.switches import put_back_switch, throw_switch, update_switch


class SwitchView(Bulk, Creating, Changing, Removing):
    noun = "switches"
    selector = staticmethod(list_switches)
    serializer_class = SwitchSerializer
    filterset_class = SwitchFilters
    orderings = BY_ID

    def complete(self, rows: Sequence[Any]) -> None:
        """The names of what is off, by one query."""
        names = list_subject_names(self.access, rows)
        for row in rows:
            row.subject_name = names.get(row.subject_id or "")

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return throw_switch(self.actor, organisation=organisation, **values)

    def changed(self, row: Any) -> None:
        # what is sent back unchanged is compared with what was told
        self.complete((row,))
        super().changed(row)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_switch(
            self.actor, switch_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        put_back_switch(self.actor, switch_id=row.pk, expected_version=expected_version)
