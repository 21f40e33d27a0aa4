"""The shape of a route and of its targets."""

from rest_framework import serializers

from controlplane.api.serializers.strict import (
    NameOrIdField,
    OwnedSerializer,
    StrictSerializer,
)
from controlplane.models.kinds import accountings, strategies
from inference.contract.params import MAX_WEIGHT


class TargetSerializer(StrictSerializer):
    id = serializers.CharField(
        required=False, help_text="Of a target the route has; left out, the pool says which."
    )
    pool = NameOrIdField()
    weight = serializers.IntegerField(min_value=0, max_value=MAX_WEIGHT)


class RouteSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=128, help_text="What callers write in `model`.")
    targets = TargetSerializer(many=True)
    strategy = serializers.ChoiceField(choices=strategies(), required=False)
    is_enabled = serializers.BooleanField(required=False)
    accounting = serializers.ChoiceField(choices=accountings(), required=False)
    default_max_output_tokens = serializers.IntegerField(min_value=1, required=False)
    max_attempts = serializers.IntegerField(min_value=1, required=False)
    connect_timeout_ms = serializers.IntegerField(min_value=1, required=False)
    first_byte_timeout_ms = serializers.IntegerField(min_value=1, required=False)
    idle_timeout_ms = serializers.IntegerField(min_value=1, required=False)
    total_timeout_ms = serializers.IntegerField(min_value=1, required=False, allow_null=True)
