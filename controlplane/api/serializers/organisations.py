"""The shape of an organisation."""

from rest_framework import serializers

from controlplane.api.serializers.strict import StrictSerializer


class OrganisationSerializer(StrictSerializer):
    id = serializers.CharField(read_only=True)
    name = serializers.CharField(max_length=100)
    time_zone = serializers.CharField(
        max_length=64, required=False, help_text="Reporting time zone, such as Europe/Berlin."
    )
    is_enabled = serializers.BooleanField(
        required=False, help_text="A disabled organisation's keys are refused."
    )
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)
