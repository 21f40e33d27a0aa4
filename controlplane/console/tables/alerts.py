"""The tables of alerts, their rules, silences, channels and messages."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.details import State
from controlplane.console.formats import elapsed
from controlplane.console.icons import icon
from controlplane.console.lists import NUMBER, NameColumn, NounTable, WhenColumn, when
from controlplane.console.nouns import ALERT_RULES, ALERTS, CHANNELS, DELIVERIES
from controlplane.decisions.alert_kinds import (
    NAMED_PLACES,
    TRAITS,
    AlertKind,
    ChannelKind,
    DeliveryKind,
    DeliveryState,
    EpisodeState,
    Severity,
    condition_words,
    place_words,
    value_words,
)
from controlplane.models import AlertRule, Channel, Delivery, Episode, Silence
from controlplane.notify.registry import REGISTRY

SEVERITY_TONES = {
    Severity.CRITICAL.value: ("crit", "crit"),
    Severity.WARNING.value: ("warn", "warn"),
    Severity.NOTICE.value: ("info", "info"),
}
_STATES = {
    EpisodeState.OPEN.value: State("Open", "crit", "crit"),
    EpisodeState.ACKNOWLEDGED.value: State("Acknowledged", "person", "info"),
    EpisodeState.SNOOZED.value: State("Snoozed", "clock", "idle"),
    EpisodeState.RESOLVED.value: State("Over", "ok", "ok"),
}
_DELIVERIES = {
    DeliveryState.QUEUED.value: State("Waits", "clock", "idle"),
    DeliveryState.SENDING.value: State("Being sent", "clock", "info"),
    DeliveryState.SENT.value: State("Sent", "ok", "ok"),
    DeliveryState.HELD.value: State("Kept back", "pause", "idle"),
    DeliveryState.FOLDED.value: State("In a digest", "ok", "ok"),
    DeliveryState.FAILED.value: State("Given up", "crit", "crit"),
    DeliveryState.UNKNOWN.value: State("Unknown", "warn", "warn"),
}
_TELLS = {
    DeliveryKind.FIRED.value: "an alert",
    DeliveryKind.REMINDED.value: "an alert, again",
    DeliveryKind.WORSENED.value: "an alert that became critical",
    DeliveryKind.ESCALATED.value: "an alert nobody took up",
    DeliveryKind.UPDATED.value: "what was done about an alert",
    DeliveryKind.DIGEST.value: "several at once",
    DeliveryKind.RESOLVED.value: "an alert's end",
    DeliveryKind.SWITCHED.value: "a kill switch",
    DeliveryKind.TEST.value: "a test",
    DeliveryKind.REPORT.value: "a report",
}


def chip(state: State) -> SafeString:
    """A state in a cell."""
    return format_html('<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words)


def severity_chip(severity: str) -> SafeString:
    """A severity as icon and word."""
    icon_name, tone = SEVERITY_TONES[severity]
    return format_html('<span class="st">{}{}</span>', icon(icon_name, tone), severity.capitalize())


def words_of_state(state: str) -> str:
    """How far people are with an alert, in a word."""
    return _STATES[state].words


def state_of_alert(row: Any) -> State:
    """How far people are with it; quiet is told of what still holds."""
    state = _STATES[row.state]
    if row.state == EpisodeState.RESOLVED:
        return state
    if row.is_silenced:
        return State(f"{state.words}, silenced", "pause", "idle")
    return replace(state, words=f"{state.words}, flapping") if row.is_flapping else state


def place_of(row: Episode) -> str:
    """`pool mine`; what is one of a kind by its own name."""
    name = row.subject_name or row.subject_id
    return f"{row.scope} {name}" if row.scope in NAMED_PLACES else name


def state_of_channel(row: Channel) -> State:
    """Whether it is on, off by a person, or dead."""
    if row.is_dead:
        return State("Dead", "crit", "crit")
    if not row.is_enabled:
        return State("Off", "pause", "idle")
    return State("Failing", "warn", "warn") if row.failures else State("On", "ok", "ok")


def where_of(row: Channel) -> str:
    """Where a channel leads, as far as it may be told."""
    if row.kind == ChannelKind.EMAIL:
        more = f" and {len(row.recipients) - 2} more" if len(row.recipients) > 2 else ""
        return ", ".join(row.recipients[:2]) + more
    return row.conversation or row.host


def state_of_delivery(row: Delivery) -> State:
    """How far a message came."""
    if row.state == DeliveryState.QUEUED and row.attempts:
        return State("Tried again later", "clock", "warn")
    return _DELIVERIES[row.state]


def tells_words(kind: str) -> str:
    """What a message tells of."""
    return _TELLS[kind]


class AlertTable(NounTable):
    """What holds, each with what can be done at once."""

    name = NameColumn(ALERTS, "Alert", attrs={"td": {"class": "nw"}})
    severity = Column("Severity", attrs={"td": {"class": "nw", "data-l": "Severity"}})
    subject_name = Column("Where", attrs={"td": {"data-l": "Where"}})
    value = Column("Value", attrs={**NUMBER, "td": {"class": "num", "data-l": "Value"}})
    threshold = Column("Alerts at", attrs={"th": {"class": "num"}, "td": {"class": "num opt"}})
    state = Column("State", attrs={"td": {"class": "nw", "data-l": "State"}})
    opened_at = WhenColumn("Since")
    acts = Column(
        format_html('<span class="vh">{}</span>', "What to do"),
        empty_values=(),
        orderable=False,
        attrs={"td": {"class": "w-acts"}},
    )

    caption = "Alerts that hold"

    def __init__(self, data: Any, *, may_write: bool = False, **options: Any) -> None:
        super().__init__(data, **options)
        self.may_write = may_write

    def render_severity(self, value: str) -> SafeString:
        return severity_chip(value)

    def render_subject_name(self, record: Episode) -> str:
        return place_of(record)

    def render_value(self, record: Episode) -> str:
        return value_words(record.kind, record.value)

    def render_threshold(self, record: Episode) -> str:
        return value_words(record.kind, record.threshold)

    def render_state(self, record: Any) -> SafeString:
        return chip(state_of_alert(record))

    def render_acts(self, record: Episode) -> SafeString:
        if not self.may_write or record.state == EpisodeState.RESOLVED:
            return SafeString()
        found = [(silence_url(record), "Silence")]
        if record.state != EpisodeState.ACKNOWLEDGED:
            found.insert(0, (reverse("alert-acknowledge", args=[record.pk]), "Acknowledge"))
        what = f"{record.name}, {place_of(record)}"
        return format_html_join(
            " ",
            '<a class="btn btn-plain btn-xs" href="{}">{}<span class="vh"> {}</span></a>',
            ((url, words, what) for url, words in found),
        )


def silence_url(row: Episode) -> str:
    """The form of a silence of this alert's rule at its place."""
    asked = {"rule": row.rule_id or "", "subject_id": row.subject_id}
    if row.organisation_id is None:
        asked["is_everywhere"] = "on"
    told = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('silence-create')}?{told}"


class HistoryTable(NounTable):
    """What is over, and how long it lasted."""

    name = NameColumn(ALERTS, "Alert", attrs={"td": {"class": "nw"}})
    severity = Column("Severity", attrs={"td": {"class": "nw", "data-l": "Severity"}})
    subject_name = Column("Where", attrs={"td": {"data-l": "Where"}})
    peak = Column("At its worst", attrs={**NUMBER, "td": {"class": "num", "data-l": "Worst"}})
    opened_at = WhenColumn("Fired")
    resolved_at = Column("Lasted", attrs={"td": {"class": "nw", "data-l": "Lasted"}})
    resolved_why = Column("Ended", attrs={"td": {"class": "opt"}})
    acknowledged_by = Column("Acknowledged by", attrs={"td": {"class": "opt"}})

    caption = "Alerts that are over"

    def render_severity(self, value: str) -> SafeString:
        return severity_chip(value)

    def render_subject_name(self, record: Episode) -> str:
        return place_of(record)

    def render_peak(self, record: Episode) -> str:
        return value_words(record.kind, record.peak)

    def render_resolved_at(self, record: Episode) -> str:
        assert record.resolved_at is not None
        return elapsed((record.resolved_at - record.opened_at).total_seconds())


class AlertRuleTable(NounTable):
    """Rules in words, with what they tell."""

    name = NameColumn(ALERT_RULES, attrs={"td": {"class": "nw"}})
    kind = Column("Fires at", attrs={"td": {"data-l": "Fires at"}})
    scope = Column("Where", attrs={"td": {"data-l": "Where"}})
    severity = Column("Severity", attrs={"td": {"class": "nw", "data-l": "Severity"}})
    channels = Column("Tells", orderable=False, empty_values=(), attrs={"td": {"class": "opt"}})
    state = Column("State", order_by="is_enabled", empty_values=(), attrs={"td": {"class": "nw"}})
    updated_at = WhenColumn("Changed", attrs={"td": {"class": "nw opt"}})

    caption = "Alert rules"

    def __init__(self, data: Any, *, now: datetime, **options: Any) -> None:
        super().__init__(data, now=now, **options)
        self.names: dict[str, str] = {}

    def render_kind(self, record: AlertRule) -> str:
        return condition_words(record.kind, record.threshold, record.window_s, record.for_s)

    def render_scope(self, record: AlertRule) -> str:
        return place_words(record.scope, record.scope_id, self.names.get(record.scope_id or ""))

    def render_severity(self, value: str) -> SafeString:
        return severity_chip(value)

    def render_channels(self, record: AlertRule) -> str:
        told = ", ".join(record.channel_names) or "the console alone"
        return f"{told}; later {', '.join(record.escalation)}" if record.escalation else told

    def render_state(self, record: Any) -> SafeString:
        return chip(state_of_rule(record))


def state_of_rule(row: Any) -> State:
    """Whether it is on, and whether it fires."""
    if not row.is_enabled:
        return State("Off", "pause", "idle")
    if row.firing:
        return State(f"Firing: {row.firing}", "crit", "crit")
    return State("On", "ok", "ok")


def kind_title(kind: str) -> str:
    """What a rule watches, by its title."""
    return TRAITS[AlertKind(kind)].title


class SilenceTable(NounTable):
    """What is quiet now, why, and until when."""

    rule = Column("Rule", empty_values=(), attrs={"td": {"class": "nw"}})
    subject_id = Column("Where", empty_values=(), attrs={"td": {"data-l": "Where"}})
    reason = Column("Why", attrs={"td": {"data-l": "Why"}})
    created_by = Column("By", attrs={"td": {"class": "nw opt"}})
    ends_at = WhenColumn("Ends")

    caption = "Silences"

    def __init__(self, data: Any, **options: Any) -> None:
        super().__init__(data, **options)
        self.names: dict[str, str] = {}

    def render_rule(self, record: Silence) -> SafeString:
        url = reverse("silence", args=[record.pk])
        words = "every rule" if record.rule is None else record.rule.name
        return format_html('<a href="{}">{}</a>', url, words)

    def render_subject_id(self, record: Silence) -> str:
        if record.subject_id is None:
            return "everywhere"
        return self.names.get(record.subject_id, record.subject_id)


class ChannelTable(NounTable):
    """Channels with where they lead."""

    name = NameColumn(CHANNELS, attrs={"td": {"class": "nw"}})
    kind = Column("Kind", attrs={"td": {"class": "nw", "data-l": "Kind"}})
    host = Column("Leads to", orderable=False, empty_values=(), attrs={"td": {"data-l": "To"}})
    rule_names = Column("Told by", orderable=False, empty_values=(), attrs={"td": {"class": "opt"}})
    state = Column("State", order_by="is_enabled", empty_values=(), attrs={"td": {"class": "nw"}})
    last_sent_at = WhenColumn("Last sent", attrs={"td": {"class": "nw opt"}})

    caption = "Channels"

    def render_kind(self, value: str) -> str:
        return REGISTRY[ChannelKind(value)].label

    def render_host(self, record: Channel) -> str:
        return where_of(record)

    def render_rule_names(self, record: Any) -> str:
        told = [*record.rule_names, *(["kill switches"] if record.tells_switches else [])]
        return ", ".join(told) or "nothing yet"

    def render_state(self, record: Channel) -> SafeString:
        return chip(state_of_channel(record))


class DeliveryTable(NounTable):
    """Messages, newest first."""

    created_at = Column("Queued", attrs={"td": {"class": "nw"}})
    kind = Column("Tells of", attrs={"td": {"class": "nw", "data-l": "Of"}})
    title = Column("Message", accessor="content", orderable=False, attrs={"td": {"class": "opt"}})
    channel = Column("Channel", order_by="channel__name", attrs={"td": {"data-l": "Channel"}})
    state = Column("State", attrs={"td": {"class": "nw", "data-l": "State"}})
    attempts = Column("Attempts", attrs={**NUMBER, "td": {"class": "num", "data-l": "Attempts"}})
    error = Column("Why not", attrs={"td": {"class": "opt"}})

    caption = "Messages, newest first"

    def render_created_at(self, record: Delivery) -> SafeString:
        url = DELIVERIES.detail_url(record.pk)
        told = when(record.created_at, self.scope, self.now)
        return format_html('<a href="{}">{}</a>', url, told)

    def render_kind(self, value: str) -> str:
        return tells_words(value)

    def render_title(self, record: Delivery) -> str:
        return str(record.content["title"])

    def render_state(self, record: Delivery) -> SafeString:
        return chip(state_of_delivery(record))
