"""The question of the spend page: what its address says, and the controls to change it."""

from datetime import date
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import CharField, ChoiceField, DateField, Form, HiddenInput, RegexField
from django.http import QueryDict

from controlplane.console.forms.usage import TOPS
from controlplane.selectors.spend import SpendQuery, month_after
from controlplane.selectors.usage_queries import GROUPS

SHOWN = ("month", "group_by", "top")

_FIRST, _LAST = date(1971, 1, 1), date(2499, 12, 1)


class SpendForm(Form):
    """One question. Everything has a default, so an address without parameters is one too."""

    month = RegexField(
        r"^[0-9]{4}-(0[1-9]|1[0-2])$",
        label="Month",
        error_messages={"invalid": "Give a month as 2026-11."},
    )
    group_by = ChoiceField(
        label="By",
        choices=[("none", "nothing"), *((one, one.replace("_", " ")) for one in GROUPS)],
    )
    top = ChoiceField(label="Groups", choices=[(str(one), f"top {one} and Other") for one in TOPS])
    day = DateField(required=False, widget=HiddenInput)
    organisation = CharField(required=False, widget=HiddenInput)

    def __init__(self, asked: QueryDict, *, today: date) -> None:
        usual = {"month": f"{today:%Y-%m}", "group_by": "project", "top": str(TOPS[1])}
        if asked.get("day") and not asked.get("month"):
            usual["month"] = asked["day"][:7]
        super().__init__({**usual, **{name: one for name, one in asked.items() if one}})

    def clean_month(self) -> date:
        year, month = map(int, self.cleaned_data["month"].split("-"))
        if not _FIRST.year <= year <= _LAST.year:
            raise ValidationError("This is out of range.")
        return date(year, month, 1)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        month, day = values.get("month"), values.get("day")
        if month and day and not month <= day < month_after(month):
            self.add_error("month", "The day is not one of this month.")
        return values

    def question(self) -> SpendQuery:
        """The valid question with its defaults filled in."""
        values = self.cleaned_data
        group_by = None if values["group_by"] == "none" else values["group_by"]
        return SpendQuery(values["month"], group_by, int(values["top"]), values.get("day"))
