"""Filters of lists. A parameter nobody knows is refused: ignored, it would list everything."""

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.api.pagination import ORDERING

DRY_RUN = "dry_run"
"""Of every write, which finds its row as a list would."""

_OF_PAGES = frozenset(("cursor", "page_size"))


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise ValidationError at each query parameter that isn't among the known ones."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        raise ValidationError({name: ["There is no such parameter."] for name in unknown})


class StrictFilterBackend(DjangoFilterBackend):
    """Refuses unknown parameters, then filters. A view may name `query_parameters` of its own."""

    def filter_queryset(
        self, request: Request, queryset: QuerySet[Any], view: APIView
    ) -> QuerySet[Any]:
        filters = self.get_filterset_class(view, queryset)
        own = getattr(view, "query_parameters", frozenset())
        if getattr(view, "orderings", ()):
            own = own | {ORDERING}
        if request.method not in SAFE_METHODS:
            own = own | {DRY_RUN}
        refuse_unknown(request, _OF_PAGES | own | set(filters.base_filters if filters else ()))
        return super().filter_queryset(request, queryset, view)
