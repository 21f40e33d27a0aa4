"""The shape of a limit."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import OwnedSerializer, whole
from controlplane.models.kinds import enforcements, limit_subjects, limit_units, limit_windows
from inference.contract.params import LIMIT_BOUNDS


class LimitSerializer(OwnedSerializer):
    """At most `amount` of `unit` in each `window` for one subject, or for each one of its kind."""

    name = serializers.CharField(max_length=100)
    subject = serializers.ChoiceField(
        choices=limit_subjects(), help_text="Whose requests are counted together."
    )
    subject_id = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Name or id of the one that is meant, of an end user what callers write; shown "
        "as its id. Null: each one is counted apart; for the organisation: all together.",
    )
    subject_name = serializers.CharField(
        read_only=True, allow_null=True, help_text="Of the one that is meant; null: no single one."
    )
    unit = serializers.ChoiceField(choices=limit_units())
    window = serializers.ChoiceField(
        choices=limit_windows(),
        required=False,
        allow_null=True,
        help_text="Needed by every unit but `parallel`, which has none.",
    )
    amount = whole(LIMIT_BOUNDS["amount"], help_text="0 is none: every request is refused.")
    enforcement = serializers.ChoiceField(
        choices=enforcements(),
        required=False,
        help_text="`strict`: refuse while the store that counts does not answer.",
    )
    is_enabled = serializers.BooleanField(required=False)
    counts = serializers.CharField(read_only=True, help_text="The same in words.")
    duplicates = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Names of other limits, switched on, that count the same; the least amount "
        "decides.",
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # a caller that sends back what it read can't know what was made beside it since
        if name == "duplicates" and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)
