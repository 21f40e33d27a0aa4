"""Percentiles as three lines of one hue, and what is said of them."""

from collections.abc import Mapping, Sequence

from dashboards import words
from dashboards.base import Series, Values
from inference.decisions.histograms import ENOUGH_SAMPLES

LINES = ((0.5, "p50", "dot", 1.5), (0.95, "p95", "solid", 2.0), (0.99, "p99", "dash", 1.25))
_HEADLINE = 0.95


def lines_of(values: Mapping[float, Values], points: Sequence[object]) -> tuple[Series, ...]:
    """p50 dotted, p95 solid, p99 dashed, each as long as `points`."""
    none: Values = [None] * len(points)
    return tuple(
        Series(name, name, values.get(share, none), dash=dash, width=width)
        for share, name, dash, width in LINES
    )


def current(values: Mapping[float, float | None]) -> str:
    """The p95 as it stands in a panel's corner."""
    value = values.get(_HEADLINE)
    return "" if value is None else words.milliseconds(value)


def sentence(values: Mapping[float, float | None], samples: int) -> str:
    """Say what the last five minutes' percentiles are, or how many samples are missing."""
    if samples == 0:
        return "No samples in the last 5 minutes."
    told = [
        f"{name} {words.milliseconds(value)}"
        for share, name, _, _ in LINES
        if (value := values.get(share)) is not None
    ]
    missing = [
        f"Not enough data for {name} ({samples}/{ENOUGH_SAMPLES[share]})"
        for share, name, _, _ in LINES
        if values.get(share) is None and samples < ENOUGH_SAMPLES[share]
    ][:1]
    head = [f"{', '.join(told)} over the last 5 minutes, {words.count(samples, 'sample')}"]
    return f"{'. '.join([*(head if told else []), *missing])}."


def not_enough(samples: int) -> str:
    """What stands in the place of a p95 of too few values."""
    return f"Not enough data ({samples}/{ENOUGH_SAMPLES[_HEADLINE]})"
