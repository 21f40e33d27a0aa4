"""The audit trail by REST."""

from django.db.models import QuerySet
from rest_framework.mixins import ListModelMixin

from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.audit import AuditSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.models import AuditEntry
from controlplane.selectors.audit import list_audit
from controlplane.selectors.filters import AuditFilters


class AuditView(ListModelMixin, TenantView):
    """Changes in your organisations, newest first."""

    serializer_class = AuditSerializer
    filterset_class = AuditFilters
    orderings = BY_ID
    is_for_whole = True

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return list_audit(self.access)
