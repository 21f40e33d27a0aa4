"""Forms of silences."""

from collections.abc import Mapping, Sequence
from datetime import time, timedelta
from typing import Any

from django.forms import (
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    DateTimeField,
    TimeField,
    TimeInput,
    TypedMultipleChoiceField,
)
from django.utils import timezone

from controlplane.console.forms.alerts import SharedForm
from controlplane.console.forms.base import NounForm, Values
from controlplane.selectors.alerts import in_organisation, list_alert_rules

ENDS = [
    ("3600", "in 1 hour"),
    ("14400", "in 4 hours"),
    ("86400", "in 24 hours"),
    ("259200", "in 3 days"),
    ("604800", "in 7 days"),
    ("2592000", "in 30 days"),
    ("31536000", "in a year, if it recurs"),
]


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def days_words(weekdays: Sequence[int]) -> str:
    """`every day`, `Saturday, Sunday`; nothing recurs on no day."""
    if len(weekdays) == len(_DAYS):
        return "every day"
    return ", ".join(_DAYS[int(one)] for one in weekdays) or "no certain days"


def _weekdays_field() -> TypedMultipleChoiceField:
    return TypedMultipleChoiceField(
        label="Days",
        required=False,
        coerce=int,
        choices=[(str(number), name) for number, name in enumerate(_DAYS)],
        widget=CheckboxSelectMultiple,
        help_text="On which it begins. None: it holds all the time until its end.",
    )


def _time_field(label: str) -> TimeField:
    widget = TimeInput({"type": "time"}, format="%H:%M")
    return TimeField(label=label, required=False, widget=widget)


def _name_zone(form: NounForm) -> None:
    form.fields["until_time"].help_text = f"In {form.scope.zone.key}; may be of the next day."


def _plain_time(value: time) -> str:
    return value.isoformat()


class SilenceForm(SharedForm):
    """A new silence: what is kept quiet, and until when."""

    rule = ChoiceField(label="Rule", required=False)
    subject_id = CharField(
        label="Place",
        required=False,
        max_length=255,
        help_text="Its id, as the page of an alert has it. Empty: every place.",
    )
    ends = ChoiceField(label="Ends", choices=ENDS, initial="3600")
    told = CharField(label="Why", max_length=200, help_text="Stands in the list for all to see.")
    weekdays = _weekdays_field()
    from_time = _time_field("From")
    until_time = _time_field("Until")
    groups = (("Only at certain times", ("weekdays", "from_time", "until_time")),)

    def prepare(self) -> None:
        super().prepare()
        rules = in_organisation(list_alert_rules(self.scope.access), self.scope.organisation)
        named = list(rules.order_by("name").values_list("pk", "name"))
        self.fields["rule"].choices = [("", "every rule"), *named]  # type: ignore[attr-defined]
        _name_zone(self)

    def values(self) -> dict[str, Any]:
        """Values as the service takes them; the end counts from now on."""
        found = super().values()
        seconds = int(found.pop("ends", 0))
        found["ends_at"] = timezone.now() + timedelta(seconds=seconds)
        found["reason"] = found.pop("told", "")
        for name in ("rule", "subject_id"):
            found[name] = found.get(name) or None
        return found

    def document(self, values: Values) -> dict[str, Any]:
        told: dict[str, Any] = dict(values)
        return super().document(told | {"ends_at": told["ends_at"].isoformat(timespec="seconds")})

    def plain(self, name: str, value: Any) -> Any:
        return _plain_time(value) if isinstance(value, time) else super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        return days_words(value) if name == "weekdays" else super().shown(name, value)


class SilenceEditForm(NounForm):
    """A silence that lasts: its end and its reason."""

    told = CharField(label="Why", max_length=200)
    ends_at = DateTimeField(label="Ends", help_text="Within 30 days; of what recurs, a year.")
    weekdays = _weekdays_field()
    from_time = _time_field("From")
    until_time = _time_field("Until")
    groups = (("Only at certain times", ("weekdays", "from_time", "until_time")),)

    def prepare(self) -> None:
        self.fields["ends_at"].label = f"Ends, {self.scope.zone.key}"
        _name_zone(self)

    @classmethod
    def initial_of(cls, row: Any) -> dict[str, Any]:
        recurs = {name: getattr(row, name) for name in ("weekdays", "from_time", "until_time")}
        return {"told": row.reason, "ends_at": row.ends_at, **recurs}

    def values(self) -> dict[str, Any]:
        return _as_service(super().values())

    def base_of(self, values: Values) -> dict[str, Any]:
        return super().base_of(_as_service(values))

    def plain(self, name: str, value: Any) -> Any:
        if name == "ends_at" and value is not None and not isinstance(value, str):
            # controls of times know minutes alone: what they can't hold is no difference
            return value.replace(second=0, microsecond=0).isoformat()
        return _plain_time(value) if isinstance(value, time) else super().plain(name, value)

    def label(self, name: str) -> str:
        return super().label("told" if name == "reason" else name)

    def shown(self, name: str, value: Any) -> str:
        return days_words(value) if name == "weekdays" else super().shown(name, value)


def _as_service(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"reason" if name == "told" else name: value for name, value in values.items()}
