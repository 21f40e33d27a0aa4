"""The shape of a price."""

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, NanoUsdField, OwnedSerializer


class PriceSerializer(OwnedSerializer):
    """Nano-USD for a million tokens. A model without a price costs an unknown amount, never 0."""

    create_only = frozenset({"organisation", "model"})

    model = NameOrIdField()
    model_id = serializers.CharField(read_only=True)
    input_nanousd_per_mtok = NanoUsdField()
    output_nanousd_per_mtok = NanoUsdField()
    cached_input_nanousd_per_mtok = NanoUsdField(required=False, allow_null=True)
