"""The shape of a kill switch that is thrown."""

from rest_framework import serializers

from controlplane.api.serializers.strict import OwnedSerializer
from controlplane.models.kinds import switch_subjects


class SwitchSerializer(OwnedSerializer):
    """Something that is off: its requests are refused until it is put back, or until a time."""

    create_only = frozenset({"organisation", "subject", "subject_id"})

    subject = serializers.ChoiceField(choices=switch_subjects(), help_text="What is off.")
    subject_id = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Name or id; shown as the id. Null for the organisation, and only for it.",
    )
    subject_name = serializers.CharField(read_only=True, allow_null=True)
    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="Told to callers, so no secret."
    )
    expires_at = serializers.DateTimeField(
        required=False,
        allow_null=True,
        help_text="From then on requests are served again; null: until it is put back.",
    )
