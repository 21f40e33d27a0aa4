"""The shapes of a request of the ledger and of its charges. All of it is read-only."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import NanoUsdField
from controlplane.models import Charge, Request
from controlplane.models.keys import key_pk
from controlplane.models.kinds import cache_outcomes, cache_tiers, outcomes
from inference.contract.kinds import ChargeKind, Endpoint, Outcome


def _tokens(help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, help_text=help_text)


class KeyIdField(serializers.CharField):
    """A key's id as it stands everywhere; events have it as it stands in the key's text."""

    def to_representation(self, value: str) -> str:
        return key_pk(value)


class CacheUseSerializer(serializers.Serializer[Any]):
    """What a cache policy did for a request. What a hit saved was never charged."""

    policy_id = serializers.CharField()
    outcome = serializers.ChoiceField(choices=cache_outcomes())
    tier = serializers.ChoiceField(choices=cache_tiers(), allow_null=True)
    entry_id = serializers.CharField(allow_null=True, help_text="Never the key itself.")
    age_ms = serializers.IntegerField(allow_null=True)
    similarity = serializers.FloatField(
        allow_null=True, help_text="Of the nearest by meaning, also where it was refused."
    )
    refused_by = serializers.CharField(allow_null=True, help_text="A guard, or `threshold`.")
    agreed = serializers.BooleanField(
        allow_null=True, help_text="Of a check: whether the fresh answer said the same."
    )
    saved_prompt_tokens = serializers.IntegerField(allow_null=True)
    saved_completion_tokens = serializers.IntegerField(allow_null=True)
    saved_nanousd = NanoUsdField(allow_null=True, help_text="Null is without a price, never 0.")
    saved_ms = serializers.FloatField(allow_null=True)
    inputs = serializers.IntegerField(allow_null=True, help_text="Of embeddings.")
    inputs_hit = serializers.IntegerField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """The stored value, with null for what it doesn't say."""
        return dict(super().to_representation({name: instance.get(name) for name in self.fields}))


class RequestSerializer(serializers.Serializer[Request]):
    id = serializers.CharField(source="event_id", help_text="Ours, as the gateway answered it.")
    at = serializers.DateTimeField(help_text="When it ended.")
    received_at = serializers.DateTimeField(help_text="When it came in at the gateway.")
    recorded_at = serializers.DateTimeField(help_text="When the ledger got it.")
    organisation_id = serializers.CharField()
    team_id = serializers.CharField()
    project_id = serializers.CharField()
    key_id = KeyIdField(help_text="Also of a key that was revoked since.")
    endpoint = serializers.ChoiceField(choices=[one.value for one in Endpoint])
    requested_model = serializers.CharField(help_text="What the caller wrote in `model`.")
    is_stream = serializers.BooleanField()
    route_id = serializers.CharField(allow_null=True)
    route_name = serializers.CharField(allow_null=True)
    pool_id = serializers.CharField(allow_null=True, help_text="Of the last attempt.")
    pool_name = serializers.CharField(allow_null=True)
    model_id = serializers.CharField(allow_null=True)
    model_name = serializers.CharField(allow_null=True)
    worker_id = serializers.CharField(allow_null=True)
    outcome = serializers.ChoiceField(choices=outcomes())
    http_status = serializers.IntegerField(
        allow_null=True, help_text="Null is unknown: the gateway was lost."
    )
    error_code = serializers.CharField(allow_null=True)
    total_ms = serializers.FloatField(
        allow_null=True, help_text="Null is unknown: the gateway was lost."
    )
    queued_ms = serializers.FloatField(allow_null=True)
    first_token_ms = serializers.FloatField(allow_null=True, help_text="From its arrival.")
    attempts = serializers.IntegerField()
    prompt_tokens = _tokens("Sum of the attempts; null is unknown.")
    completion_tokens = _tokens("Sum of the attempts; null is unknown.")
    cached_tokens = _tokens("Part of the prompt's.")
    reasoning_tokens = _tokens("Part of the completion's.")
    cost_nanousd = NanoUsdField(allow_null=True, help_text="Booked; null is without a price.")
    cost_max_nanousd = NanoUsdField(allow_null=True, help_text="The most it can have been.")
    client_request_id = serializers.CharField(allow_null=True)
    end_user = serializers.CharField(allow_null=True, help_text="Whom the caller named.")
    tags = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="The key's and the caller's; null: older than tags.",
    )
    priority = serializers.CharField(allow_null=True, help_text="The class it had.")
    task = serializers.CharField(allow_null=True)
    rule_id = serializers.CharField(
        allow_null=True, help_text="Of the route's rule that decided; null: its own targets."
    )

    cache = CacheUseSerializer(
        allow_null=True, help_text="What a cache did for it; null: no policy bore on it."
    )

    def to_representation(self, instance: Request) -> dict[str, Any]:
        """The row; of a lost gateway nobody knows how it answered or when."""
        told = dict(super().to_representation(instance))
        if instance.outcome == Outcome.LOST_GATEWAY:
            told |= {"http_status": None, "total_ms": None}
        return told


class ChargeSerializer(serializers.Serializer[Charge]):
    attempt = serializers.IntegerField()
    target_id = serializers.CharField()
    pool_id = serializers.CharField()
    pool_name = serializers.CharField(allow_null=True)
    model_id = serializers.CharField()
    model_name = serializers.CharField(allow_null=True)
    worker_id = serializers.CharField()
    kind = serializers.ChoiceField(
        choices=[one.value for one in ChargeKind],
        help_text="final: the engine's own usage; cut: the last seen; estimated: bounds alone.",
    )
    started_at = serializers.DateTimeField()
    duration_ms = serializers.FloatField(
        allow_null=True, help_text="Null is unknown: the gateway was lost."
    )
    first_token_ms = serializers.FloatField(allow_null=True, help_text="From the attempt's start.")
    http_status = serializers.IntegerField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    prompt_tokens = _tokens("Null is unknown.")
    completion_tokens = _tokens("Null is unknown.")
    cached_tokens = _tokens("Part of the prompt's.")
    reasoning_tokens = _tokens("Part of the completion's.")
    price_id = serializers.CharField(allow_null=True)
    input_nanousd_per_mtok = NanoUsdField(allow_null=True)
    output_nanousd_per_mtok = NanoUsdField(allow_null=True)
    cached_input_nanousd_per_mtok = NanoUsdField(allow_null=True)
    cost_nanousd = NanoUsdField(allow_null=True)
    cost_max_nanousd = NanoUsdField(allow_null=True)


class RequestDetailSerializer(RequestSerializer):
    gateway = serializers.CharField()
    lineage = serializers.CharField(help_text="Of the configuration it was served by.")
    version = serializers.IntegerField(help_text="Of the configuration it was served by.")
    output_tokens_max = serializers.IntegerField(allow_null=True)
    decision = serializers.DictField(allow_null=True, help_text="Why it went where it went.")
    charges = ChargeSerializer(many=True)

    def to_representation(self, instance: Request) -> dict[str, Any]:
        """The same, with attempts of which nobody knows how long they took."""
        told = super().to_representation(instance)
        if instance.outcome == Outcome.LOST_GATEWAY:
            told["charges"] = [{**one, "duration_ms": None} for one in told["charges"]]
        return told
