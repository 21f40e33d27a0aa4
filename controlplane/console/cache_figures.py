"""What caches did, in figures and words. Pure: a report in, figures and sentences out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controlplane.console.formats import UNKNOWN, about_dollars, count, share
from controlplane.decisions.cache_calibration import Steps
from controlplane.decisions.cache_rollups import STEPS, Verdict
from controlplane.selectors.cache_usage import CacheReport, Part
from inference.contract.kinds import CacheTier

_NANO = 10**9
_TICKS = 6
_LEAST_STEP = 50
"""Below a similarity of 0.5 nothing is looked for."""

COLOURS: Mapping[str, str] = {
    CacheTier.LOCAL.value: "--hw-s1",
    CacheTier.SHARED.value: "--hw-s2",
    CacheTier.SEMANTIC.value: "--hw-s3",
    CacheTier.EMBEDDING.value: "--hw-s4",
    "": "--hw-s8",
}
_VERDICTS: Mapping[str, tuple[str, str]] = {
    Verdict.SERVED.value: ("served", "--hw-s1"),
    Verdict.AGREED.value: ("checked, the same", "--hw-s3"),
    Verdict.UNSURE.value: ("checked, not comparable", "--hw-s8"),
    Verdict.DIFFERED.value: ("checked, false", "--hw-crit"),
    Verdict.REFUSED.value: ("refused", "--hw-s6"),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its sentence, its legend (label, number of the colour) and its rows."""

    figure: Mapping[str, Any]
    summary: str
    legend: Sequence[tuple[str, str]]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def tier_words(tier: str) -> str:
    """A tier's name; what was answered along with another's request has none."""
    return tier or "joined"


def rate_words(part: Part) -> str:
    """A hit rate with its unit, "no requests" where a cache was asked for nothing."""
    rate = part.hit_rate
    return "no requests" if rate is None else f"{share(part.served.requests, part.asked)} %"


def hit_rates(report: CacheReport) -> Drawn:
    """The share that was served by bucket, stacked by tier."""
    tiers = list(report.tiers)
    bars = []
    for tier in tiers:
        shares = [
            100 * parts[tier].served.requests / parts["all"].asked
            if tier in parts and parts["all"].asked
            else 0.0
            for parts in report.buckets.values()
        ]
        told = [f"{tier_words(tier)}: {value:.1f} %" for value in shares]
        bars.append(_bar(tier, _times(report), shares, told))
    rows = [
        (bucket_words(at, report), count(parts["all"].asked), rate_words(parts["all"]))
        for at, parts in report.buckets.items()
    ]
    served, asked = report.total.served.requests, report.total.asked
    summary = (
        f"{count(served)} of {count(asked)} requests were served from a cache: "
        f"{rate_words(report.total)}."
    )
    layout = {**_layout(report), "yaxis": {"ticksuffix": " %", "range": [0, 100]}}
    return Drawn(
        {"data": bars, "layout": layout},
        summary,
        _legend(tiers),
        ("When", "Asked", "Served"),
        rows,
    )


def savings(report: CacheReport) -> Drawn:
    """Dollars saved by bucket, stacked by tier."""
    tiers = list(report.tiers)
    bars = []
    for tier in tiers:
        amounts = [
            parts[tier].served.nanousd if tier in parts else 0 for parts in report.buckets.values()
        ]
        told = [f"{tier_words(tier)}: {about_dollars(one)}" for one in amounts]
        bars.append(_bar(tier, _times(report), [one / _NANO for one in amounts], told))
    rows = [
        (
            bucket_words(at, report),
            *(about_dollars(parts[t].served.nanousd) if t in parts else UNKNOWN for t in tiers),
        )
        for at, parts in report.buckets.items()
    ]
    layout = {**_layout(report), "yaxis": {"tickprefix": "$", "tickformat": ",.4~f"}}
    return Drawn(
        {"data": bars, "layout": layout},
        _saved_words(report),
        _legend(tiers),
        ("When", *map(tier_words, tiers)),
        rows,
    )


def _saved_words(report: CacheReport) -> str:
    served = report.total.served
    if served.is_nothing:
        return "Nothing was served from a cache."
    if served.saved_nanousd is None:
        return "Nothing that was served has a price, so nobody knows what it saved."
    told = f"{about_dollars(served.saved_nanousd)} saved, at the prices of the moment"
    if served.unknown_saved:
        told += f"; {count(served.unknown_saved)} that were served have no price and are not in it"
    return f"{told}."


def similarities(steps: Steps, threshold: float | None) -> Drawn | None:
    """How alike the nearest were, by what became of them; None where the tier found nothing."""
    if not steps:
        return None
    first = min(_LEAST_STEP, min(step for step, _ in steps))
    found = range(first, STEPS + 1)
    verdicts = [one for one in _VERDICTS if any(verdict == one for _, verdict in steps)]
    bars = []
    for verdict in verdicts:
        label, colour = _VERDICTS[verdict]
        counts = [steps.get((step, verdict), 0) for step in found]
        bars.append(
            {
                "type": "bar",
                "name": label,
                "x": [step / STEPS for step in found],
                "y": counts,
                "customdata": [
                    f"{step / STEPS:.2f}, {label}: {count(n)}"
                    for step, n in zip(found, counts, strict=True)
                ],
                "hovertemplate": "%{customdata}<extra></extra>",
                "marker": {"color": colour},
            }
        )
    layout: dict[str, Any] = {
        "barmode": "stack",
        "bargap": 0.1,
        "xaxis": {"range": [first / STEPS - 0.01, 1.01], "tickformat": ".2f"},
        "yaxis": {"rangemode": "tozero"},
        "shapes": [] if threshold is None else [_threshold(threshold)],
    }
    total = sum(steps.values())
    told = f"{count(total)} had a nearest of at least {first / STEPS:.2f}"
    if threshold is not None:
        above = sum(n for (step, _), n in steps.items() if step >= round(threshold * STEPS))
        told += f"; {count(above)} of them at or above the threshold of {threshold:.2f}"
    heads = ("Similarity", *(_VERDICTS[one][0] for one in verdicts))
    rows = [
        (f"{step / STEPS:.2f}", *(count(steps.get((step, one), 0)) for one in verdicts))
        for step in found
        if any(steps.get((step, one)) for one in verdicts)
    ]
    legend = [(_VERDICTS[one][0], _class_of(_VERDICTS[one][1])) for one in verdicts]
    return Drawn({"data": bars, "layout": layout}, f"{told}.", legend, heads, rows)


def _threshold(at: float) -> Mapping[str, Any]:
    line = {"color": "--hw-text-2", "width": 2, "dash": "dash"}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def bucket_words(at: datetime, report: CacheReport) -> str:
    """A bucket as a table names it."""
    local = at.astimezone(report.zone)
    return f"{local:%H:%M}" if report.is_hourly else f"{local.day} {local:%b}"


def _times(report: CacheReport) -> list[str]:
    return [f"{at.astimezone(report.zone):%Y-%m-%dT%H:%M}" for at in report.buckets]


def _bar(tier: str, at: Sequence[str], values: Sequence[float], told: Sequence[str]) -> Any:
    return {
        "type": "bar",
        "name": tier_words(tier),
        "x": list(at),
        "y": list(values),
        "customdata": list(told),
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": COLOURS[tier]},
    }


def _layout(report: CacheReport) -> dict[str, Any]:
    first = report.since.astimezone(report.zone)
    last = report.until.astimezone(report.zone)
    step = timedelta(hours=1) if report.is_hourly else timedelta(days=1)
    length = max(1, round((last - first) / step))
    marks = [first + place * step for place in range(0, length, max(1, length // _TICKS))]
    return {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": {
            "type": "date",
            "range": [f"{first - step / 2:%Y-%m-%dT%H:%M}", f"{last:%Y-%m-%dT%H:%M}"],
            "tickvals": [f"{at:%Y-%m-%dT%H:%M}" for at in marks],
            "ticktext": [bucket_words(at, report) for at in marks],
        },
    }


def _class_of(colour: str) -> str:
    """A colour's class in legends: `k1` of `--hw-s1`, `kcrit` of `--hw-crit`."""
    return f"k{colour.removeprefix('--hw-').removeprefix('s')}"


def _legend(tiers: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [(tier_words(tier), _class_of(COLOURS[tier])) for tier in tiers]
