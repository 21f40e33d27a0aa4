"""Filters of lists. A parameter nobody knows is refused: ignored, it would list everything."""

from collections.abc import Collection
from typing import Any

from django.db.models import ForeignKey, OneToOneField, QuerySet
from django_filters import CharFilter
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

_OF_PAGES = frozenset(("cursor", "page_size"))


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise ValidationError at each query parameter that isn't among the known ones."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        raise ValidationError({name: ["There is no such parameter."] for name in unknown})


class RowFilters(FilterSet):
    """Filters made of a view's `filterset_fields`; references are compared as ids.

    A reference looked up instead would tell whether another tenant's row exists.
    """

    class Meta:
        filter_overrides = {
            ForeignKey: {"filter_class": CharFilter},
            OneToOneField: {"filter_class": CharFilter},
        }


class StrictFilterBackend(DjangoFilterBackend):
    """Refuses unknown parameters, then filters. A view may name `query_parameters` of its own."""

    filterset_base = RowFilters

    def filter_queryset(
        self, request: Request, queryset: QuerySet[Any], view: APIView
    ) -> QuerySet[Any]:
        filters = self.get_filterset_class(view, queryset)
        own = getattr(view, "query_parameters", frozenset())
        refuse_unknown(request, _OF_PAGES | own | set(filters.base_filters if filters else ()))
        return super().filter_queryset(request, queryset, view)
