"""The forms of a budget: how much in what time for whom, and more for a time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from django.forms import BooleanField, CharField, ChoiceField, DateTimeField, IntegerField

from controlplane.console.formats import dollars, minute
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.console.forms.money import DollarsField
from controlplane.decisions.budgets import period_words, scopes_words
from controlplane.decisions.subjects import WHOLE, kind_words
from controlplane.errors import Invalid
from controlplane.models import Budget
from controlplane.models.budgets import default_thresholds
from controlplane.models.kinds import budget_actions, too_long_policies, unknown_prices
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.keys import list_keys
from controlplane.selectors.models import list_models
from controlplane.selectors.names import list_names
from controlplane.selectors.projects import list_projects
from controlplane.selectors.routes import list_routes
from controlplane.selectors.teams import list_teams
from controlplane.services.budgets import placed_model, placed_scopes
from inference.contract.kinds import (
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    TooLong,
    UnknownPrice,
)
from inference.contract.params import BUDGET_BOUNDS, MAX_BUDGET_SCOPES

_SUBJECTS = [
    (one.value, WHOLE if one is BudgetSubject.ORGANISATION else kind_words(one))
    for one in BudgetSubject
]
_NONE = ("", "nothing else")
_PERIODS = [(one.value, period_words(one)) for one in BudgetPeriod]
_MOST = Decimal(10**9)
_SUGGESTED = 100
"""Names of one kind that a browser offers; any other can be written."""

_WHICH = (
    "Name or id; of an end user or a tag what callers write. Empty: each one is counted apart. "
    "For the whole organisation leave it empty."
)


def _subject_field(place: int) -> str:
    return f"subject_{place}"


def _which_field(place: int) -> str:
    return f"which_{place}"


class BudgetForm(NounForm):
    """A budget. All of it can be changed; every change but of its name needs a reason."""

    risky: ClassVar[frozenset[str]] = frozenset(
        ("scopes", "amount_nanousd", "period", "action", "unknown_price", "grace_percent")
    ) | {
        *("is_enabled", "is_rolling", "grace_nanousd", "too_long"),
        *("acts_at_percent", "throttle_per_minute", "cheaper_model"),
    }
    groups = (
        ("For whom", ("subject_1", "which_1", "subject_2", "which_2", "subject_3", "which_3")),
        ("How much", ("amount_nanousd", "period", "is_rolling")),
        ("What happens", ("action", "thresholds_percent", "is_enabled", "owner")),
        ("If it blocks", ("grace_percent", "grace_nanousd", "too_long", "unknown_price")),
        (
            "If it slows down or takes the cheaper",
            ("acts_at_percent", "throttle_per_minute", "cheaper_model"),
        ),
    )

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="What it is for.")
    subject_1 = ChoiceField(
        label="Counts together requests of", choices=_SUBJECTS, initial=BudgetSubject.TEAM.value
    )
    which_1 = CharField(label="Which one", required=False, max_length=255, help_text=_WHICH)
    subject_2 = ChoiceField(label="Only those also of", choices=[_NONE, *_SUBJECTS], required=False)
    which_2 = CharField(label="Which one of that kind", required=False, max_length=255)
    subject_3 = ChoiceField(label="And also of", choices=[_NONE, *_SUBJECTS], required=False)
    which_3 = CharField(label="Which one of this kind", required=False, max_length=255)
    amount_nanousd = DollarsField(
        label="At most, USD", max_value=_MOST, help_text="0 lets through what costs nothing."
    )
    period = ChoiceField(
        label="In each",
        choices=_PERIODS,
        initial=BudgetPeriod.MONTH.value,
        help_text="By the calendar, in the organisation's time zone; weeks begin on Monday.",
    )
    is_rolling = BooleanField(
        label="Rolling",
        required=False,
        help_text="Not by the calendar: at any moment the last 60 minutes, 24 hours, 7, 30 or 90 "
        "days count.",
    )
    action = ChoiceField(
        label="If too little is left",
        choices=budget_actions,
        initial=BudgetAction.BLOCK.value,
        help_text="Block refuses what may cost more than is left. Cheaper and throttle serve on, "
        "by a cheaper model or more slowly. Notify serves and tells.",
    )
    owner = CharField(
        label="Owner",
        required=False,
        max_length=LABEL_LENGTH,
        help_text="A name or address: people who are refused are told to turn there.",
    )
    grace_nanousd = DollarsField(
        label="Grace, USD", max_value=_MOST, initial=0, help_text="Besides the share."
    )
    too_long = ChoiceField(
        label="If a shorter answer would fit",
        choices=too_long_policies,
        initial=TooLong.REFUSE.value,
        help_text="Lower has the answer's maximum lowered to what is left buys, and says so in a "
        "header.",
    )
    acts_at_percent = IntegerField(
        label="From, % of the amount", initial=100, **bounds_of(BUDGET_BOUNDS["acts_at_percent"])
    )
    throttle_per_minute = IntegerField(
        label="Requests a minute",
        initial=60,
        **bounds_of(BUDGET_BOUNDS["throttle_per_minute"]),
        help_text="Of throttle: evenly spread; others wait as long as their route lets them.",
    )
    cheaper_model = CharField(
        label="Cheaper model",
        required=False,
        max_length=255,
        help_text="Of cheaper: name or id. Empty, or where a route lacks it: the route's cheapest.",
    )
    grace_percent = IntegerField(
        label="Grace, %",
        initial=0,
        **bounds_of(BUDGET_BOUNDS["grace_percent"]),
        help_text="So much more is let through before a request is refused.",
    )
    unknown_price = ChoiceField(
        label="Where nobody knows the price",
        choices=unknown_prices,
        initial=UnknownPrice.REFUSE.value,
        help_text="Of a budget that blocks. Unknown is not free: what is allowed is not counted.",
    )
    thresholds_percent = CharField(
        label="Thresholds, %",
        required=False,
        max_length=100,
        help_text="Of the amount, with commas: where a page says so, and alerts go out.",
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: nobody is refused."
    )

    def prepare(self) -> None:
        """Show scopes a line each, by name."""
        given = dict(self.initial)
        scopes = given.pop("scopes", None) or []
        names = list_names(self.scope.access, {one["subject_id"] or "" for one in scopes})
        for place, one in enumerate(scopes, 1):
            given[_subject_field(place)] = one["subject"]
            given[_which_field(place)] = names.get(one["subject_id"] or "", one["subject_id"])
        thresholds = given.get("thresholds_percent", default_thresholds())
        if not isinstance(thresholds, str):
            given["thresholds_percent"] = ", ".join(map(str, thresholds))
        if (model := given.get("cheaper_model")) is not None:
            given["cheaper_model"] = list_names(self.scope.access, {model}).get(model, model)
        self.initial = given
        for place in range(1, MAX_BUDGET_SCOPES + 1):
            self.fields[_which_field(place)].widget.attrs["list"] = "subjects"
        self.fields["cheaper_model"].widget.attrs["list"] = "subjects"

    @classmethod
    def initial_of(cls, row: Budget) -> dict[str, Any]:
        return {**super().initial_of(row), "scopes": row.scopes}

    def clean(self) -> dict[str, Any]:
        """Find what is meant, and read the thresholds."""
        found = super().clean() or {}
        found["scopes"] = self._scopes(found)
        found["thresholds_percent"] = self._thresholds(found.get("thresholds_percent") or "")
        found["cheaper_model"] = self._model(found.get("cheaper_model") or None)
        return found

    def _model(self, asked: str | None) -> str | None:
        try:
            return placed_model(self.scope.organisation, asked)
        except Invalid as error:
            self.place_error("cheaper_model", error.fields["cheaper_model"])
            return None

    def _scopes(self, found: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked = [
            {
                "subject": found[_subject_field(place)],
                "subject_id": found.get(_which_field(place)) or None,
            }
            for place in self._places(found)
        ]
        if not asked:
            return []
        try:
            return placed_scopes(self.scope.organisation, asked)
        except Invalid as error:
            for name, messages in error.fields.items():
                self.place_error(name, messages)
        return asked

    @staticmethod
    def _places(found: Mapping[str, Any]) -> Sequence[int]:
        places = range(1, MAX_BUDGET_SCOPES + 1)
        return [place for place in places if found.get(_subject_field(place))]

    def _thresholds(self, text: str) -> list[int]:
        words = [one.strip().removesuffix("%").strip() for one in text.split(",")]
        told = [one for one in words if one]
        if all(one.isascii() and one.isdecimal() and len(one) < 5 for one in told):
            return sorted({int(one) for one in told})
        self.add_error("thresholds_percent", "Give whole numbers, with commas between them.")
        return []

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        """What is said of a scope stands at its line; what is said of all, at the first."""
        first, _, rest = name.partition(".")
        if first != "scopes":
            return super().place_error(name, messages)
        number, _, field = rest.partition(".")
        lines = self._places(self.cleaned_data)
        known = number.isdecimal() and int(number) < len(lines)
        place = lines[int(number)] if known else 1
        own = _which_field(place) if field == "subject_id" else _subject_field(place)
        return super().place_error(own, messages)

    def values(self) -> dict[str, Any]:
        """The values as the service takes them: scopes as one."""
        lines = {
            name(place)
            for place in range(1, MAX_BUDGET_SCOPES + 1)
            for name in (_subject_field, _which_field)
        }
        own = {name: one for name, one in super().values().items() if name not in lines}
        first = {name: own[name] for name in ("name",) if name in own}
        return {**first, "scopes": self.cleaned_data["scopes"], **own}

    def shown(self, name: str, value: Any) -> str:
        if name in ("amount_nanousd", "grace_nanousd") and value is not None:
            return dollars(int(value))
        if name == "cheaper_model" and value is not None:
            return str(list_names(self.scope.access, {value}).get(value, value))
        if name == "scopes":
            return scopes_words(value or (), self._names_in(value or ()))
        if name == "thresholds_percent":
            return ", ".join(f"{one} %" for one in value or ()) or "none"
        return super().shown(name, value)

    def label(self, name: str) -> str:
        return "For" if name == "scopes" else super().label(name)

    def _names_in(self, scopes: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        return list_names(self.scope.access, {one["subject_id"] or "" for one in scopes})

    @property
    def suggestions(self) -> Sequence[tuple[str, str]]:
        """Names and their kinds, for the browser to offer."""
        access, home = self.scope.access, self.scope.organisation.pk
        kinds = {
            "team": list_teams(access),
            "project": list_projects(access),
            "key": list_keys(access).filter(revoked_at__isnull=True).prefetch_related(None),
            "model": list_models(access),
            "route": list_routes(access).prefetch_related(None),
        }
        return [
            (name, kind)
            for kind, rows in kinds.items()
            for name in rows.filter(organisation_id=home)
            .order_by("name")
            .values_list("name", flat=True)[:_SUGGESTED]
        ]


class RaiseForm(NounForm):
    """More for a time; the end is part of it."""

    risky: ClassVar[frozenset[str]] = frozenset(("raised_to_nanousd", "raised_until"))

    raised_to_nanousd = DollarsField(
        label="At most until then, USD",
        max_value=_MOST,
        required=False,
        help_text="In place of the budget's own amount. Empty this and the time to end a raise.",
    )
    raised_until = DateTimeField(
        label="Until",
        required=False,
        help_text="Then the budget's own amount holds again, by itself.",
    )

    def prepare(self) -> None:
        self.fields["raised_until"].label = f"Until, {self.scope.zone.key}"

    def plain(self, name: str, value: Any) -> Any:
        if name == "raised_until" and value is not None and not isinstance(value, str):
            # controls of times know minutes alone: what they can't hold is no difference
            return value.replace(second=0, microsecond=0).isoformat()
        return super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        if name == "raised_to_nanousd" and value is not None:
            return dollars(int(value))
        if name == "raised_until" and value is not None:
            return minute(datetime.fromisoformat(value), self.scope.zone)
        return super().shown(name, value)

    def document(self, values: Values) -> dict[str, Any]:
        """A raise is told whole, as the API takes it."""
        whole = {name: self.cleaned_data.get(name) for name in self.fields}
        return super().document(whole)
