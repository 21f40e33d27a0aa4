"""The shapes of a token: as it is, and the one answer that has its text."""

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, StrictSerializer


class TokenSerializer(StrictSerializer):
    id = serializers.CharField(read_only=True)
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
    organisation_id = serializers.CharField(
        source="service_account.organisation_id", read_only=True
    )
    service_account = NameOrIdField()
    service_account_id = serializers.CharField(read_only=True)
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Null: until it is revoked."
    )
    revoked_at = serializers.DateTimeField(read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class NewTokenSerializer(TokenSerializer):
    """A token with its text, which is never shown again."""

    token = serializers.CharField(read_only=True, help_text="The token itself, shown this once.")
