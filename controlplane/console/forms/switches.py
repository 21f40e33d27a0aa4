"""Forms of kill switches: when one ends by itself, and what callers are told."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.forms import CharField, ChoiceField, DateTimeField

from controlplane.console.forms.base import NounForm, Values
from controlplane.models import Switch

NEVER = "0"
ENDS = [
    (NEVER, "when somebody puts it back"),
    ("900", "in 15 minutes"),
    ("3600", "in 1 hour"),
    ("14400", "in 4 hours"),
    ("86400", "in 24 hours"),
    ("604800", "in 7 days"),
]
_TOLD_LENGTH = 200
_TOLD_HELP = "Stands in the error they get; no secret belongs here. Empty: only that it is off."


class ThrowForm(NounForm):
    """What is asked for beside the review of a switch that is to be thrown."""

    ends = ChoiceField(label="Served again", choices=ENDS, initial=NEVER)
    told = CharField(
        label="Told to callers", required=False, max_length=_TOLD_LENGTH, help_text=_TOLD_HELP
    )

    def values_at(self, now: datetime) -> dict[str, Any]:
        """The values as the service takes them; times count from now on."""
        seconds = int(self.cleaned_data["ends"])
        until = now + timedelta(seconds=seconds) if seconds else None
        return {"reason": self.cleaned_data["told"], "expires_at": until}


class SwitchForm(NounForm):
    """A switch that is thrown: what callers are told, and when it ends.

    The service's `reason` is told to callers; the reason a page asks for goes to the audit log.
    """

    risky: ClassVar[frozenset[str]] = frozenset({"expires_at"})

    told = CharField(
        label="Told to callers", required=False, max_length=_TOLD_LENGTH, help_text=_TOLD_HELP
    )
    expires_at = DateTimeField(
        label="Served again", required=False, help_text="Empty: when somebody puts it back."
    )

    def prepare(self) -> None:
        self.fields["expires_at"].label = f"Served again, {self.scope.zone.key}"

    @classmethod
    def initial_of(cls, row: Switch) -> dict[str, Any]:
        return {"told": row.reason, "expires_at": row.expires_at}

    def values(self) -> dict[str, Any]:
        return _as_service(super().values())

    def base_of(self, values: Values) -> dict[str, Any]:
        return super().base_of(_as_service(values))

    def plain(self, name: str, value: Any) -> Any:
        if name == "expires_at" and value is not None and not isinstance(value, str):
            # controls of times know minutes alone: what they can't hold is no difference
            return value.replace(second=0, microsecond=0).isoformat()
        return super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        if name == "expires_at" and value is None:
            return "when somebody puts it back"
        return super().shown(name, value)

    def label(self, name: str) -> str:
        return super().label("told" if name == "reason" else name)


def _as_service(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"reason" if name == "told" else name: value for name, value in values.items()}
