"""The shapes of what caches did: savings, similarities and false hits. All of it is read-only."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.caches import TtlSerializer
from controlplane.api.serializers.strict import NanoUsdField, StrictSerializer
from controlplane.decisions.cache_calibration import Rate, Steps
from controlplane.decisions.cache_rollups import STEPS, Verdict
from controlplane.models import FalseHit
from controlplane.models.kinds import cache_scopes, choices_of
from controlplane.selectors.cache_usage import CacheRange, CacheReport, Part, Savings


class SavingsQuerySerializer(serializers.Serializer[Any]):
    """The last 24 hours of every route unless told otherwise."""

    range = serializers.ChoiceField(choices=choices_of(CacheRange), default=CacheRange.DAY.value)
    route = serializers.CharField(required=False, max_length=255, help_text="Id or name.")


class SavedSerializer(serializers.Serializer[Any]):
    """What was served without asking a worker anew, and what that saved."""

    asked = serializers.IntegerField(
        allow_null=True, help_text="For so many a cache was looked into; null of a tier."
    )
    served = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True, help_text="0 to 1; null: none was asked.")
    saved_prompt_tokens = serializers.IntegerField()
    saved_completion_tokens = serializers.IntegerField()
    saved_nanousd = NanoUsdField(
        allow_null=True, help_text="Null: nothing of it has a price; 0: nothing was saved."
    )
    unknown_saved = serializers.IntegerField(help_text="Served, and without a price.")
    saved_ms = serializers.FloatField()


class TierSavedSerializer(SavedSerializer):
    tier = serializers.CharField(help_text="Empty: answered along with another's request.")


class BucketSavedSerializer(SavedSerializer):
    at = serializers.DateTimeField()


class RateSerializer(serializers.Serializer[Rate]):
    """False hits among checks, with Wilson's interval of 95 %."""

    false_hits = serializers.IntegerField()
    checks = serializers.IntegerField()
    share = serializers.FloatField(allow_null=True)
    low = serializers.FloatField()
    high = serializers.FloatField()


class RouteSavedSerializer(SavedSerializer):
    route_id = serializers.CharField()
    name = serializers.CharField()
    similarity_min = serializers.FloatField(allow_null=True, help_text="What it is held to now.")
    false_hits = RateSerializer()


class SimilaritySerializer(serializers.Serializer[Any]):
    similarity = serializers.FloatField(help_text="Rounded down to 0.01.")
    verdict = serializers.ChoiceField(choices=choices_of(Verdict))
    requests = serializers.IntegerField()


class SavingsSerializer(serializers.Serializer[Any]):
    time_zone = serializers.CharField()
    bucket = serializers.ChoiceField(choices=[("hour", "hour"), ("day", "day")])
    total = SavedSerializer()
    outcomes = serializers.DictField(child=serializers.IntegerField())
    tiers = TierSavedSerializer(many=True)
    routes = RouteSavedSerializer(many=True)
    results = BucketSavedSerializer(many=True, help_text="By bucket; those of none are absent.")
    similarities = SimilaritySerializer(many=True)
    engine_hit_rate = serializers.FloatField(
        allow_null=True,
        help_text="The share of prompt tokens engines had in their own caches. Null: none told of "
        "any.",
    )
    inputs = serializers.IntegerField(help_text="Of embeddings.")
    inputs_hit = serializers.IntegerField()

    def get_fields(self) -> dict[str, Any]:
        times = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return {**times, **super().get_fields()}


class WhatIfQuerySerializer(StrictSerializer):
    """Values to try in place of the policy's."""

    ttl_s = TtlSerializer(required=False)
    scope = serializers.ChoiceField(choices=cache_scopes(), required=False)


class WouldHaveSerializer(serializers.Serializer[Any]):
    asked = serializers.IntegerField()
    served = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    saved_prompt_tokens = serializers.IntegerField(source="prompt_tokens")
    saved_completion_tokens = serializers.IntegerField(source="completion_tokens")
    saved_nanousd = NanoUsdField(allow_null=True)
    unknown_saved = serializers.IntegerField()
    saved_ms = serializers.FloatField(source="ms")


class TriedSerializer(serializers.Serializer[Any]):
    ttl_s = serializers.IntegerField(allow_null=True, help_text="Null: as the policy says.")
    scope = serializers.ChoiceField(choices=cache_scopes())
    would_have = WouldHaveSerializer(allow_null=True, help_text="Null: a wider scope is not known.")


class WhatIfSerializer(serializers.Serializer[Any]):
    """Exact repeats of the last day alone: nothing by meaning, and memory is taken to suffice."""

    since = serializers.DateTimeField()
    is_part = serializers.BooleanField(help_text="Only the newest were gone through, since then.")
    without_id = serializers.IntegerField(help_text="Passed over without an id: not judged.")
    now = WouldHaveSerializer(help_text="What was served in fact.")
    draft = WouldHaveSerializer(allow_null=True, help_text="With the values asked about.")
    tried = TriedSerializer(many=True)


class WrongAnswerSerializer(StrictSerializer):
    """What was wrong with an answer, for whoever reads the log."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=2_000)


class FalseHitSerializer(serializers.Serializer[FalseHit]):
    request_id = serializers.CharField(source="event_id")
    source = serializers.ChoiceField(choices=[("check", "check"), ("person", "person")])
    at = serializers.DateTimeField()
    project_id = serializers.CharField()
    route_id = serializers.CharField()
    policy_id = serializers.CharField()
    entry_id = serializers.CharField()
    similarity = serializers.FloatField(allow_null=True)
    told_by = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)


def told_savings(report: CacheReport, steps: Steps) -> dict[str, Any]:
    """A report as it is shown."""
    return {
        "from": report.since,
        "to": report.until,
        "time_zone": report.zone.key,
        "bucket": "hour" if report.is_hourly else "day",
        "total": _part(report.total),
        "outcomes": report.outcomes,
        "tiers": [{"tier": tier, **_saved(one, None)} for tier, one in report.tiers.items()],
        "routes": [
            {
                "route_id": one.route_id,
                "name": one.name,
                "similarity_min": one.threshold,
                "false_hits": one.false_hits,
                **_part(one.part),
            }
            for one in report.routes
        ],
        "results": [{"at": at, **_part(parts["all"])} for at, parts in report.buckets.items()],
        "similarities": [
            {"similarity": step / STEPS, "verdict": verdict, "requests": requests}
            for (step, verdict), requests in sorted(steps.items())
        ],
        "engine_hit_rate": report.engine_hit_rate,
        "inputs": report.inputs,
        "inputs_hit": report.inputs_hit,
    }


def _part(part: Part) -> dict[str, Any]:
    return _saved(part.served, part.asked)


def _saved(served: Savings, asked: int | None) -> dict[str, Any]:
    return {
        "asked": asked,
        "served": served.requests,
        "hit_rate": served.requests / asked if asked else None,
        "saved_prompt_tokens": served.prompt_tokens,
        "saved_completion_tokens": served.completion_tokens,
        "saved_nanousd": served.saved_nanousd,
        "unknown_saved": served.unknown_saved,
        "saved_ms": served.ms,
    }
