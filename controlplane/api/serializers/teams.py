"""The shape of a team."""

from rest_framework import serializers

from controlplane.api.serializers.strict import OwnedSerializer


class TeamSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=100)
