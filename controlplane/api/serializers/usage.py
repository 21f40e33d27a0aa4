"""The shapes of a question about usage and of its answer."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from rest_framework import serializers

from controlplane.api.serializers.strict import SignedNanoUsdField
from controlplane.selectors.usage_queries import (
    FILTERS,
    GROUPS,
    Bucket,
    Measure,
    Range,
    UsageQuery,
    ends_of,
)

_EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
_LATEST = datetime(2500, 1, 1, tzinfo=UTC)
_MOST_GROUPS = 100


class UsageQuerySerializer(serializers.Serializer[UsageQuery]):
    """The last 24 hours by hour unless told otherwise."""

    bucket = serializers.ChoiceField(choices=[one.value for one in Bucket], default="hour")
    group_by = serializers.ChoiceField(
        choices=GROUPS,
        required=False,
        help_text="Tag and end_user by day alone, team and key by hour and day.",
    )
    top = serializers.IntegerField(
        min_value=1,
        max_value=_MOST_GROUPS,
        default=20,
        help_text="The largest groups; the others are summed as one with a null value.",
    )
    measure = serializers.ChoiceField(
        choices=[one.value for one in Measure],
        default=Measure.REQUESTS.value,
        help_text="The figure by which groups are the largest.",
    )

    def get_fields(self) -> dict[str, Any]:
        time = {"required": False, "help_text": "Half-open: `from` is in, `to` is out."}
        return {
            "from": serializers.DateTimeField(**time),
            "to": serializers.DateTimeField(**time),
            "range": serializers.ChoiceField(
                choices=[one.value for one in Range],
                required=False,
                help_text="In place of `from` and `to`; days and months of the `time_zone`.",
            ),
            **super().get_fields(),
            **{
                name: serializers.CharField(
                    required=False,
                    max_length=255,
                    help_text=f"Of this {name} alone, by id or name.",
                )
                for name in FILTERS
            },
        }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name in ("from", "to"):
            if name in attrs and not _EARLIEST <= attrs[name] <= _LATEST:
                raise serializers.ValidationError({name: ["This is out of range."]})
            if name in attrs and "range" in attrs:
                raise serializers.ValidationError({name: ["Give this or `range`, not both."]})
        return attrs

    def question(self, zone: ZoneInfo) -> UsageQuery:
        """The validated question, its defaults filled in; `zone` is the organisation's."""
        values, now = self.validated_data, timezone.now()
        group_by = values.get("group_by")
        if "range" in values:
            since, until = ends_of(Range(values["range"]), now, zone)
        else:
            until = values.get("to") or now
            since = values.get("from") or until - timedelta(days=1)
        return UsageQuery(
            since=since,
            until=until,
            bucket=Bucket(values["bucket"]),
            group_by=group_by,
            top=values["top"],
            measure=Measure(values["measure"]),
            only={name: values[name] for name in FILTERS if name in values},
        )


class UsageSumsSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField(help_text="Each counted once, at its last attempt.")
    errors = serializers.IntegerField()
    attempts = serializers.IntegerField()
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    cost_nanousd = SignedNanoUsdField(help_text="Sum of what has a price.")
    unknown_usage = serializers.IntegerField(help_text="Attempts whose tokens nobody knows.")
    unknown_cost = serializers.IntegerField(help_text="Requests without a price.")


class UsageRowSerializer(UsageSumsSerializer):
    at = serializers.DateTimeField(help_text="When the bucket begins.")
    value = serializers.CharField(allow_null=True, help_text="Id of the group; null is the others.")
    label = serializers.CharField(help_text="Its name when last seen.")


class UsageSerializer(serializers.Serializer[Any]):
    organisation_id = serializers.CharField()
    bucket = serializers.CharField()
    group_by = serializers.CharField(allow_null=True)
    time_zone = serializers.CharField(help_text="Whose hours and days the buckets are.")
    total = UsageSumsSerializer(help_text="Of the whole range, read without groups or buckets.")
    is_reconciled = serializers.BooleanField(help_text="Whether the rows add up to the total.")
    results = UsageRowSerializer(many=True, help_text="Buckets without usage are absent.")

    def get_fields(self) -> dict[str, Any]:
        times = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return {**times, **super().get_fields()}
