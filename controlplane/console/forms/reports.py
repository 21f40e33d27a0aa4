"""The question of the reports page, and the form of a scheduled report."""

from datetime import date
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.forms import (
    BooleanField,
    CharField,
    ChoiceField,
    DateField,
    Form,
    HiddenInput,
    IntegerField,
    ModelChoiceField,
    RegexField,
)
from django.http import QueryDict

from controlplane.console.forms.base import NounForm
from controlplane.decisions.report_kinds import ExportFormat, ReportPart
from controlplane.models import Channel
from controlplane.models.kinds import report_cadences, report_groups
from controlplane.selectors.alerts import list_channels
from controlplane.selectors.spend import month_after

SHOWN = ("month", "group_by", "since", "until")

_FIRST, _LAST = date(1971, 1, 1), date(2500, 1, 1)


def _groups() -> list[tuple[str, str]]:
    return [(value, words.replace("_", " ")) for value, words in report_groups()]


class ReportForm(Form):
    """One question. A range by its ends wins over the month."""

    month = RegexField(
        r"^[0-9]{4}-(0[1-9]|1[0-2])$",
        label="Month",
        error_messages={"invalid": "Give a month as 2026-11."},
    )
    group_by = ChoiceField(label="By", choices=_groups)
    since = DateField(label="Or from", required=False)
    until = DateField(label="To, not included", required=False)
    organisation = CharField(required=False, widget=HiddenInput)

    def __init__(self, asked: QueryDict, *, today: date) -> None:
        usual = {"month": f"{today:%Y-%m}", "group_by": "team"}
        super().__init__({**usual, **{name: one for name, one in asked.items() if one}})

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        since, until = values.get("since"), values.get("until")
        if (since is None) != (until is None):
            self.add_error("since" if since is None else "until", "Give both ends.")
        for name in ("since", "until"):
            if values.get(name) and not _FIRST <= values[name] <= _LAST:
                self.add_error(name, "This is out of range.")
        return values

    def clean_month(self) -> date:
        year, month = map(int, self.cleaned_data["month"].split("-"))
        if not _FIRST.year <= year < _LAST.year:
            raise ValidationError("This is out of range.")
        return date(year, month, 1)

    def days(self) -> tuple[date, date]:
        """The valid range."""
        values = self.cleaned_data
        if values.get("since"):
            return values["since"], values["until"]
        return values["month"], month_after(values["month"])


class ExportForm(Form):
    """What a file is to have."""

    group_by = ChoiceField(choices=report_groups)
    since = DateField()
    until = DateField()
    part = ChoiceField(
        label="Lines",
        choices=[
            (ReportPart.WHOLE.value, "one a value"),
            (ReportPart.DAY.value, "one a day and value"),
        ],
    )
    format = ChoiceField(
        label="Format",
        choices=[(ExportFormat.CSV.value, "CSV"), (ExportFormat.PARQUET.value, "Parquet")],
    )


class ScheduleForm(NounForm):
    """A report that is sent after each day, week or month."""

    name = CharField(label="Name", max_length=100, help_text="The title of what is sent.")
    group_by = ChoiceField(label="By", choices=_groups)
    cadence = ChoiceField(label="Sent after each", choices=report_cadences)
    hour = IntegerField(
        label="At, hour of the organisation's clock", min_value=0, max_value=23, initial=7
    )
    channel = ModelChoiceField(
        Channel.objects.none(), label="Channel", help_text="As alerts go out, set under Alerts."
    )
    is_enabled = BooleanField(label="On", required=False, initial=True)

    def prepare(self) -> None:
        field = self.fields["channel"]
        assert isinstance(field, ModelChoiceField)
        home = Q(organisation_id=self.scope.organisation.pk) | Q(organisation__isnull=True)
        field.queryset = list_channels(self.scope.access).filter(home).order_by("name")
