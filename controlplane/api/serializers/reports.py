"""The shapes of reports, statements, files and schedules."""

from datetime import date
from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.spend import FIRST_MONTH, LAST_MONTH, MonthField
from controlplane.api.serializers.strict import NameOrIdField, OwnedSerializer, StrictSerializer
from controlplane.api.serializers.usage import UsageSumsSerializer
from controlplane.decisions.report_kinds import ReportKind
from controlplane.models.kinds import (
    export_formats,
    export_states,
    report_cadences,
    report_groups,
    report_parts,
    statement_states,
)
from controlplane.selectors.spend import month_after

MOST_SHOWN = 10_000


def in_range(day: date) -> date:
    """A day that reports can be had of."""
    if not FIRST_MONTH <= day <= month_after(LAST_MONTH):
        raise serializers.ValidationError("This is out of range.")
    return day


class ReportQuerySerializer(serializers.Serializer[Any]):
    """The present month unless told otherwise."""

    month = MonthField(required=False, help_text="As `2026-11`; the present one if left out.")
    since = serializers.DateField(
        required=False, validators=[in_range], help_text="In place of `month`, with `until`."
    )
    until = serializers.DateField(
        required=False, validators=[in_range], help_text="The first day that is not in it."
    )
    group_by = serializers.ChoiceField(choices=report_groups(), default="project")
    page = serializers.IntegerField(min_value=1, max_value=1_000_000, default=1)
    page_size = serializers.IntegerField(
        min_value=1, max_value=MOST_SHOWN, default=1_000, help_text="Lines a page."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("since" in attrs) != ("until" in attrs):
            missing = "until" if "since" in attrs else "since"
            raise serializers.ValidationError({missing: ["Give both ends."]})
        if "since" in attrs and "month" in attrs:
            raise serializers.ValidationError({"since": ["Give this or `month`, not both."]})
        return attrs

    def days(self, today: date) -> tuple[date, date]:
        """The validated range; `today` is the organisation's."""
        values = self.validated_data
        if "since" in values:
            return values["since"], values["until"]
        month = values.get("month") or today.replace(day=1)
        return month, month_after(month)


class UsageReportLineSerializer(UsageSumsSerializer):
    kind = serializers.ChoiceField(choices=[one.value for one in ReportKind])
    value = serializers.CharField(help_text='Id or name; "" where kind is not `value`.')
    label = serializers.CharField(help_text="Its name then.")
    of_month = serializers.DateField(help_text="An earlier month's line is an adjustment.")


class StatementSerializer(OwnedSerializer):
    """POST closes a month that is over."""

    create_only = frozenset({"organisation", "month"})

    month = MonthField()
    number = serializers.IntegerField(read_only=True, help_text="Which closing of the month.")
    state = serializers.ChoiceField(choices=statement_states(), read_only=True)
    time_zone = serializers.CharField(read_only=True)
    closed_by = serializers.CharField(read_only=True)
    closed_reason = serializers.CharField(read_only=True)
    reopened_at = serializers.DateTimeField(read_only=True, allow_null=True)
    reopened_by = serializers.CharField(read_only=True)
    reopened_reason = serializers.CharField(read_only=True)


class UsageReportSerializer(serializers.Serializer[Any]):
    organisation_id = serializers.CharField()
    time_zone = serializers.CharField()
    since = serializers.DateField()
    until = serializers.DateField(help_text="Not in it.")
    group_by = serializers.CharField()
    statement = StatementSerializer(
        allow_null=True, help_text="Of a closed month; nothing changes any more."
    )
    total = UsageSumsSerializer()
    is_reconciled = serializers.BooleanField(
        allow_null=True, help_text="Whether the lines add up by another dimension; null: closed."
    )
    count = serializers.IntegerField(help_text="Lines on all pages; `total` is of all of them too.")
    next = serializers.CharField(allow_null=True, help_text="The next page; null: it was the last.")
    results = UsageReportLineSerializer(many=True)


class ReportExportSerializer(StrictSerializer):
    """POST asks for a file; a job makes it."""

    id = serializers.CharField(read_only=True)
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
    organisation_id = serializers.CharField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    created_by = serializers.CharField(read_only=True)
    group_by = serializers.ChoiceField(choices=report_groups(), default="project")
    part = serializers.ChoiceField(
        choices=report_parts(), default="whole", help_text="The range as one, or by day."
    )
    since = serializers.DateField(validators=[in_range])
    until = serializers.DateField(validators=[in_range], help_text="Not in it.")
    format = serializers.ChoiceField(choices=export_formats(), default="csv")
    state = serializers.ChoiceField(choices=export_states(), read_only=True)
    done = serializers.IntegerField(read_only=True, help_text="Of `total` steps.")
    total = serializers.IntegerField(read_only=True)
    lines = serializers.IntegerField(read_only=True, allow_null=True)
    size_bytes = serializers.IntegerField(read_only=True, allow_null=True)
    detail = serializers.CharField(read_only=True, help_text="Why it could not be made.")
    ended_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expires_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="Until when `content/` has the file."
    )


class ReportScheduleSerializer(OwnedSerializer):
    """A report sent by a channel after each day, week or month."""

    name = serializers.CharField(max_length=100)
    group_by = serializers.ChoiceField(choices=report_groups())
    cadence = serializers.ChoiceField(choices=report_cadences())
    hour = serializers.IntegerField(
        min_value=0, max_value=23, default=7, help_text="Of the organisation's clock."
    )
    channel = NameOrIdField(allow_null=False)
    channel_id = serializers.CharField(read_only=True, allow_null=True)
    is_enabled = serializers.BooleanField(default=True)
