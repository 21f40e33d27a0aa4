"""The shape of a project."""

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, OwnedSerializer


class ProjectSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=100)
    team = NameOrIdField()
    team_id = serializers.CharField(read_only=True)
    is_default = serializers.BooleanField(read_only=True)
