"""Requests that wait in the gateways for a worker with room."""

from dashboards import words
from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series
from dashboards.kinds import Measure, Page, PanelKind


def draw(scene: Scene) -> Chart:
    """One line a pool: the most that waited for it at once, whichever route they came by."""
    queues = scene.view.queues
    told = [one.waiting_now for one in queues if one.waiting_now is not None]
    series = tuple(
        Series(one.key, one.label, one.waiting, scene.slots.get(one.key, OTHER_SLOT))
        for one in queues
    )
    return Chart(_sentence(scene), f"{sum(told):,}" if told else "", series)


def _sentence(scene: Scene) -> str:
    told = [one for one in scene.view.queues if one.waiting_now is not None]
    if not told:
        return "No gateway reported in the last minute." if scene.view.queues else "No pool yet."
    total = sum(one.waiting_now or 0 for one in told)
    if not total:
        return "Nobody waits for a worker."
    first = max(told, key=lambda one: one.waiting_now or 0)
    longest = max(one.oldest_wait_ms_now or 0.0 for one in told)
    verb = "waits" if total == 1 else "wait"
    whom = "" if scene.page is Page.POOL else f" for {first.label}"
    if first.waiting_now != total:
        whom = f", {first.waiting_now:,} of them for {first.label}"
    requests = words.count(total, "request")
    told = f"{requests} {verb}{whom}; the longest wait is {words.milliseconds(longest)}"
    return f"{told}, of all routes." if scene.page is Page.ROUTE else f"{told}."


PANEL = Panel(
    kind=PanelKind.WAITING,
    titles={
        Page.OVERVIEW: "Waiting by pool",
        Page.POOL: "Waiting for a worker",
        Page.ROUTE: "Waiting for its pools",
    },
    unit="in the gateways",
    measure=Measure.COUNT,
    draw=draw,
)
