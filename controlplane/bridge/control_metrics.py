"""Figures of this plane for Prometheus. Labels are words of closed lists, so they are bounded."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from controlplane.bridge.books import count_differences
from controlplane.bridge.parts import Part
from controlplane.bridge.stream import read_lag_s
from controlplane.selectors.alerts import count_alerts, count_messages, get_oldest_waiting
from controlplane.selectors.budgets import get_upkeep
from controlplane.selectors.reconciliation import list_checks
from controlplane.selectors.snapshots import get_newest_revision

_PREFIX = "headworks_control_"

Figure = tuple[str, str, Mapping[tuple[str, str], float | None]]
"""A name without its prefix, what it is, and values by label and its value ("": no label)."""

_PLAIN = ("", "")


def figures_of_parts(parts: Sequence[Part]) -> Iterable[Figure]:
    """What `/-/status` knows of each part."""
    ups = {("part", one.name): float(one.state == "ok") for one in parts}
    yield "up", "whether a part of the installation is well", ups
    ages = {("part", one.name): one.age_s for one in parts if one.age_s is not None}
    yield "part_age_seconds", "how long ago a part was last heard of, where it beats", ages
    facts = next((one.facts for one in parts if one.name == "recorder"), {})
    waiting = facts.get("waiting_entries")
    told = waiting if isinstance(waiting, int) else None
    yield "recorder_waiting_entries", "usage events that are not recorded yet", {_PLAIN: told}


def figures_of_store() -> Iterable[Figure]:
    """What the state store tells."""
    words = "for how long the oldest usage event has waited for the recorder"
    yield "recorder_lag_seconds", words, {_PLAIN: read_lag_s()}


def figures_of_rows(now: datetime) -> Iterable[Figure]:
    """What the database tells."""
    messages = {("state", state): float(count) for state, count in count_messages().items()}
    yield "outbox_messages", "messages that wait, are given up (failed) or unknown", messages
    oldest = get_oldest_waiting(now) or 0.0
    yield "outbox_oldest_seconds", "for how long the oldest message is due", {_PLAIN: oldest}
    alerts = {("severity", severity): float(count) for severity, count in count_alerts().items()}
    yield "alerts_firing", "alerts that hold", alerts
    differences = count_differences()
    yield "books_differences", "figures in which the books differ", {_PLAIN: differences}
    compared = max((one.checked_at for one in list_checks().values()), default=None)
    yield "books_age_seconds", "how long ago they were compared", {_PLAIN: _age(compared, now)}
    upkeep = get_upkeep()
    age = _age(upkeep.compared_at if upkeep else None, now)
    yield "budgets_age_seconds", "how long ago budgets were compared with the ledger", {_PLAIN: age}
    newest = get_newest_revision()
    version = None if newest is None else float(newest.version)
    yield "configuration_version", "the newest configuration", {_PLAIN: version}


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())


def exposition(figures: Iterable[Figure]) -> bytes:
    """The figures in Prometheus' text format; what is not known is left out, never 0."""
    registry = CollectorRegistry()
    for name, words, values in figures:
        known = {label: value for label, value in values.items() if value is not None}
        labels = sorted({label for label, _ in known if label})
        if known:
            gauge = Gauge(_PREFIX + name, words[0].upper() + words[1:], labels, registry=registry)
            for (label, value_of_label), value in known.items():
                (gauge.labels(value_of_label) if label else gauge).set(value)
    return generate_latest(registry)
