"""Filters of lists. A parameter nobody knows is refused: ignored, it would list everything."""

from typing import Any

from django.db.models import ForeignKey, OneToOneField, QuerySet
from django_filters import CharFilter
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

_OF_PAGES = frozenset(("cursor", "page_size"))


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
    """Refuses unknown parameters, then filters."""

    filterset_base = RowFilters

    def filter_queryset(
        self, request: Request, queryset: QuerySet[Any], view: APIView
    ) -> QuerySet[Any]:
        filters = self.get_filterset_class(view, queryset)
        known = _OF_PAGES | set(filters.base_filters if filters else ())
        unknown = sorted(set(request.query_params) - known)
        if unknown:
            raise ValidationError({name: ["There is no such parameter."] for name in unknown})
        return super().filter_queryset(request, queryset, view)
