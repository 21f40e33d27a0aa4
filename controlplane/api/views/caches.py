"""Cache policies and purges by REST."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.cache_usage import (
    FalseHitSerializer,
    SavingsQuerySerializer,
    SavingsSerializer,
    WhatIfQuerySerializer,
    WhatIfSerializer,
    told_savings,
)
from controlplane.api.serializers.caches import PolicySerializer, PurgeSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.decisions.caches import purge_words
from controlplane.errors import NotAllowed
from controlplane.models import Organisation
from controlplane.selectors.cache_filters import PolicyFilters, PurgeFilters
from controlplane.selectors.cache_usage import (
    MOST_FALSE_HITS,
    CacheRange,
    get_cache_report,
    get_similarities,
    list_false_hits,
)
from controlplane.selectors.cache_what_if import try_policy
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
        return create_policy(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_policy(
            self.actor, policy_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_policy(self.actor, policy_id=row.pk, expected_version=expected_version)

    @extend_schema(request=WhatIfQuerySerializer, responses={200: WhatIfSerializer})
    @action(detail=True, methods=["get", "post"], url_path="what-if")
    def what_if(self, request: Request, pk: str) -> Response:
        """Tell what a policy, or one with these values, would have served in the last day."""
        row = self.get_object()
        if not self.access.reads_organisation(row.organisation_id):
            raise NotAllowed("What caches did is for roles of the whole organisation.")
        asked = WhatIfQuerySerializer(data=request.data if request.method == "POST" else {})
        asked.is_valid(raise_exception=True)
        times, scope = asked.validated_data.get("ttl_s"), asked.validated_data.get("scope")
        ttl_s = None if times is None else {**row.ttl_s, **times}
        found = try_policy(self.access, row, timezone.now(), ttl_s=ttl_s, scope=scope)
        return Response(WhatIfSerializer(found).data)

    @extend_schema(
        parameters=[ORGANISATION, SavingsQuerySerializer],
        responses={200: SavingsSerializer},
        filters=False,
    )
    @action(detail=False, methods=["get"], filter_backends=(), pagination_class=None)
    def savings(self, request: Request) -> Response:
        """Read what caches served and saved, by bucket, tier and route; for whole organisations."""
        asked = SavingsQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        organisation = self._whole()
        route = asked.validated_data.get("route")
        pk = None if route is None else named(organisation.routes.all(), "route", route).pk
        report = get_cache_report(
            self.access,
            organisation,
            CacheRange(asked.validated_data["range"]),
            timezone.now(),
            route_id=pk,
        )
        steps = get_similarities(self.access, organisation, report.since, route_id=pk)
        return Response(SavingsSerializer(told_savings(report, steps)).data)

    @extend_schema(
        parameters=[ORGANISATION], responses={200: FalseHitSerializer(many=True)}, filters=False
    )
    @action(
        detail=False,
        methods=["get"],
        url_path="false-hits",
        filter_backends=(),
        pagination_class=None,
    )
    def false_hits(self, request: Request) -> Response:
        """List the newest hits that were false: by a check, or as somebody told."""
        refuse_unknown(request, (ORGANISATION.name,))
        found = list_false_hits(self.access, self._whole())[:MOST_FALSE_HITS]
        return Response(FalseHitSerializer(found, many=True).data)

    def _whole(self) -> Organisation:
        organisation = organisation_asked(self)
        if not self.access.reads_organisation(organisation.pk):
            raise NotAllowed("What caches did is for roles of the whole organisation.")
        return organisation


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
