"""Forms of alert rules, channels and silences."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.forms import (
    BooleanField,
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    DateTimeField,
    FloatField,
    MultipleChoiceField,
    PasswordInput,
    Textarea,
    URLField,
)
from django.utils import timezone

from controlplane.console.forms.base import NounForm, Values
from controlplane.decisions.alert_kinds import (
    TRAITS,
    AlertKind,
    AlertScope,
    ChannelKind,
    Severity,
    seconds_words,
    value_words,
)
from controlplane.errors import Invalid
from controlplane.models import Channel, Organisation
from controlplane.models.kinds import severities
from controlplane.models.rows import LABEL_LENGTH
from controlplane.notify.registry import REGISTRY
from controlplane.selectors.alerts import in_organisation, list_alert_rules, list_channels
from controlplane.selectors.names import list_names
from controlplane.services.alert_rules import find_place
from controlplane.services.channels import LEAST_SECRET, MOST_SECRET
from inference.decisions.egress import MAX_URL_LENGTH

EVERYWHERE = "is_everywhere"
_WINDOWS = (0, 60, 300, 600, 900, 1_800, 3_600)
_WAITS = (0, 30, 60, 120, 300, 600, 900, 1_800, 3_600)
_SCOPES = {
    AlertScope.POOL.value: "one pool, or each",
    AlertScope.ROUTE.value: "one route, or each",
    AlertScope.BUDGET.value: "one budget, or each",
    AlertScope.ORGANISATION.value: "the whole organisation",
    AlertScope.ALL.value: "the whole installation",
}
ENDS = [
    ("3600", "in 1 hour"),
    ("14400", "in 4 hours"),
    ("86400", "in 24 hours"),
    ("259200", "in 3 days"),
    ("604800", "in 7 days"),
]


def _window_words(seconds: int) -> str:
    return seconds_words(seconds) if seconds else "as is usual for it"


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
            *("kind", "scope", "scope_id", "threshold", "window_s", "for_s", "severity"),
            *("channels", "tells_resolved", "is_enabled"),
        )
    )
    groups = (
        ("What is watched", ("kind", "scope", "scope_id", "window_s")),
        ("When it fires", ("threshold", "for_s", "severity")),
        ("Who is told", ("channels", "tells_resolved")),
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
        help_text="Name or id of a pool, route or budget. Empty: each one apart.",
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
    severity = ChoiceField(label="Severity", choices=severities, initial=Severity.WARNING.value)
    channels = MultipleChoiceField(
        label="Channels",
        required=False,
        widget=CheckboxSelectMultiple,
        help_text="None: it shows in the console alone.",
    )
    tells_resolved = BooleanField(label="Tell the end too", required=False, initial=True)
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
        for name, words in (("window_s", _window_words), ("for_s", seconds_words)):
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
        return found | {"channels": sorted(one.name for one in row.channels.all())}

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
        found["for_s"] = int(found.get("for_s") or 0)
        found["channels"] = sorted(found.get("channels") or ())
        try:
            asked = found.get("scope_id") or None
            found["scope_id"] = find_place(self.home, str(found.get("scope")), asked)
        except Invalid as error:
            for message in error.fields["scope_id"]:
                self.add_error("scope_id", message)
        return found

    def shown(self, name: str, value: Any) -> str:
        if name == "threshold" and value is not None:
            kind = getattr(self, "cleaned_data", {}).get("kind") or getattr(self.row, "kind", "")
            return value_words(kind, float(value)) if kind else str(value)
        if name in ("window_s", "for_s") and value is not None:
            if name == "window_s":
                return seconds_words(int(value)) if int(value) else "the moment"
            return seconds_words(int(value))
        if name == "channels":
            return ", ".join(value or ()) or "none"
        if name == "kind" and value:
            return TRAITS[AlertKind(value)].title
        if name == "scope_id" and value:
            return list_names(self.scope.access, {value}).get(value, str(value))
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        return "each, or the whole" if name == "scope_id" else super().unset(name)


class RecipientsField(CharField):
    """Addresses with commas, blanks or line breaks between them, as a list without repeats."""

    def clean(self, value: Any) -> Any:
        words = [one for one in re.split(r"[,;\s]+", super().clean(value) or "") if one]
        for word in words:
            try:
                validate_email(word)
            except ValidationError as error:
                raise ValidationError(f"{word} is no mail address.") from error
        return list(dict.fromkeys(words))

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value


class ChannelForm(SharedForm):
    """A channel. Its kind is chosen once; of address and secret, empty keeps what is there."""

    fixed: ClassVar[frozenset[str]] = frozenset({"kind", EVERYWHERE})
    secrets: ClassVar[frozenset[str]] = frozenset({"url", "secret"})
    risky: ClassVar[frozenset[str]] = frozenset(("recipients", "url", "secret", "is_enabled"))

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="Who is reached by it.")
    kind = ChoiceField(
        label="Kind", choices=[(kind.value, one.label) for kind, one in REGISTRY.items()]
    )
    recipients = RecipientsField(
        label="Recipients",
        required=False,
        widget=Textarea({"rows": 3}),
        help_text="Of mail: addresses, one a line or with commas.",
    )
    url = URLField(
        label="Address",
        required=False,
        assume_scheme="https",
        max_length=MAX_URL_LENGTH,
        widget=PasswordInput({"autocomplete": "off"}),
        help_text="Of Slack and webhooks. Of Slack it is a secret itself, so only its host is "
        "shown later.",
    )
    secret = CharField(
        label="Secret",
        required=False,
        min_length=LEAST_SECRET,
        max_length=MOST_SECRET,
        strip=False,
        widget=PasswordInput({"autocomplete": "off"}),
        help_text="Of webhooks: what messages are signed with. It is never shown again.",
    )
    tells_switches = BooleanField(
        label="Tell kill switches", required=False, help_text="Each one thrown or removed."
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: nothing is sent, nor kept."
    )

    def prepare(self) -> None:
        super().prepare()
        if self.row is None:
            return
        takes = REGISTRY[ChannelKind(self.row.kind)].takes
        for name in ("recipients", "url", "secret"):
            if name not in takes:
                del self.fields[name]
            elif name in self.secrets:
                self.fields[name].help_text = "Empty: as it is."

    @classmethod
    def initial_of(cls, row: Channel) -> dict[str, Any]:
        shown = ("name", "recipients", "tells_switches", "is_enabled")
        return {name: getattr(row, name) for name in shown}

    def values(self) -> dict[str, Any]:
        found = super().values()
        return {
            name: (value or None) if name in self.secrets else value
            for name, value in found.items()
        }

    def shown(self, name: str, value: Any) -> str:
        if name == "recipients":
            return ", ".join(value or ()) or "none"
        return super().shown(name, value)


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

    def prepare(self) -> None:
        super().prepare()
        rules = in_organisation(list_alert_rules(self.scope.access), self.scope.organisation)
        named = list(rules.order_by("name").values_list("pk", "name"))
        self.fields["rule"].choices = [("", "every rule"), *named]  # type: ignore[attr-defined]

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


class SilenceEditForm(NounForm):
    """A silence that lasts: its end and its reason."""

    told = CharField(label="Why", max_length=200)
    ends_at = DateTimeField(label="Ends", help_text="Within 30 days.")

    def prepare(self) -> None:
        self.fields["ends_at"].label = f"Ends, {self.scope.zone.key}"

    @classmethod
    def initial_of(cls, row: Any) -> dict[str, Any]:
        return {"told": row.reason, "ends_at": row.ends_at}

    def values(self) -> dict[str, Any]:
        return _as_service(super().values())

    def base_of(self, values: Values) -> dict[str, Any]:
        return super().base_of(_as_service(values))

    def plain(self, name: str, value: Any) -> Any:
        if name == "ends_at" and value is not None and not isinstance(value, str):
            # controls of times know minutes alone: what they can't hold is no difference
            return value.replace(second=0, microsecond=0).isoformat()
        return super().plain(name, value)

    def label(self, name: str) -> str:
        return super().label("told" if name == "reason" else name)


def _as_service(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"reason" if name == "told" else name: value for name, value in values.items()}
