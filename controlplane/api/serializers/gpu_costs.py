"""The shapes of what GPUs cost."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.repricings import SignedNanoUsdField
from controlplane.api.serializers.strict import NanoUsdField, OwnedSerializer
from controlplane.decisions.gpu_costs import OwnCostKind
from controlplane.models.gpu_costs import GPU_TYPE_LENGTH
from controlplane.models.kinds import capacity_classes, choices_of


class GpuPriceSerializer(OwnedSerializer):
    """What an hour of one GPU costs from a moment on. A later one follows it; none is changed."""

    gpu_type = serializers.CharField(max_length=GPU_TYPE_LENGTH, help_text="Such as H100.")
    capacity_class = serializers.ChoiceField(choices=capacity_classes())
    hour_nanousd = NanoUsdField()
    effective_from = serializers.DateTimeField(required=False)
    is_confirmed = serializers.BooleanField(
        required=False, write_only=True, help_text="Means one above $100 an hour."
    )


class CostLineSerializer(serializers.Serializer[Any]):
    """One group's part; idle GPU time is a line of its own. Null is not known, never 0."""

    kind = serializers.ChoiceField(choices=choices_of(OwnCostKind))
    value = serializers.CharField(help_text='Id of the group; "" where it has none.')
    gpu_seconds = serializers.FloatField()
    tokens = serializers.IntegerField(help_text="Uncached prompt and completion.")
    attempts = serializers.IntegerField()
    own_nanousd = NanoUsdField(allow_null=True, help_text="What the GPUs' time cost.")
    list_nanousd = NanoUsdField(
        allow_null=True, help_text="What was booked at list price; never added to own cost."
    )
    own_nanousd_per_mtok = NanoUsdField(allow_null=True)


class MarginLineSerializer(serializers.Serializer[Any]):
    """One group: what customers are asked, and what was booked with its corrections."""

    value = serializers.CharField(help_text='Id of the group; "" where it has none.')
    revenue_nanousd = SignedNanoUsdField()
    unknown_revenue = serializers.IntegerField(
        help_text="Attempts without a customer price or of unknown tokens."
    )
    cost_nanousd = SignedNanoUsdField()
    unknown_cost = serializers.IntegerField(help_text="Attempts of unknown cost.")
    attempts = serializers.IntegerField()
    tokens = serializers.IntegerField(help_text="In and out, of attempts with a customer price.")
    revenue_nanousd_per_mtok = SignedNanoUsdField(
        allow_null=True, help_text="Revenue of a million of those tokens; null without any."
    )
    revenue_nanousd_per_attempt = SignedNanoUsdField(
        allow_null=True, help_text="Revenue of an attempt with a customer price; null without any."
    )
    margin_nanousd = SignedNanoUsdField(
        allow_null=True, help_text="Revenue less cost; null while any of either isn't known."
    )


class MarginsSerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    group = serializers.CharField()
    lines = MarginLineSerializer(many=True)


class OwnCostsSerializer(serializers.Serializer[Any]):
    """Own cost of a time, beside list price."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    group = serializers.CharField()
    computed_at = serializers.DateTimeField(allow_null=True)
    lines = CostLineSerializer(many=True)
