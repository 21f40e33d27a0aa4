"""Pools by REST."""

from typing import Any

from rest_framework import status
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from controlplane.api.serializers.pools import ListedPoolSerializer, PoolSerializer
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.bridge.vitals import read_workers
from controlplane.models import Organisation
from controlplane.selectors.pools import list_pools
from controlplane.services.pools import create_pool, delete_pool, update_pool


class PoolView(Creating, Changing, Removing):
    noun = "pools"
    selector = staticmethod(list_pools)
    serializer_class = PoolSerializer
    filterset_fields = ("name", "model", "provisioner", "power", "organisation")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return ListedPoolSerializer if self.action == "list" else PoolSerializer

    def shown(self, row: Any, *, code: int = status.HTTP_200_OK) -> Response:
        """One pool, with what its workers are doing now."""
        row.workers = read_workers(row.pk)
        return super().shown(row, code=code)

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_pool(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_pool(self.actor, pool_id=row.pk, changes=changes, expected_version=expected_version)

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_pool(self.actor, pool_id=row.pk, expected_version=expected_version)
