"""Requests a second, by pool where there is more than one to tell apart."""

from controlplane.selectors.live import TrafficSeries
from dashboards import words
from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series
from dashboards.kinds import Form, Measure, Page, PanelKind

_REFUSED_SLOT = 5
"""A warm hue: these were turned away, by a budget, a limit or a switch, or for want of room."""


def draw(scene: Scene) -> Chart:
    """Stack the pools' requests; those of no pool were refused before one was chosen."""
    rate = scene.view.summary.requests_per_s
    return Chart(
        sentence=_sentence(scene, rate),
        now="" if rate is None else f"{words.number(rate)} req/s",
        series=tuple(_part(scene, one) for one in _parts(scene)),
    )


def _parts(scene: Scene) -> tuple[TrafficSeries, ...]:
    if scene.page is Page.POOL or not scene.view.pools:
        return (scene.view.total,)
    return tuple(scene.view.pools)


def _part(scene: Scene, one: TrafficSeries) -> Series:
    if one is scene.view.total:
        return Series("total", "requests", one.requests_per_s)
    slot = scene.slots.get(one.key, OTHER_SLOT) if one.key else _REFUSED_SLOT
    return Series(one.key, one.label, one.requests_per_s, slot)


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
