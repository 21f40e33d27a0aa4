"""Limits by REST."""

from collections.abc import Sequence
from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.limits import LimitSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.decisions.limits import limit_words
from controlplane.decisions.subjects import subject_words
from controlplane.models import Organisation
from controlplane.selectors.filters import LimitFilters
from controlplane.selectors.limits import list_limits
from controlplane.selectors.subjects import list_subject_names
from controlplane.services.limits import create_limit, delete_limit, update_limit


class LimitView(Bulk, Creating, Changing, Removing):
    noun = "limits"
    selector = staticmethod(list_limits)
    serializer_class = LimitSerializer
    filterset_class = LimitFilters
    orderings = BY_NAME

    def complete(self, rows: Sequence[Any]) -> None:
        """What each is of, and what it counts in words; names by one query."""
        names = list_subject_names(self.access, rows)
        for row in rows:
            row.subject_name = names.get(row.subject_id or "")
            about = subject_words(row.subject, row.subject_id, row.subject_name)
            row.counts = limit_words(row.unit, row.window, row.amount, about)

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_limit(self.actor, organisation=organisation, **values)

    def changed(self, row: Any) -> None:
        # what is sent back unchanged is compared with what was told
        self.complete((row,))
        super().changed(row)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_limit(
            self.actor, limit_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_limit(self.actor, limit_id=row.pk, expected_version=expected_version)
