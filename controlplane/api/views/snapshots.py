"""Versions of the configuration by REST: what they held, how they differ, and the way back."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.snapshots import (
    DifferenceSerializer,
    RestoredSerializer,
    RestoreSerializer,
    RevisionDetailSerializer,
    RevisionSerializer,
)
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import TenantView
from controlplane.decisions.versions import compare, tell
from controlplane.errors import Invalid
from controlplane.models import ConfigRevision
from controlplane.selectors.filters import SnapshotFilters
from controlplane.selectors.revisions import list_changed_nouns
from controlplane.selectors.snapshots import (
    get_newest_revision,
    get_records,
    get_revision,
    list_revisions,
)
from controlplane.services.restores import restore

_NOUNS = (
    *("organisations", "models", "prices", "pools", "routes", "keys", "limits", "budgets"),
    *("switches", "caches", "purges", "gateways"),
)
_NUMBER = r"[1-9][0-9]{0,17}"
_VERSION = OpenApiParameter(
    "version", {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}, OpenApiParameter.PATH
)
_TO = OpenApiParameter(
    "to",
    {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    OpenApiParameter.QUERY,
    description="The version to compare with; left out, the newest.",
)
_NOUN = OpenApiParameter(
    "noun",
    OpenApiTypes.STR,
    OpenApiParameter.QUERY,
    enum=_NOUNS,
    description="This noun's records alone.",
)


class SnapshotView(ListModelMixin, TenantView):
    """Versions that edits of your organisations made, newest first."""

    queryset = ConfigRevision.objects.none()
    serializer_class = RevisionSerializer
    filterset_class = SnapshotFilters
    orderings = BY_ID
    is_for_whole = True
    lookup_field = "version"
    lookup_value_regex = _NUMBER

    def get_queryset(self) -> QuerySet[ConfigRevision]:
        return list_revisions(self.access)

    def list(self, request: Request) -> Response:
        """List versions that edits of your organisations made, newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or ()
        return self.get_paginated_response([_told(one) for one in _with_changes(page)])

    @extend_schema(
        parameters=[_VERSION, ORGANISATION, _NOUN],
        responses=RevisionDetailSerializer,
        filters=False,
    )
    def retrieve(self, request: Request, version: str) -> Response:
        """Read one version with what it held of an organisation."""
        refuse_unknown(request, (ORGANISATION.name, _NOUN.name))
        revision = get_revision(self.access, int(version))
        records = get_records(revision, organisation_asked(self).pk)
        wanted = request.query_params.get(_NOUN.name)
        if wanted not in (None, *_NOUNS):
            raise Invalid.field(_NOUN.name, f"Choose from {', '.join(_NOUNS)}.")
        contents = {
            noun: [tell(record) for record in found.values()]
            for noun, found in records.items()
            if wanted in (None, noun)
        }
        (whole,) = _with_changes([revision])
        return Response({**_told(whole), "contents": contents})

    @extend_schema(
        parameters=[_VERSION, _TO, ORGANISATION], responses=DifferenceSerializer, filters=False
    )
    @action(detail=True, methods=["get"], filter_backends=(), pagination_class=None)
    def diff(self, request: Request, version: str) -> Response:
        """Compare what two versions held of an organisation."""
        refuse_unknown(request, (ORGANISATION.name, _TO.name))
        organisation = organisation_asked(self)
        revision = get_revision(self.access, int(version))
        other = self._compared_with(request.query_params.get(_TO.name), revision)
        differences = compare(
            get_records(revision, organisation.pk), get_records(other, organisation.pk)
        )
        answer = {"version": revision.version, "to": other.version, "nouns": differences}
        return Response(DifferenceSerializer(answer).data)

    @extend_schema(
        parameters=[_VERSION],
        request=RestoreSerializer,
        responses={200: RestoredSerializer},
        filters=False,
    )
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, version: str) -> Response:
        """Put the rows of these nouns back to what the version held, as a new edit.

        If-Match is the version that was current when this was decided: 412 if the organisation's
        configuration has changed since.
        """
        serializer = RestoreSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        organisation = self.organisation()
        for noun in asked["nouns"]:
            self.require_write(noun, organisation.pk)
        revision = get_revision(self.access, int(version))
        restored = restore(
            self.actor,
            organisation=organisation,
            version=revision.version,
            nouns=asked["nouns"],
            reason=asked["reason"],
            expected_version=self.expected_version(),
        )
        answer = {
            "version": restored.revision.version,
            "is_changed": restored.is_changed,
            "warnings": restored.warnings,
        }
        return Response(RestoredSerializer(answer).data)

    def _compared_with(self, asked: str | None, revision: ConfigRevision) -> ConfigRevision:
        if asked is None:
            return get_newest_revision() or revision
        if not (asked.isascii() and asked.isdecimal() and 0 < len(asked) <= 18):
            raise Invalid.field(_TO.name, "Give the number of a version.")
        return get_revision(self.access, int(asked))


def _with_changes(revisions: Sequence[Any]) -> Sequence[Any]:
    """The versions, each with the nouns it changed, by one query."""
    changed = list_changed_nouns(revisions)
    for one in revisions:
        one.changed_nouns = changed.get(one.pk)
    return revisions


def _told(revision: ConfigRevision) -> dict[str, Any]:
    return dict(RevisionSerializer(revision).data)
