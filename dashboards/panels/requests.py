"""Requests a second, by pool where there is more than one to tell apart."""

from collections.abc import Mapping, Sequence

from controlplane.selectors.live import TrafficSeries
from dashboards import words
from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series, Values
from dashboards.kinds import Form, Measure, Page, PanelKind
from inference.contract.kinds import RefusalReason

_REASONS: Mapping[RefusalReason, tuple[str, int]] = {
    RefusalReason.CAPACITY: ("Refused, no room", 5),
    RefusalReason.BUDGET: ("Refused by a budget", 6),
    RefusalReason.LIMIT: ("Refused by a limit", 4),
    RefusalReason.SWITCH: ("Switched off", 7),
}
"""Of those that no pool saw: what they are called, and their colour."""


def draw(scene: Scene) -> Chart:
    """Stack the pools' requests, and those of no pool by why they were turned away."""
    rate = scene.view.summary.requests_per_s
    return Chart(
        sentence=_sentence(scene, rate),
        now="" if rate is None else f"{words.number(rate)} req/s",
        series=tuple(part for one in _parts(scene) for part in _series(scene, one)),
    )


def _parts(scene: Scene) -> tuple[TrafficSeries, ...]:
    if scene.page is Page.POOL or not scene.view.pools:
        return (scene.view.total,)
    return tuple(scene.view.pools)


def _series(scene: Scene, one: TrafficSeries) -> Sequence[Series]:
    if one is scene.view.total:
        return (Series("total", "requests", one.requests_per_s),)
    if one.key:
        slot = scene.slots.get(one.key, OTHER_SLOT)
        return (Series(one.key, one.label, one.requests_per_s, slot),)
    found = [
        Series(f"refused:{reason.value}", label, one.refused_per_s[reason.value], slot)
        for reason, (label, slot) in _REASONS.items()
        if reason.value in one.refused_per_s
    ]
    rest = _rest(one.requests_per_s, [part.values for part in found])
    if not found or any(rest):
        found.append(Series(one.key, one.label, rest, OTHER_SLOT))
    return found


def _rest(whole: Values, parts: Sequence[Values]) -> Values:
    """What is left of each bucket without these; gaps stay gaps."""
    return [
        None if value is None else max(value - sum(part[place] or 0.0 for part in parts), 0.0)
        for place, value in enumerate(whole)
    ]


def _sentence(scene: Scene, rate: float | None) -> str:
    if rate is None:
        return "No gateway reported in the last minute."
    if rate == 0:
        return "No requests in the last minute."
    told = f"{words.number(rate)} requests a second over the last minute"
    first, share = _first(scene, rate)
    return f"{told}; {first} serves {words.per_cent(share)}." if first else f"{told}."


def _first(scene: Scene, rate: float) -> tuple[str, float]:
    """The pool with the most requests in the last minute, and its share."""
    if scene.page is Page.POOL:
        return "", 0.0
    names = {pool.id: pool.name for pool in scene.pools}
    rates = {
        names[key]: one.requests_per_s or 0.0
        for key, one in scene.view.pool_summaries.items()
        if key in names
    }
    first = max(rates, key=lambda name: rates[name], default="")
    return (first, min(rates[first] / rate, 1.0)) if first and rates[first] else ("", 0.0)


PANEL = Panel(
    kind=PanelKind.REQUESTS,
    titles={
        Page.OVERVIEW: "Requests by pool",
        Page.POOL: "Requests",
        Page.ROUTE: "Requests by pool",
    },
    unit="req/s",
    measure=Measure.PER_SECOND,
    draw=draw,
    form=Form.BARS,
)
