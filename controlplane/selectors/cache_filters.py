"""What lists of cache policies and purges can be asked for."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django_filters import ChoiceFilter

from controlplane.models import CachePolicy, Purge
from controlplane.models.kinds import cache_scopes, cache_tiers, purge_kinds
from controlplane.selectors.filters import (
    NamedFilters,
    ReferenceFilter,
    RowFilters,
    SearchFilter,
    TruthFilter,
)
from controlplane.selectors.request_filters import TextFilter


class PolicyFilters(NamedFilters):
    scope = ChoiceFilter(label="Shared by", choices=cache_scopes, empty_label="any")
    tier = ChoiceFilter(label="Tier", choices=cache_tiers, empty_label="any", method="filter_tier")
    route = TextFilter(
        label="Route", method="filter_route", help_text="Id or name of a route that has it."
    )
    is_enabled = TruthFilter(label="On")

    class Meta:
        model = CachePolicy
        fields: ClassVar[list[str]] = []

    def filter_tier(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return rows.filter(tiers__contains=[value])

    def filter_route(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        # by subquery: a join would list a policy once a route
        found = CachePolicy.objects.filter(routes__pk=value) | CachePolicy.objects.filter(
            routes__name=value
        )
        return rows.filter(pk__in=found.values("pk"))


class PurgeFilters(RowFilters):
    search = SearchFilter("value", "reason", "made_by")
    organisation = ReferenceFilter(label="Organisation")
    kind = ChoiceFilter(label="Takes out", choices=purge_kinds, empty_label="any")
    value = TextFilter(label="Value", help_text="The whole value; of a policy its id.")

    class Meta:
        model = Purge
        fields: ClassVar[list[str]] = []
