"""The shapes of a question about a month of spending and of its answer."""

import re
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from rest_framework import serializers
from rest_framework.fields import empty

from controlplane.api.serializers.strict import NanoUsdField, SignedNanoUsdField
from controlplane.api.serializers.usage import UsageRowSerializer, UsageSumsSerializer
from controlplane.selectors.spend import SpendQuery, month_after
from controlplane.selectors.usage_queries import GROUPS

FIRST_MONTH, LAST_MONTH = date(1971, 1, 1), date(2499, 12, 1)
_MONTH = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")


class MonthField(serializers.CharField):
    """A month as `2026-11`; its value is the month's first day."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(min_length=7, max_length=7, **changes)

    def run_validation(self, data: Any = empty) -> Any:
        text = super().run_validation(data)
        if not isinstance(text, str):
            return text
        if _MONTH.fullmatch(text) is None:
            raise serializers.ValidationError("Give a month as 2026-11.")
        month = date.fromisoformat(f"{text}-01")
        if not FIRST_MONTH <= month <= LAST_MONTH:
            raise serializers.ValidationError("This is out of range.")
        return month

    def to_representation(self, value: date) -> str:
        return f"{value:%Y-%m}"


class SpendQuerySerializer(serializers.Serializer[SpendQuery]):
    """The present month unless told otherwise."""

    month = MonthField(
        required=False, help_text="As `2026-11`; the present one of the `time_zone` if left out."
    )
    group_by = serializers.ChoiceField(choices=GROUPS, required=False)
    top = serializers.IntegerField(
        min_value=1, max_value=100, default=7, help_text="The dearest groups; the rest is one."
    )
    day = serializers.DateField(required=False, help_text="A day of the month, told by hour too.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        month, day = attrs.get("month"), attrs.get("day")
        if day is not None and month is not None and not month <= day < month_after(month):
            raise serializers.ValidationError({"day": ["This is no day of the month."]})
        if day is not None and not FIRST_MONTH <= day < month_after(LAST_MONTH):
            raise serializers.ValidationError({"day": ["This is out of range."]})
        return attrs

    def question(self, zone: ZoneInfo) -> SpendQuery:
        """The validated question; `zone` is the organisation's."""
        values = self.validated_data
        day = values.get("day")
        today = timezone.now().astimezone(zone).date()
        month = values.get("month") or (day or today).replace(day=1)
        return SpendQuery(month, values.get("group_by"), values["top"], day)


class SpendForecastSerializer(serializers.Serializer[Any]):
    at_end_nanousd = SignedNanoUsdField()
    low_nanousd = SignedNanoUsdField(allow_null=True, help_text="Of the interval of four fifths.")
    high_nanousd = SignedNanoUsdField(allow_null=True)


class SpendBudgetSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    amount_nanousd = NanoUsdField()


class UsualSerializer(serializers.Serializer[Any]):
    nanousd = SignedNanoUsdField(help_text="The median of the days it is compared with.")
    low_nanousd = SignedNanoUsdField()
    high_nanousd = SignedNanoUsdField()


class AnomalySerializer(serializers.Serializer[Any]):
    day = serializers.DateField()
    nanousd = SignedNanoUsdField()
    usual = UsualSerializer()


class PriceChangeSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="When it begins, in the past or ahead.")
    model = serializers.CharField()
    action = serializers.CharField(help_text="`create`, `update` or `delete`.")
    before = serializers.DictField(
        child=NanoUsdField(allow_null=True),
        help_text="What changed, as it was; nothing of a new price.",
    )
    after = serializers.DictField(
        child=NanoUsdField(allow_null=True),
        help_text="What changed, as it is; nothing of one removed.",
    )


class SpendSerializer(serializers.Serializer[Any]):
    organisation_id = serializers.CharField()
    month = MonthField()
    time_zone = serializers.CharField(help_text="Whose month, days and hours these are.")
    group_by = serializers.CharField(allow_null=True)
    spent_nanousd = SignedNanoUsdField(
        allow_null=True, help_text="Booked; null: nothing that was charged has a price."
    )
    previous_nanousd = SignedNanoUsdField(allow_null=True, help_text="The whole month before.")
    nanousd_per_mtok = SignedNanoUsdField(
        allow_null=True, help_text="Booked, by a million tokens in and out."
    )
    nanousd_per_request = SignedNanoUsdField(
        allow_null=True, help_text="Booked, by a request that has a price."
    )
    forecast = SpendForecastSerializer(allow_null=True, help_text="Of a month under way.")
    budget = SpendBudgetSerializer(
        allow_null=True, help_text="The organisation's own for a month that binds first."
    )
    anomalies = AnomalySerializer(many=True)
    price_changes = PriceChangeSerializer(many=True)
    total = UsageSumsSerializer()
    is_reconciled = serializers.BooleanField(help_text="Whether the rows add up to the total.")
    results = UsageRowSerializer(many=True, help_text="By day and group.")
    hours = UsageRowSerializer(
        many=True, allow_null=True, help_text="Of `day`; of tags and end users all as one."
    )

    def get_fields(self) -> dict[str, Any]:
        times = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return {**times, **super().get_fields()}
