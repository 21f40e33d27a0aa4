"""Pools by REST."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.pools import (
    ListedPoolSerializer,
    PoolSerializer,
    WorkerLogSerializer,
)
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.bridge.breakers import breakers_in, last_resort_in, panic_in
from controlplane.bridge.conditions import condition_in, entries_by_pool
from controlplane.bridge.logs import read_worker_log
from controlplane.bridge.vitals import read_fleet, workers_of
from controlplane.models import Organisation
from controlplane.selectors.filters import PoolFilters
from controlplane.selectors.pools import get_worker_id, list_pools, require_logs
from controlplane.services.pools import create_pool, delete_pool, update_pool


class PoolView(Bulk, Creating, Changing, Removing):
    noun = "pools"
    selector = staticmethod(list_pools)
    serializer_class = PoolSerializer
    filterset_class = PoolFilters
    orderings = BY_NAME

    @property
    def query_parameters(self) -> frozenset[str]:
        """What the address may carry besides the filters."""
        return frozenset(("worker",)) if self.action == "logs" else frozenset()

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return ListedPoolSerializer if self.action in ("list", "bulk") else PoolSerializer

    def complete(self, rows: Sequence[Any]) -> None:
        """How each is and what its workers are doing, by one read of the fleet; None if unknown."""
        fleet = None if self.is_draft else read_fleet()
        entries = entries_by_pool(fleet)
        for row in rows:
            row.condition = row.workers = row.breakers = None
            row.panic_at = row.last_resort_at = None
            if fleet is not None and entries is not None:
                is_whole = self.access.reads_organisation(row.organisation_id)
                row.condition = condition_in(fleet, entries, row, is_whole=is_whole)
                if self.get_serializer_class() is PoolSerializer:
                    row.workers = workers_of(fleet, row.pk, is_whole=is_whole)
                    if is_whole:
                        row.breakers = breakers_in(fleet, row)
                        row.panic_at = panic_in(fleet, row, row.breakers)
                        row.last_resort_at = last_resort_in(fleet, row, row.breakers)

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_pool(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_pool(self.actor, pool_id=row.pk, changes=changes, expected_version=expected_version)

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_pool(self.actor, pool_id=row.pk, expected_version=expected_version)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "worker", str, description="Id or number of a worker of the pool.", required=True
            )
        ],
        responses={200: WorkerLogSerializer},
    )
    @action(detail=True, methods=["get"])
    def logs(self, request: Request, pk: str) -> Response:
        """Read the end of what one worker printed; its supervisor ships it while you ask."""
        pool = self.get_object()
        require_logs(self.access, pool)
        worker_id = get_worker_id(pool, request.query_params.get("worker", ""))
        return Response(WorkerLogSerializer(read_worker_log(worker_id)).data)
