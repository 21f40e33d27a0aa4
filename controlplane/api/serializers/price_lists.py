"""The shapes of price lists in files, and of what is served without a price."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import NanoUsdField, StrictSerializer
from controlplane.decisions.price_lists import MOST_BYTES, LineState


class PriceListSerializer(StrictSerializer):
    """A file's text; `digest` is that of the preview that was looked at."""

    organisation = serializers.CharField(
        required=False, help_text="Name or id; needed only if you have several."
    )
    content = serializers.CharField(
        max_length=MOST_BYTES, trim_whitespace=False, help_text="CSV with a head, or JSON."
    )
    is_confirmed = serializers.BooleanField(
        required=False, help_text="Means prices above a dollar a token."
    )
    digest = serializers.CharField(
        required=False, allow_null=True, max_length=64, help_text="Of the preview; else 409."
    )


class PlannedLineSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField(source="line.number")
    model = serializers.CharField(source="line.model")
    pool = serializers.CharField(source="line.pool", allow_null=True)
    effective_from = serializers.DateTimeField(source="line.effective_from", allow_null=True)
    state = serializers.ChoiceField(choices=[one.value for one in LineState])
    problem = serializers.CharField(help_text="Why it is rejected.")
    before = serializers.DictField(child=NanoUsdField(allow_null=True))
    after = serializers.DictField(child=NanoUsdField(allow_null=True))


class PlannedListSerializer(serializers.Serializer[Any]):
    """What a file comes to, line by line; nothing is stored by a preview."""

    digest = serializers.CharField()
    counts = serializers.DictField(child=serializers.IntegerField())
    lines = PlannedLineSerializer(many=True)


class BookLineSerializer(serializers.Serializer[Any]):
    """A version as files tell it: US dollars for a million tokens; "" is none."""

    model = serializers.CharField()
    pool = serializers.CharField()
    input = serializers.CharField()
    output = serializers.CharField()
    cached_input = serializers.CharField()
    reasoning_output = serializers.CharField()
    embedding_input = serializers.CharField()
    request = serializers.CharField()
    customer_input = serializers.CharField()
    customer_output = serializers.CharField()
    effective_from = serializers.CharField()


class UnpricedSerializer(serializers.Serializer[Any]):
    """A model of which requests of the last week have no cost: unknown, not 0."""

    model_id = serializers.CharField()
    model = serializers.CharField()
    requests = serializers.IntegerField(help_text="Of unknown cost.")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    is_priced_now = serializers.BooleanField(
        help_text="It has a price by now: what is booked can be priced anew."
    )
