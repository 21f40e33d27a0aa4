"""What messages about alerts say: fixed when they are queued, so that a repeat says the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from controlplane.decisions.alert_kinds import (
    NAMED_PLACES,
    DeliveryKind,
    EpisodeState,
    breach_words,
    condition_words,
    value_words,
)

Content = dict[str, object]

_TITLE_LENGTH = 200
_MOST_LISTED = 20
_MOST_DOCUMENTS = 100
_FLAPS = "It flaps: it fired three times within an hour, and is over once it was quiet for 15 min."
_VERBS = {
    DeliveryKind.FIRED: "Firing",
    DeliveryKind.REMINDED: "Still firing",
    DeliveryKind.ESCALATED: "Nobody has taken it up",
    DeliveryKind.WORSENED: "Critical now",
    DeliveryKind.UPDATED: "Firing",
    DeliveryKind.RESOLVED: "Resolved",
}
_STATES = {
    EpisodeState.ACKNOWLEDGED: "Acknowledged",
    EpisodeState.SNOOZED: "Snoozed",
    EpisodeState.RESOLVED: "Resolved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One alert as messages need it."""

    id: str
    name: str
    kind: str
    scope: str
    subject_id: str
    subject_name: str
    threshold: float
    window_s: int
    severity: str
    value: float | None
    peak: float | None
    opened_at: datetime
    resolved_at: datetime | None = None
    resolved_why: str = ""
    state: str = EpisodeState.OPEN.value
    acknowledged_by: str = ""
    snoozed_until: datetime | None = None
    detail: str = ""
    runbook: str = ""
    is_flapping: bool = False

    @property
    def place(self) -> str:
        """`pool mine`; what isn't one of several is called by its own name."""
        name = self.subject_name or self.subject_id
        is_many = self.scope in NAMED_PLACES
        return f"{self.scope} {name}" if is_many else name

    @property
    def condition(self) -> str:
        return condition_words(self.kind, self.threshold, self.window_s, 0)

    def document(self) -> Mapping[str, object]:
        """The alert for programs."""
        return {
            "id": self.id,
            "rule": self.name,
            "kind": self.kind,
            "scope": self.scope,
            "subject_id": self.subject_id,
            "subject_name": self.subject_name,
            "severity": self.severity,
            "state": self.state,
            "detail": self.detail,
            "is_flapping": self.is_flapping,
            "runbook": self.runbook,
            "value": self.value,
            "peak": self.peak,
            "threshold": self.threshold,
            "window_s": self.window_s,
            "opened_at": _utc(self.opened_at),
            "resolved_at": None if self.resolved_at is None else _utc(self.resolved_at),
        }


def content_of(kind: DeliveryKind, alerts: Sequence[Told]) -> Content:
    """One message about one alert, or about several that came at once."""
    if len(alerts) == 1:
        return _single(kind, alerts[0])
    verb = _VERBS[kind]
    listed = [f"{one.name}: {one.place}" for one in alerts[:_MOST_LISTED]]
    if len(alerts) > _MOST_LISTED:
        listed.append(f"and {len(alerts) - _MOST_LISTED} more")
    return {
        "title": f"{verb}: {len(alerts)} alerts",
        "text": "\n".join(listed),
        "severity": min((one.severity for one in alerts), key=_gravity),
        "url": "/alerts/",
        "facts": [],
        "alerts": [one.document() for one in alerts],
    }


def _single(kind: DeliveryKind, alert: Told) -> Content:
    facts = [
        ("Where", alert.place),
        ("Condition", alert.condition),
        ("Severity", alert.severity),
        ("Since", _utc(alert.opened_at)),
    ]
    if kind is DeliveryKind.RESOLVED:
        text = f"{alert.place}: over. {alert.resolved_why}".strip()
        facts.append(("At its worst", value_words(alert.kind, alert.peak)))
    else:
        value = value_words(alert.kind, alert.value)
        text = breach_words(alert.kind, alert.value, alert.threshold, alert.place)
        text = " ".join((text, *filter(None, (alert.detail, _FLAPS * alert.is_flapping))))
        facts.insert(1, ("Value", value))
    if taken_up := _taken_up(alert):
        facts.append(("State", taken_up))
    if alert.runbook:
        facts.append(("Runbook", alert.runbook))
    verb = (
        _VERBS[kind]
        if kind is not DeliveryKind.UPDATED
        else _STATES.get(EpisodeState(alert.state), _VERBS[kind])
    )
    return {
        "title": f"{verb}: {alert.name}, {alert.place}"[:_TITLE_LENGTH],
        "text": text,
        "severity": alert.severity,
        "url": f"/alerts/{alert.id}/",
        "facts": [list(one) for one in facts],
        "alerts": [alert.document()],
    }


def _taken_up(alert: Told) -> str:
    """What people did about it; "" if nothing that still counts."""
    if alert.state == EpisodeState.ACKNOWLEDGED:
        return f"acknowledged by {alert.acknowledged_by}"
    if alert.state == EpisodeState.SNOOZED and alert.snoozed_until is not None:
        return f"snoozed until {_utc(alert.snoozed_until)}"
    return ""


def digest_content(contents: Sequence[Content]) -> Content:
    """Several messages that were held, as one: what each would have said, the oldest first."""
    lines = [str(one["title"]) for one in contents[:_MOST_LISTED]]
    if len(contents) > _MOST_LISTED:
        lines.append(f"and {len(contents) - _MOST_LISTED} more")
    alerts = [alert for one in contents for alert in cast(list[object], one["alerts"])]
    return {
        "title": f"Digest: {len(contents)} messages",
        "text": "\n".join(lines),
        "severity": min((str(one["severity"]) for one in contents), key=_gravity),
        "url": "/alerts/",
        "facts": [],
        "alerts": alerts[:_MOST_DOCUMENTS],
    }


def trial_content(channel: str) -> Content:
    """A message that somebody asked for, to see whether it comes."""
    return {
        "title": f"Test of channel {channel}",
        "text": "If you read this, alerts reach you here. Nothing is wrong.",
        "severity": "notice",
        "url": "/alerts/channels/",
        "facts": [],
        "alerts": [],
    }


def switch_content(
    *, is_off: bool, about: str, organisation: str, who: str, reason: str, until: datetime | None
) -> Content:
    """That something was turned off or is served again, and by whose hand."""
    title = f"Turned off: {about}" if is_off else f"Served again: {about}"
    facts = [["Organisation", organisation], ["By", who]]
    if reason:
        facts.append(["Reason", reason])
    if is_off:
        ends = "when somebody puts it back" if until is None else _utc(until)
        facts.append(["Served again", ends])
    return {
        "title": title[:_TITLE_LENGTH],
        "text": f"{who} {'threw' if is_off else 'removed'} a kill switch.",
        "severity": "critical" if is_off else "notice",
        "url": "/switches/",
        "facts": facts,
        "alerts": [],
    }


def _gravity(severity: str) -> int:
    return ("critical", "warning", "notice").index(severity)


def _utc(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
