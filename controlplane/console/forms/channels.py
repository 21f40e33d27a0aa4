"""The form of channels."""

import re
from datetime import time
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.forms import (
    BooleanField,
    CharField,
    ChoiceField,
    PasswordInput,
    Textarea,
    TimeField,
    TimeInput,
    URLField,
)

from controlplane.console.forms.alerts import EVERYWHERE, SharedForm
from controlplane.decisions.alert_kinds import ChannelKind, seconds_words
from controlplane.models import Channel
from controlplane.models.rows import LABEL_LENGTH
from controlplane.notify.registry import REGISTRY
from controlplane.services.channels import LEAST_SECRET, MOST_SECRET
from inference.decisions.egress import MAX_URL_LENGTH

_DIGESTS = (0, 60, 300, 900, 3_600, 14_400, 86_400)


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


def _digest_words(seconds: int) -> str:
    return seconds_words(seconds) if seconds else "nothing: each goes out at once"


class ChannelForm(SharedForm):
    """A channel. Its kind is chosen once; of address and secret, empty keeps what is there."""

    fixed: ClassVar[frozenset[str]] = frozenset({"kind", EVERYWHERE})
    secrets: ClassVar[frozenset[str]] = frozenset({"url", "secret", "signing_secret"})
    risky: ClassVar[frozenset[str]] = frozenset(
        ("recipients", "url", "secret", "conversation", "signing_secret", "is_enabled")
    )
    groups = (
        ("Where it leads", ("recipients", "url", "conversation", "secret", "signing_secret")),
        ("What is kept back", ("digest_s", "quiet_from", "quiet_until", "critical_passes")),
        ("", ("tells_switches", "is_enabled", EVERYWHERE)),
    )

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
        help_text="Of webhooks what messages are signed with, of a bot of Slack its token "
        "(xoxb-…). It is never shown again.",
    )
    conversation = CharField(
        label="Slack channel",
        required=False,
        max_length=80,
        help_text="Of a bot of Slack: the channel's id, such as C0123456789. The bot must be in "
        "it.",
    )
    signing_secret = CharField(
        label="Slack's signing secret",
        required=False,
        min_length=LEAST_SECRET,
        max_length=MOST_SECRET,
        strip=False,
        widget=PasswordInput({"autocomplete": "off"}),
        help_text="Of a bot of Slack; with it messages have buttons. It is never shown again.",
    )
    digest_s = ChoiceField(
        label="Collect for",
        required=False,
        initial="0",
        choices=[(str(one), _digest_words(one)) for one in _DIGESTS],
        help_text="What comes within that time is told as one message.",
    )
    quiet_from = TimeField(
        label="Quiet from", required=False, widget=TimeInput({"type": "time"}, format="%H:%M")
    )
    quiet_until = TimeField(
        label="Quiet until",
        required=False,
        widget=TimeInput({"type": "time"}, format="%H:%M"),
        help_text="Nothing goes out meanwhile; what came is told afterwards.",
    )
    critical_passes = BooleanField(
        label="Critical alerts pass",
        required=False,
        initial=True,
        help_text="They are neither collected nor kept back.",
    )
    tells_switches = BooleanField(
        label="Tell kill switches", required=False, help_text="Each one thrown or removed."
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: nothing is sent, nor kept."
    )

    def prepare(self) -> None:
        super().prepare()
        self.fields["quiet_from"].help_text = f"In {self.scope.zone.key}. Empty: never quiet."
        if self.row is None:
            return
        field: Any = self.fields["digest_s"]
        if str(self.row.digest_s) not in dict(field.choices):
            # set by REST
            own = str(self.row.digest_s), _digest_words(self.row.digest_s)
            field.choices = [*field.choices, own]
        takes = REGISTRY[ChannelKind(self.row.kind)].takes
        for name in ("recipients", "url", "secret", "conversation", "signing_secret"):
            if name not in takes:
                del self.fields[name]
            elif name in self.secrets:
                self.fields[name].help_text = "Empty: as it is."

    @classmethod
    def initial_of(cls, row: Channel) -> dict[str, Any]:
        shown = (
            *("name", "recipients", "conversation", "tells_switches", "is_enabled"),
            *("digest_s", "quiet_from", "quiet_until", "critical_passes"),
        )
        return {name: getattr(row, name) for name in shown}

    def values(self) -> dict[str, Any]:
        found = super().values()
        if "digest_s" in found:
            found["digest_s"] = int(found["digest_s"] or 0)
        return {
            name: (value or None) if name in self.secrets else value
            for name, value in found.items()
        }

    def plain(self, name: str, value: Any) -> Any:
        if name == "digest_s" and value is not None:
            return int(value or 0)
        if isinstance(value, time):
            return value.isoformat()
        return super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        if name == "recipients":
            return ", ".join(value or ()) or "none"
        if name == "digest_s" and value is not None:
            return _digest_words(int(value or 0))
        return super().shown(name, value)
