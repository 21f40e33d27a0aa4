"""The shape of a version of the configuration."""

from rest_framework import serializers

from controlplane.models import ConfigRevision


class RevisionSerializer(serializers.Serializer[ConfigRevision]):
    lineage = serializers.CharField(read_only=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    organisation_id = serializers.CharField(read_only=True, allow_null=True)
    actor_kind = serializers.CharField(read_only=True)
    actor_id = serializers.CharField(read_only=True)
    actor_label = serializers.CharField(read_only=True)
    reason = serializers.CharField(read_only=True)
    request_id = serializers.CharField(read_only=True)
