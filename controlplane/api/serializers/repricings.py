"""The shapes of repricings and corrections."""

import re
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.serializers.strict import StrictSerializer
from controlplane.models import RepricingState
from controlplane.services.corrections import SUBJECTS

_SIGNED = re.compile(r"-?[0-9]{1,19}")


@extend_schema_field(
    {"type": "string", "pattern": "^-?[0-9]{1,19}$", "description": "Whole nano-USD, signed"}
)
class SignedNanoUsdField(serializers.Field):  # type: ignore[type-arg]
    """Money that may be taken away, as text; whole numbers are taken too."""

    default_error_messages = {"invalid": 'Give whole nano-USD as text, such as "-1500000".'}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | str):
            self.fail("invalid")
        if isinstance(data, str) and not _SIGNED.fullmatch(data):
            self.fail("invalid")
        return int(data)

    def to_representation(self, value: int) -> str:
        return str(value)


class SideSerializer(serializers.Serializer[Any]):
    """Known costs before and after, nano-USD, and attempts: all, changed, of unknown cost."""

    before_nanousd = SignedNanoUsdField()
    after_nanousd = SignedNanoUsdField()
    attempts = serializers.IntegerField()
    changed = serializers.IntegerField()
    unknown_before = serializers.IntegerField()
    unknown_after = serializers.IntegerField()


class SumsSerializer(serializers.Serializer[Any]):
    total = SideSerializer()
    by_team = serializers.DictField(child=SideSerializer(), help_text="By the team's id.")
    by_model = serializers.DictField(child=SideSerializer(), help_text="By the model's id.")


class RepricingAskedSerializer(StrictSerializer):
    """Which requests to price anew: those that came in [since, until), of what is named."""

    organisation = serializers.CharField(required=False)
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    team = serializers.CharField(required=False, allow_null=True, help_text="Name or id.")
    project = serializers.CharField(required=False, allow_null=True, help_text="Name or id.")
    model = serializers.CharField(required=False, allow_null=True, help_text="Name or id.")
    pool = serializers.CharField(required=False, allow_null=True, help_text="Name or id.")
    reason = serializers.CharField(max_length=2_000)


class RepricingSerializer(serializers.Serializer[Any]):
    """A repricing. It is summed first; booking is another call, and adds corrections."""

    id = serializers.CharField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    reason = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    scope = serializers.DictField(child=serializers.CharField())
    state = serializers.ChoiceField(choices=RepricingState.choices)
    done = serializers.IntegerField()
    total = serializers.IntegerField()
    sums = SumsSerializer(allow_null=True)
    corrections = serializers.IntegerField()
    corrected_nanousd = SignedNanoUsdField()
    booked_by = serializers.CharField()
    detail = serializers.CharField()
    ended_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> Any:
        instance.sums = instance.sums or None
        return super().to_representation(instance)


class CorrectionSerializer(StrictSerializer):
    """One change of what was booked. The ledger's rows stay as they are."""

    id = serializers.CharField(read_only=True)
    organisation_id = serializers.CharField(read_only=True)
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
    subject = serializers.ChoiceField(choices=SUBJECTS, write_only=True)
    subject_id = serializers.CharField(
        write_only=True, required=False, allow_null=True, help_text="Name or id."
    )
    model = serializers.CharField(
        write_only=True, required=False, allow_null=True, help_text="Name or id."
    )
    end_user = serializers.CharField(required=False, allow_null=True, max_length=255)
    at = serializers.DateTimeField(required=False)
    amount_nanousd = SignedNanoUsdField()
    reason = serializers.CharField(max_length=2_000)
    booked_at = serializers.DateTimeField(read_only=True)
    created_by = serializers.CharField(read_only=True)
    team_id = serializers.CharField(read_only=True)
    project_id = serializers.CharField(read_only=True)
    key_id = serializers.CharField(read_only=True)
    route_id = serializers.CharField(read_only=True)
    pool_id = serializers.CharField(read_only=True)
    model_id = serializers.CharField(read_only=True)
    repricing_id = serializers.CharField(read_only=True, allow_null=True)
    event_id = serializers.CharField(read_only=True, allow_null=True)
    attempt = serializers.IntegerField(read_only=True, allow_null=True)
    version_id = serializers.CharField(read_only=True, allow_null=True)
