"""The audit trail by REST."""

from django.db.models import QuerySet
from rest_framework.mixins import ListModelMixin

from controlplane.api.serializers.audit import AuditSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.models import AuditEntry
from controlplane.selectors.audit import list_audit


class AuditView(ListModelMixin, TenantView):
    """Changes in your organisations, newest first."""

    serializer_class = AuditSerializer
    filterset_fields = {
        "noun": ["exact"],
        "object_id": ["exact"],
        "action": ["exact"],
        "actor_id": ["exact"],
        "request_id": ["exact"],
        "organisation_id": ["exact"],
        "at": ["gte", "lt"],
    }

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return list_audit(self.access)
