"""A replay in words: what a draft would have changed, and how well that was foretold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.console.details import Fact, State
from controlplane.console.formats import NO_PRICE, UNKNOWN, about_dollars, count, duration
from controlplane.console.reviews import Figure, Split, split_of
from controlplane.decisions.replays import caution_about, pools_serving
from controlplane.models import Replay, ReplayState
from inference.decisions.replay_report import GOOD_ENOUGH

STATES: Mapping[str, State] = {
    ReplayState.QUEUED: State("Queued", "clock", "idle"),
    ReplayState.RUNNING: State("Running", "clock", "info"),
    ReplayState.DONE: State("Done", "ok", "ok"),
    ReplayState.FAILED: State("Failed", "crit", "crit"),
}
_SHARES = ("p50", "p95", "p99")
_SAME = 0.005
_SLOTS = 7

Side = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure as recorded, and as replayed under both configurations."""

    label: str
    recorded: str
    before: str
    after: str
    change: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """One percentile: foretold, seen, and how far apart."""

    label: str
    foretold: str
    seen: str
    off: str


def rows_of(sides: Mapping[str, Side]) -> Sequence[Row]:
    """What would have changed; a red change is one for the worse."""
    recorded, before, after = sides["recorded"], sides["current"], sides["draft"]
    rows = [_counts("Requests answered", "answered", recorded, before, after, worse=-1)]
    rows.append(_refused(recorded, before, after))
    for share in _SHARES:
        label = f"First token, {share}"
        rows.append(_times(label, "first_token_ms", share, recorded, before, after))
    rows.append(_counts("Waited in the gateway", "queued", recorded, before, after, worse=1))
    rows.append(_times("Wait, p95", "queued_ms", "p95", recorded, before, after))
    rows.append(_cost(recorded, before, after))
    return rows


def splits_of(
    sides: Mapping[str, Side], names: Mapping[str, str]
) -> tuple[Sequence[Split], Sequence[tuple[int, str]]]:
    """How the requests divide between pools on each side, and what the colours mean."""
    labels = {
        "recorded": "Recorded",
        "current": "As it was, replayed",
        "draft": "Drafted, replayed",
    }
    shares = {side: _by_pool(sides[side]) for side in labels}
    pools = list(dict.fromkeys(pool for found in shares.values() for pool in found))
    splits = [
        split_of(label, [(pool, shares[side].get(pool, 0.0)) for pool in pools])
        for side, label in labels.items()
    ]
    legend = [
        (
            min(place + 1, 8),
            f"{names.get(pool, pool)} {_percent(shares['current'].get(pool, 0.0))}"
            f" to {_percent(shares['draft'].get(pool, 0.0))}",
        )
        for place, pool in enumerate(pools)
    ]
    return splits, legend


def models_of(sides: Mapping[str, Side], names: Mapping[str, str]) -> Sequence[Figure]:
    """The share of each model before and after."""
    before, after = _by(sides["current"], "model"), _by(sides["draft"], "model")
    return [
        Figure(
            names.get(model, model),
            _percent(before.get(model, 0.0)),
            _percent(after.get(model, 0.0)),
            _points(after.get(model, 0.0) - before.get(model, 0.0)),
        )
        for model in dict.fromkeys((*before, *after))
    ]


def verdict_of(errors: Mapping[str, Any] | None) -> State:
    """Whether the 95th percentile came out as foretold."""
    if errors is None or errors.get("is_good") is None:
        return State("Nothing to compare", "nodata", "idle")
    off = f"{abs(errors['p95']):.0%}".replace("%", " %")
    if errors["is_good"]:
        return State(f"p95 within {GOOD_ENOUGH:.0%}: {off} off".replace("%:", " %:"), "ok", "ok")
    side = "too high" if errors["p95"] > 0 else "too low"
    return State(f"p95 was foretold {off} {side}", "warn", "warn")


def errors_told(
    foretold: Side, seen: Side, errors: Mapping[str, float | None]
) -> Sequence[ErrorLine]:
    """First tokens foretold and seen."""
    return [
        ErrorLine(
            f"First token, {share}",
            duration(foretold["first_token_ms"][share]),
            duration(seen["first_token_ms"][share]),
            _signed(errors.get(share)),
        )
        for share in _SHARES
    ]


def caution_told(report: Mapping[str, Any]) -> str:
    """Whether speeds were learned, or assumed; "" if there is nothing to warn of."""
    return caution_about(report["workers"], pools_serving(report["route"]))


def unjudged_told(report: Mapping[str, Any]) -> Sequence[str]:
    """Which rules could not be judged, a sentence each."""
    whose = {"current": "as it was", "draft": "of the draft"}
    return [
        f"{count(one['requests'])} {_noun(one['requests'])} couldn't be judged for rule "
        f"{one['rule']} {whose[one['side']]}: it looks at {_headers(one['headers'])}, and what "
        "they sent there is not written down. They are replayed as if it did not fit."
        for one in report.get("unjudged") or ()
    ]


def _noun(requests: int) -> str:
    return "request" if requests == 1 else "requests"


def _headers(names: Sequence[str]) -> str:
    return f"the header{'' if len(names) == 1 else 's'} {', '.join(names)}"


def facts_of(replay: Replay) -> Sequence[Fact]:
    """What it rests on."""
    report: Mapping[str, Any] = replay.report or {}
    lacking = report.get("lacking", {})
    facts = [
        Fact("Requests that arrived", count(report.get("requests"))),
        Fact("Replayed", count(report.get("replayed")), unit=_sample(report)),
        Fact("Not replayable", count(sum(lacking.values())), unit=_reasons(lacking)),
    ]
    return [*facts, Fact("Drafted on", f"version {replay.version}"), Fact("By", replay.created_by)]


def workers_told(report: Mapping[str, Any], names: Mapping[str, str]) -> Sequence[dict[str, str]]:
    """What the model takes each worker for."""
    return [
        {
            "name": f"{names.get(one['pool'], one['pool'])} #{one['id'].rpartition('-')[2]}",
            "samples": count(one["samples"]) if one["samples"] else "none: assumed",
            "prefill": f"{one['prefill_tokens_per_s']:,.0f}",
            "way": "one after another" if one["is_serial"] else "each at once",
            "first": f"{one['first_token_ms']:,.1f}",
            "step": f"{one['step_ms']:,.1f} + {one['step_request_ms']:,.2f}",
            "concurrency": count(one["concurrency"]),
        }
        for one in report["workers"]
    ]


def _by_pool(side: Side) -> Mapping[str, float]:
    return _by(side, "pool")


def _by(side: Side, name: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in side["split"]:
        key = part[name] or "none"
        found[key] = found.get(key, 0.0) + part["share"]
    return found


def _counts(label: str, name: str, recorded: Side, before: Side, after: Side, *, worse: int) -> Row:
    change = after[name] - before[name]
    tone = "" if not change else "bad" if change * worse > 0 else "good"
    return Row(
        label,
        count(recorded[name]),
        count(before[name]),
        count(after[name]),
        f"{change:+,}" if change else "same",
        tone,
    )


def _refused(recorded: Side, before: Side, after: Side) -> Row:
    told = [sum(side["refused"].values()) for side in (recorded, before, after)]
    change = told[2] - told[1]
    tone = "" if not change else "bad" if change > 0 else "good"
    words = [count(one) for one in told]
    return Row("Without an answer", *words, f"{change:+,}" if change else "same", tone)


def _times(label: str, name: str, share: str, recorded: Side, before: Side, after: Side) -> Row:
    told = [side[name][share] for side in (recorded, before, after)]
    words = [duration(one) for one in told]
    if told[1] is None or told[2] is None:
        return Row(label, *words, UNKNOWN)
    if not told[1]:
        return Row(label, *words, "same" if not told[2] else "new", "bad" if told[2] else "")
    change = told[2] / told[1] - 1
    tone = "" if abs(change) < _SAME else "bad" if change > 0 else "good"
    return Row(label, *words, _signed(change), tone)


def _cost(recorded: Side, before: Side, after: Side) -> Row:
    words = []
    for side in (recorded, before, after):
        words.append(_cost_words(side))
    old, new = int(before["cost_nanousd"]), int(after["cost_nanousd"])
    if before["unknown_cost"] or after["unknown_cost"] or not old:
        return Row("Cost, list price", *words, UNKNOWN)
    change = new / old - 1
    tone = "" if abs(change) < _SAME else "bad" if change > 0 else "good"
    return Row("Cost, list price", *words, _signed(change), tone)


def _cost_words(side: Side) -> str:
    """What is known of it, and of how many requests nothing is."""
    unknown = side["unknown_cost"]
    if unknown and unknown == side["answered"]:
        return NO_PRICE
    known = about_dollars(int(side["cost_nanousd"]))
    return f"{known} and {count(unknown)} unpriced" if unknown else known


def _sample(report: Mapping[str, Any]) -> str:
    if not report.get("is_sample"):
        return "all there are" if report.get("replayed") else ""
    minutes = report["slice_s"] / 60
    return f"in {report['slices']} stretches of {minutes:.1f} min, for queues need whole stretches"


def _reasons(lacking: Mapping[str, int]) -> str:
    if len(lacking) == 1:
        return next(iter(lacking))
    return "; ".join(f"{count(number)} {why}" for why, number in lacking.items())


def _signed(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if abs(value) < _SAME:
        return "same"
    return f"{100 * value:+.1f} %".replace("-", "\N{MINUS SIGN}")


def _points(value: float) -> str:
    if abs(value) < _SAME / 10:
        return "same"
    return f"{100 * value:+.1f} points".replace("-", "\N{MINUS SIGN}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
