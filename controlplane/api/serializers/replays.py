"""The shapes of a replay: what is asked, how far it is, what was foretold and what came."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import OwnedSerializer
from controlplane.decisions.replays import MOST_REQUESTS, caution_about, pools_serving
from controlplane.models import ReplayState


class PercentilesToldSerializer(serializers.Serializer[Any]):
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(allow_null=True)


class ErrorsToldSerializer(PercentilesToldSerializer):
    """Foretold over observed, less 1; null where one of them is not known."""

    is_good = serializers.BooleanField(
        allow_null=True, help_text="Whether p95 is within 20 %; null: nobody can tell."
    )


class PartToldSerializer(serializers.Serializer[Any]):
    target = serializers.CharField(allow_null=True)
    pool = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    requests = serializers.IntegerField()
    share = serializers.FloatField()


class SideToldSerializer(serializers.Serializer[Any]):
    """One side: as recorded, or as replayed under a configuration."""

    requests = serializers.IntegerField()
    answered = serializers.IntegerField()
    refused = serializers.DictField(
        child=serializers.IntegerField(), help_text="Without an answer, by code."
    )
    split = PartToldSerializer(many=True)
    first_token_ms = PercentilesToldSerializer()
    timed = serializers.IntegerField(help_text="First tokens counted.")
    queued_ms = PercentilesToldSerializer()
    queued = serializers.IntegerField(help_text="Requests that waited in the gateway.")
    cost_nanousd = serializers.CharField(help_text="List price, whole nano-USD as text.")
    unknown_cost = serializers.IntegerField(help_text="Requests without a price.")


class SidesToldSerializer(serializers.Serializer[Any]):
    recorded = SideToldSerializer()
    current = SideToldSerializer()
    draft = SideToldSerializer()


class ModelledWorkerSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    pool = serializers.CharField()
    concurrency = serializers.IntegerField()
    samples = serializers.IntegerField(help_text="Attempts learned from; 0 is assumed.")
    prefill_tokens_per_s = serializers.FloatField()
    is_serial = serializers.BooleanField()
    first_token_ms = serializers.FloatField()
    step_ms = serializers.FloatField()
    step_request_ms = serializers.FloatField()


class UnjudgedSerializer(serializers.Serializer[Any]):
    """A rule that looks at headers of which nothing was written down; replayed as not there."""

    side = serializers.ChoiceField(choices=["current", "draft"])
    rule_id = serializers.CharField()
    rule = serializers.CharField(help_text="Its name.")
    headers = serializers.ListField(child=serializers.CharField())
    requests = serializers.IntegerField(help_text="That it may have taken or not.")


class ReportSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField(help_text="That arrived in the time.")
    replayed = serializers.IntegerField()
    counted = serializers.IntegerField(help_text="Without the beginnings of stretches.")
    lacking = serializers.DictField(
        child=serializers.IntegerField(), help_text="Rows that can't be replayed, by reason."
    )
    unjudged = UnjudgedSerializer(
        many=True,
        required=False,
        help_text="Rules that could not be judged; absent in reports of older releases.",
    )
    is_sample = serializers.BooleanField()
    slices = serializers.IntegerField(help_text="Stretches of time that were replayed.")
    slice_s = serializers.FloatField()
    route = SidesToldSerializer(help_text="The route's requests.")
    all = SidesToldSerializer(help_text="All of the organisation's.")
    model_errors = ErrorsToldSerializer(
        help_text="Current configuration: replayed against recorded."
    )
    workers = ModelledWorkerSerializer(many=True)
    caution = serializers.SerializerMethodField(
        help_text="In words, what makes the times foretold worth little: default speeds in place "
        "of learned ones. Empty if there is nothing to warn of."
    )
    left_out = serializers.ListField(child=serializers.CharField())

    def get_caution(self, report: Mapping[str, Any]) -> str:
        return caution_about(report["workers"], pools_serving(report["route"]))


class ObservedSerializer(serializers.Serializer[Any]):
    """What came of the draft, once it was published."""

    until = serializers.DateTimeField()
    is_whole = serializers.BooleanField(help_text="Nothing more will be added.")
    is_replaced = serializers.BooleanField(help_text="The route was changed again.")
    side = SideToldSerializer()
    errors = ErrorsToldSerializer()

    def get_fields(self) -> dict[str, Any]:
        return {"since": serializers.DateTimeField(), **super().get_fields()}


class ReplaySerializer(OwnedSerializer):
    """A draft of a route, replayed on past requests."""

    version = serializers.IntegerField(  # type: ignore[assignment]
        read_only=True, help_text="Of the configuration it was drafted on."
    )
    updated_at = None
    route = serializers.CharField(write_only=True, max_length=255, help_text="Name or id.")
    route_id = serializers.CharField(read_only=True)
    route_name = serializers.CharField(read_only=True)
    changes = serializers.DictField(
        child=serializers.JSONField(allow_null=True),
        help_text="As the body of PATCH on the route takes them.",
    )
    hours = serializers.IntegerField(write_only=True, default=24, min_value=1, max_value=24)
    most_requests = serializers.IntegerField(
        default=MOST_REQUESTS,
        min_value=1,
        max_value=MOST_REQUESTS,
        help_text="More are sampled, by whole stretches of time.",
    )
    created_by = serializers.CharField(read_only=True)
    state = serializers.CharField(
        read_only=True, help_text=f"One of {', '.join(f'`{one}`' for one in ReplayState.values)}."
    )
    done = serializers.IntegerField(read_only=True)
    total = serializers.IntegerField(read_only=True)
    detail = serializers.CharField(read_only=True)
    ended_at = serializers.DateTimeField(read_only=True, allow_null=True)
    report = ReportSerializer(read_only=True, allow_null=True)
    published_version = serializers.IntegerField(read_only=True, allow_null=True)
    published_at = serializers.DateTimeField(read_only=True, allow_null=True)
    observed = ObservedSerializer(read_only=True, allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields.pop("updated_at", None)
        fields["since"] = serializers.DateTimeField(read_only=True)
        fields["until"] = serializers.DateTimeField(read_only=True)
        return fields


class ReplayListSerializer(ReplaySerializer):
    """One of a list, without its figures."""

    report = None
    observed = None
