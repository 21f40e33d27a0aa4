"""The shapes of the price book."""

from rest_framework import serializers

from controlplane.api.serializers.strict import (
    NameOrIdField,
    NanoUsdField,
    OwnedSerializer,
    StrictSerializer,
)

_OR_INPUT = "Null: as input."
_OR_OUTPUT = "Null: as output."


class VersionSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What a price is from a moment on; never changed. Without input and output it has ended."""

    id = serializers.CharField()
    effective_from = serializers.DateTimeField()
    input_nanousd_per_mtok = NanoUsdField(allow_null=True)
    output_nanousd_per_mtok = NanoUsdField(allow_null=True)
    cached_input_nanousd_per_mtok = NanoUsdField(allow_null=True, help_text=_OR_INPUT)
    reasoning_output_nanousd_per_mtok = NanoUsdField(allow_null=True, help_text=_OR_OUTPUT)
    embedding_input_nanousd_per_mtok = NanoUsdField(allow_null=True, help_text=_OR_INPUT)
    request_nanousd = NanoUsdField(allow_null=True)
    customer_input_nanousd_per_mtok = NanoUsdField(allow_null=True)
    customer_output_nanousd_per_mtok = NanoUsdField(allow_null=True)
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class DropSerializer(StrictSerializer):
    """Which version to take back."""

    version_id = serializers.CharField(max_length=40)


class PriceSerializer(OwnedSerializer):
    """Nano-USD for a million tokens, in force now. Null is unknown, which is never 0.

    A change is a version that begins at `effective_from`, now if that is left out; it may lie in
    the past, which changes nothing that is booked.
    """

    create_only = frozenset({"organisation", "model", "pool"})

    model = NameOrIdField()
    model_id = serializers.CharField(read_only=True)
    pool = NameOrIdField(
        required=False, allow_null=True, help_text="Of requests it serves; null: of any pool."
    )
    pool_id = serializers.CharField(read_only=True, allow_null=True)
    input_nanousd_per_mtok = NanoUsdField(allow_null=True)
    output_nanousd_per_mtok = NanoUsdField(allow_null=True)
    cached_input_nanousd_per_mtok = NanoUsdField(
        required=False, allow_null=True, help_text=_OR_INPUT
    )
    reasoning_output_nanousd_per_mtok = NanoUsdField(
        required=False, allow_null=True, help_text=_OR_OUTPUT
    )
    embedding_input_nanousd_per_mtok = NanoUsdField(
        required=False, allow_null=True, help_text=_OR_INPUT
    )
    request_nanousd = NanoUsdField(
        required=False, allow_null=True, help_text="For each attempt that was answered."
    )
    customer_input_nanousd_per_mtok = NanoUsdField(
        required=False, allow_null=True, help_text="What customers are asked for it."
    )
    customer_output_nanousd_per_mtok = NanoUsdField(required=False, allow_null=True)
    effective_from = serializers.DateTimeField(required=False)
    is_confirmed = serializers.BooleanField(
        required=False, write_only=True, help_text="Means a price above a dollar a token."
    )
    version_id = serializers.CharField(read_only=True, allow_null=True)
    next = VersionSerializer(read_only=True, allow_null=True)
