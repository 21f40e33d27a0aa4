"""Cache policies and purges by REST."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.caches import PolicySerializer, PurgeSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.decisions.caches import may_set_scope, purge_words
from controlplane.errors import NotAllowed
from controlplane.models import Organisation
from controlplane.selectors.cache_filters import PolicyFilters, PurgeFilters
from controlplane.selectors.caches import list_policies, list_policy_names, list_purges
from controlplane.services.caches import create_policy, delete_policy, update_policy
from controlplane.services.purges import create_purge


class PolicyView(Bulk, Creating, Changing, Removing):
    noun = "caches"
    selector = staticmethod(list_policies)
    serializer_class = PolicySerializer
    filterset_class = PolicyFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        self._refuse_sharing(values, None)
        return create_policy(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        self._refuse_sharing(changes, row.scope)
        update_policy(
            self.actor, policy_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_policy(self.actor, policy_id=row.pk, expected_version=expected_version)

    def _refuse_sharing(self, values: Mapping[str, Any], before: str | None) -> None:
        is_root = self.access.is_platform_admin
        if not may_set_scope(before, values.get("scope", before), is_platform_admin=is_root):
            raise NotAllowed("Sharing answers with other organisations is the platform's to set.")


class PurgeView(Creating):
    noun = "purges"
    selector = staticmethod(list_purges)
    serializer_class = PurgeSerializer
    filterset_class = PurgeFilters
    is_for_whole: ClassVar[bool] = True

    def complete(self, rows: Sequence[Any]) -> None:
        """What each takes out, in words; names of policies by one query."""
        names = list_policy_names(self.access, rows)
        for row in rows:
            row.takes_out = purge_words(row.kind, row.value, names.get(row.value))

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_purge(self.actor, organisation=organisation, **values)
