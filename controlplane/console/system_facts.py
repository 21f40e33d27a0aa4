"""The parts of the installation in words: what each is for, how it is, what it measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.bridge.parts import Part
from controlplane.console.details import Fact, State
from controlplane.console.formats import UNKNOWN, count, dollars, elapsed, size

_TITLES: Mapping[str, tuple[str, str]] = {
    "headworks": ("Headworks", "the process that serves this page"),
    "database": ("Database", "rows and ledger"),
    "state": ("State store", "snapshot, directory, usage stream, vitals, sessions"),
    "cache": ("Cache store", "may be emptied at any time"),
    "gateways": ("Gateways", "serve requests"),
    "pools": ("Supervisor and workers", "starts and watches engines"),
    "jobs": ("Background jobs", "publish again what a store lost, and tidy up"),
    "recorder": ("Recorder", "usage stream into the ledger"),
    "books": ("Books", "gateways' counters, journals, ledger and roll-ups, compared"),
    "outbox": ("Outbox", "messages about alerts"),
    "budgets": ("Budgets", "their counters in the state store, kept true to the ledger"),
    "feed": ("Feed", "samples the fleet for live pages"),
    "snapshots": ("Snapshots", "the database's newest version against the published one"),
    "disk": ("Disk", "of the data folder, as this host sees it"),
}


def _dollars(nanousd: float | None) -> str:
    return UNKNOWN if nanousd is None else dollars(int(nanousd))


_STATES: Mapping[str, State] = {
    "ok": State("Ok", "ok", "ok"),
    "degraded": State("Degraded", "warn", "warn"),
    "stale": State("Stale", "warn", "warn"),
    "down": State("Down", "crit", "crit"),
    "unknown": State("No data", "nodata", "idle"),
}
_UNITS = {"_bytes": size, "_s": elapsed, "_nanousd": _dollars}
_LABELS = {"missing": "not live"}
_HIDDEN = frozenset(("not_ready",))


@dataclass(frozen=True, slots=True)
class ToldPart:
    """One part as the page shows it."""

    name: str
    title: str
    words: str
    state: State
    detail: str
    facts: Sequence[Fact]


def told(part: Part) -> ToldPart:
    """A part in words."""
    title, words = _TITLES.get(part.name, (part.name.capitalize(), ""))
    facts = [_fact(name, value) for name, value in part.facts.items() if name not in _HIDDEN]
    if part.age_s is not None:
        facts.append(Fact("Last sign of life", f"{elapsed(part.age_s)} ago"))
    if part.took_ms is not None:
        facts.append(Fact("Answered in", f"{part.took_ms:,.1f} ms"))
    detail = part.detail
    if detail.split(":")[0] not in _names_in(part):
        detail = detail[:1].upper() + detail[1:]
    return ToldPart(part.name, title, words, _STATES[part.state], detail, facts)


def _names_in(part: Part) -> Sequence[str]:
    """What its words may begin with and is written as its owner writes it."""
    missing = part.facts.get("missing")
    return missing if isinstance(missing, list) else ()


def _fact(name: str, value: object) -> Fact:
    if name == "by_name" and isinstance(value, list):
        return Fact("By name", "; ".join(_gateway(one) for one in value) or "none")
    for suffix, write in _UNITS.items():
        if name.endswith(suffix):
            figure = value if isinstance(value, int | float) else None
            return Fact(_label(name.removesuffix(suffix)), write(figure))  # type: ignore[operator]
    return Fact(_label(name), _words(value))


def _gateway(told: Mapping[str, object]) -> str:
    """One gateway: the version its slowest child runs on, and how many of its children live."""
    children = f"{told['children_live']} of {told['children_seen']} children"
    return f"{told['name']} at v{told['version'] or UNKNOWN}, {children}"


def _label(name: str) -> str:
    words = _LABELS.get(name, name).replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _words(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(_words(one) for one in value) or "none"
    return str(value)
