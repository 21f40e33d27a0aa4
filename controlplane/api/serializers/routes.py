"""The shape of a route and of its targets."""

from rest_framework import serializers

from controlplane.api.serializers.strict import (
    BoundedNumberField,
    NameOrIdField,
    OwnedSerializer,
    StrictSerializer,
    whole,
)
from controlplane.models.kinds import accountings, strategies
from inference.contract.params import MAX_WEIGHT, ROUTE_BOUNDS, TARGET_BOUNDS


def _timeout(name: str) -> serializers.IntegerField:
    return whole(
        TARGET_BOUNDS[name],
        required=False,
        allow_null=True,
        help_text="Of one attempt here; null is the route's. Left out, the target keeps its own.",
    )


class TargetSerializer(StrictSerializer):
    id = serializers.CharField(
        required=False, help_text="Of a target the route has; left out, the pool says which."
    )
    pool = NameOrIdField()
    weight = serializers.IntegerField(min_value=0, max_value=MAX_WEIGHT)
    connect_timeout_ms = _timeout("connect_timeout_ms")
    first_byte_timeout_ms = _timeout("first_byte_timeout_ms")
    idle_timeout_ms = _timeout("idle_timeout_ms")
    total_timeout_ms = _timeout("total_timeout_ms")


class RouteSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=128, help_text="What callers write in `model`.")
    targets = TargetSerializer(many=True)
    strategy = serializers.ChoiceField(
        choices=strategies(),
        required=False,
        help_text="`least_work` sends to the worker with the shortest wait, whichever target's; "
        "weights decide among equals. `weighted` divides requests by weight.",
    )
    is_enabled = serializers.BooleanField(required=False)
    accounting = serializers.ChoiceField(choices=accountings(), required=False)
    default_max_output_tokens = whole(ROUTE_BOUNDS["default_max_output_tokens"], required=False)
    max_attempts = whole(ROUTE_BOUNDS["max_attempts"], required=False)
    connect_timeout_ms = whole(ROUTE_BOUNDS["connect_timeout_ms"], required=False)
    first_byte_timeout_ms = whole(ROUTE_BOUNDS["first_byte_timeout_ms"], required=False)
    idle_timeout_ms = whole(ROUTE_BOUNDS["idle_timeout_ms"], required=False)
    total_timeout_ms = whole(ROUTE_BOUNDS["total_timeout_ms"], required=False, allow_null=True)
    retry_budget_percent = whole(
        ROUTE_BOUNDS["retry_budget_percent"],
        required=False,
        help_text="At most this share of recent requests, and a few, may be attempted again.",
    )
    max_wait_penalty = BoundedNumberField(
        ROUTE_BOUNDS["max_wait_penalty"],
        required=False,
        help_text="How much longer a wait `least_work` accepts at a worker that has most of the "
        "prompt cached; 1 is one second of prefill or one full batch.",
    )
    keep_alive_ms = whole(
        ROUTE_BOUNDS["keep_alive_ms"],
        required=False,
        allow_null=True,
        help_text="A stream that is silent for so long gets a comment, before its first content "
        "too, and no other target is tried after it. Null: only once the answer has begun.",
    )
