"""Versions of the configuration by REST."""

from django.db.models import QuerySet
from rest_framework.mixins import ListModelMixin

from controlplane.api.serializers.snapshots import RevisionSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.models import ConfigRevision
from controlplane.selectors.snapshots import list_revisions


class SnapshotView(ListModelMixin, TenantView):
    """Versions that edits of your organisations made, newest first."""

    serializer_class = RevisionSerializer
    filterset_fields = ("version", "organisation_id")

    def get_queryset(self) -> QuerySet[ConfigRevision]:
        return list_revisions(self.access)
