"""The form of alert rules, and what forms of what may be the installation's have in common."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.forms import (
    BooleanField,
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    FloatField,
    MultipleChoiceField,
    URLField,
)

from controlplane.console.forms.base import NounForm, Values
from controlplane.decisions.alert_kinds import (
    TRAITS,
    AlertKind,
    AlertScope,
    NoData,
    Severity,
    seconds_words,
    value_words,
)
from controlplane.errors import Invalid
from controlplane.models import Organisation
from controlplane.models.kinds import severities
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.alerts import in_organisation, list_channels
from controlplane.selectors.names import list_names
from controlplane.services.alert_rules import RUNBOOK_LENGTH, find_place

EVERYWHERE = "is_everywhere"
_WINDOWS = (0, 60, 300, 600, 900, 1_800, 3_600, 21_600, 259_200)
_AGAIN = (0, 300, 900, 1_800, 3_600, 14_400, 86_400)
_WAITS = (0, 30, 60, 120, 300, 600, 900, 1_800, 3_600)
_SCOPES = {
    AlertScope.POOL.value: "one pool, or each",
    AlertScope.ROUTE.value: "one route, or each",
    AlertScope.BUDGET.value: "one budget, or each",
    AlertScope.TEAM.value: "one team, or each",
    AlertScope.PROJECT.value: "one project, or each",
    AlertScope.KEY.value: "one key, or each",
    AlertScope.ORGANISATION.value: "the whole organisation",
    AlertScope.ALL.value: "the whole installation",
}


NO_DATA_WORDS = {
    NoData.KEEP.value: "what is is held",
    NoData.RESOLVE.value: "an alert ends after a while",
    NoData.ALERT.value: "it is an alert itself",
}


def _window_words(seconds: int) -> str:
    return seconds_words(seconds) if seconds else "as is usual for it"


def _again_words(seconds: int) -> str:
    return f"every {seconds_words(seconds)}" if seconds else "never"


def _after_words(seconds: int) -> str:
    return seconds_words(seconds) if seconds else "never"


_LENGTHS: Mapping[str, Callable[[int], str]] = {
    "window_s": _window_words,
    "for_s": seconds_words,
    "reminds_every_s": _again_words,
    "escalates_after_s": _after_words,
}


class NamesField(CharField):
    """Names with commas between them, as a list without repeats."""

    def clean(self, value: Any) -> Any:
        names = [one.strip() for one in (super().clean(value) or "").split(",")]
        return list(dict.fromkeys(one for one in names if one))

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class SharedForm(NounForm):
    """A row of the organisation or, by the platform's administrators, of the installation."""

    is_everywhere = BooleanField(
        label="For the whole installation",
        required=False,
        help_text="It then belongs to no organisation, and only platform administrators see it.",
    )

    def prepare(self) -> None:
        if not self.scope.access.is_platform_admin:
            self.fields.pop(EVERYWHERE, None)

    @property
    def home(self) -> Organisation | None:
        """Whose the row is: None is the installation."""
        if self.row is not None:
            return self.row.organisation
        cleaned = getattr(self, "cleaned_data", {})
        return None if cleaned.get(EVERYWHERE) else self.scope.organisation

    def document(self, values: Values) -> dict[str, Any]:
        told = super().document({k: v for k, v in values.items() if k != EVERYWHERE})
        return told | ({"organisation": None} if values.get(EVERYWHERE) else {})


class AlertRuleForm(SharedForm):
    """A rule. Every change but of its name needs a reason."""

    fixed: ClassVar[frozenset[str]] = frozenset({EVERYWHERE})
    risky: ClassVar[frozenset[str]] = frozenset(
        (
            *("kind", "scope", "scope_id", "threshold", "clears_at", "window_s", "for_s"),
            *("critical_at", "on_no_data", "severity", "channels", "tells_resolved"),
            *("reminds_every_s", "escalation", "escalates_after_s", "is_enabled"),
        )
    )
    groups = (
        ("What is watched", ("kind", "scope", "scope_id", "window_s")),
        ("When it fires", ("threshold", "severity", "critical_at", "for_s", "clears_at")),
        ("Without data", ("on_no_data",)),
        ("Who is told", ("channels", "tells_resolved", "reminds_every_s", "runbook")),
        ("If nobody takes it up", ("escalates_after_s", "escalation")),
        ("", ("is_enabled", EVERYWHERE)),
    )

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="What messages call it.")
    kind = ChoiceField(
        label="Watches",
        choices=[
            (kind.value, f"{one.title}: {one.words} ({value_words(kind, one.threshold)})")
            for kind, one in TRAITS.items()
        ],
        help_text="In brackets the value from which on it is usually an alert.",
    )
    scope = ChoiceField(label="Where", choices=list(_SCOPES.items()))
    scope_id = CharField(
        label="Which one",
        required=False,
        max_length=255,
        help_text="Name or id of the one that is meant. Empty: each one apart.",
    )
    window_s = ChoiceField(
        label="In how long",
        required=False,
        choices=[(str(one), _window_words(one)) for one in _WINDOWS],
        help_text="For what is measured over a time; the rest is of one moment, whatever is "
        "chosen.",
    )
    threshold = FloatField(
        label="From which value on",
        required=False,
        help_text="In per cent, ms, seconds or as a count, by what is watched. Empty: as is usual.",
    )
    for_s = ChoiceField(
        label="For how long before it fires",
        required=False,
        initial="60",
        choices=[(str(one), seconds_words(one)) for one in _WAITS],
    )
    clears_at = FloatField(
        label="Over below",
        required=False,
        help_text="Empty: below nine tenths of that value.",
    )
    severity = ChoiceField(label="Severity", choices=severities, initial=Severity.WARNING.value)
    critical_at = FloatField(
        label="Critical from which value on",
        required=False,
        help_text="The same alert then becomes critical, and is told again. Of budgets: which of "
        "their thresholds are. Empty: it stays as grave as it is.",
    )
    on_no_data = ChoiceField(
        label="Where nothing is known",
        required=False,
        choices=list(NO_DATA_WORDS.items()),
        initial=NoData.KEEP.value,
    )
    channels = MultipleChoiceField(
        label="Channels",
        required=False,
        widget=CheckboxSelectMultiple,
        help_text="None: it shows in the console alone.",
    )
    tells_resolved = BooleanField(label="Tell the end too", required=False, initial=True)
    reminds_every_s = ChoiceField(
        label="Tell it again",
        required=False,
        initial="0",
        choices=[(str(one), _again_words(one)) for one in _AGAIN],
        help_text="As long as it is open and nobody has taken it up.",
    )
    runbook = URLField(
        label="Runbook",
        required=False,
        assume_scheme="https",
        max_length=RUNBOOK_LENGTH,
        help_text="What to do about it; messages link to it.",
    )
    escalates_after_s = ChoiceField(
        label="Tell the next channel after",
        required=False,
        initial="0",
        choices=[(str(one), _after_words(one)) for one in _AGAIN],
    )
    escalation = NamesField(
        label="Next channels",
        required=False,
        help_text="Names in their order, with commas; one is told after each such time.",
    )
    is_enabled = BooleanField(label="On", required=False, initial=True)

    def prepare(self) -> None:
        super().prepare()
        offered = list_channels(self.scope.access)
        if self.row is not None:
            offered = offered.filter(organisation=self.row.organisation)
        else:
            offered = in_organisation(offered, self.scope.organisation)
        names = sorted({one.name for one in offered})
        self.fields["channels"].choices = [(one, one) for one in names]  # type: ignore[attr-defined]
        if not self.scope.access.is_platform_admin:
            scopes = [one for one in _SCOPES.items() if one[0] != AlertScope.ALL]
            self.fields["scope"].choices = scopes  # type: ignore[attr-defined]
        for name, words in _LENGTHS.items():
            self._offer_own(name, words)
        asked = self.initial.get("scope_id")
        if asked:
            named = list_names(self.scope.access, {asked}).get(asked, asked)
            self.initial = {**self.initial, "scope_id": named}

    def _offer_own(self, name: str, words: Any) -> None:
        """Keep a length that was set by REST among the choices."""
        field: Any = self.fields[name]
        own = None if self.row is None else getattr(self.row, name)
        if own is not None and str(own) not in dict(field.choices):
            field.choices = [*field.choices, (str(own), words(own))]

    @classmethod
    def initial_of(cls, row: Any) -> dict[str, Any]:
        found = super().initial_of(row)
        found.pop(EVERYWHERE, None)
        return found | {"channels": row.channel_names, "escalation": row.escalation}

    def clean(self) -> dict[str, Any]:
        """Take the kind's own values where none are given, and find the place that is meant."""
        found = super().clean() or {}
        kind = found.get("kind")
        if kind:
            traits = TRAITS[AlertKind(kind)]
            if found.get("threshold") is None and "threshold" not in self.errors:
                found["threshold"] = traits.threshold
            given = int(found.get("window_s") or 0)
            found["window_s"] = (given or traits.window_s) if traits.window_s else 0
        for name in ("for_s", "reminds_every_s", "escalates_after_s"):
            found[name] = int(found.get(name) or 0)
        found["on_no_data"] = found.get("on_no_data") or NoData.KEEP.value
        found["channels"] = sorted(found.get("channels") or ())
        try:
            asked = found.get("scope_id") or None
            found["scope_id"] = find_place(self.home, str(found.get("scope")), asked)
        except Invalid as error:
            for message in error.fields["scope_id"]:
                self.add_error("scope_id", message)
        return found

    def shown(self, name: str, value: Any) -> str:
        if name == "on_no_data" and value:
            return NO_DATA_WORDS[value]
        if name in ("threshold", "clears_at", "critical_at") and value is not None:
            kind = getattr(self, "cleaned_data", {}).get("kind") or getattr(self.row, "kind", "")
            return value_words(kind, float(value)) if kind else str(value)
        if name == "window_s" and value is not None and not int(value):
            return "the moment"
        if name in _LENGTHS and value is not None:
            return _LENGTHS[name](int(value))
        if name in ("channels", "escalation"):
            return ", ".join(value or ()) or "none"
        if name == "kind" and value:
            return TRAITS[AlertKind(value)].title
        if name == "scope_id" and value:
            return list_names(self.scope.access, {value}).get(value, str(value))
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        return "each, or the whole" if name == "scope_id" else super().unset(name)
