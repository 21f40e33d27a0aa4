"""Service accounts by REST."""

from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.service_accounts import ServiceAccountSerializer
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.models import Organisation
from controlplane.selectors.filters import ServiceAccountFilters
from controlplane.selectors.users import list_service_accounts
from controlplane.services.users import (
    create_service_account,
    delete_service_account,
    update_service_account,
)


class ServiceAccountView(Creating, Changing, Removing):
    noun = "service_accounts"
    is_for_whole = True
    selector = staticmethod(list_service_accounts)
    serializer_class = ServiceAccountSerializer
    filterset_class = ServiceAccountFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_service_account(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_service_account(
            self.actor,
            service_account_id=row.pk,
            changes=changes,
            expected_version=expected_version,
            keep_admin=not self.access.is_platform_admin,
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_service_account(
            self.actor,
            service_account_id=row.pk,
            expected_version=expected_version,
            keep_admin=not self.access.is_platform_admin,
        )
