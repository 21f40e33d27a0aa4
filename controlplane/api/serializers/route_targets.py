"""The shape of a route's targets, its own and those of its rules."""

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, StrictSerializer, whole
from inference.contract.params import MAX_TIERS, MAX_WEIGHT, TARGET_BOUNDS


def _timeout(name: str) -> serializers.IntegerField:
    return whole(
        TARGET_BOUNDS[name],
        required=False,
        allow_null=True,
        help_text="Of one attempt here; null is the route's. Left out, the target keeps its own.",
    )


class TargetSerializer(StrictSerializer):
    id = serializers.CharField(
        required=False, help_text="Of a target that is there; left out, the pool says which."
    )
    pool = NameOrIdField()
    weight = serializers.IntegerField(min_value=0, max_value=MAX_WEIGHT)
    tier = serializers.IntegerField(
        min_value=0,
        max_value=MAX_TIERS - 1,
        required=False,
        help_text="Targets of a higher tier are the fallback of those below: tried once none of a "
        "lower one can be. Left out, the target keeps its own; of a new one it is 0.",
    )
    connect_timeout_ms = _timeout("connect_timeout_ms")
    first_byte_timeout_ms = _timeout("first_byte_timeout_ms")
    idle_timeout_ms = _timeout("idle_timeout_ms")
    total_timeout_ms = _timeout("total_timeout_ms")


class RuleTargetSerializer(TargetSerializer):
    pool = serializers.CharField(max_length=255, help_text="Name or id; shown as the id.")
