"""The shape of an entry of the audit trail."""

from rest_framework import serializers

from controlplane.models import AuditEntry


class AuditSerializer(serializers.Serializer[AuditEntry]):
    id = serializers.IntegerField(read_only=True)
    at = serializers.DateTimeField(read_only=True)
    organisation_id = serializers.CharField(read_only=True, allow_null=True)
    actor_kind = serializers.CharField(read_only=True)
    actor_id = serializers.CharField(read_only=True)
    actor_label = serializers.CharField(read_only=True)
    via = serializers.CharField(read_only=True)
    request_id = serializers.CharField(read_only=True)
    action = serializers.CharField(read_only=True)
    noun = serializers.CharField(read_only=True)
    object_id = serializers.CharField(read_only=True)
    before = serializers.DictField(read_only=True, allow_null=True)
    after = serializers.DictField(read_only=True, allow_null=True)
    reason = serializers.CharField(read_only=True)
