"""Requests running in the engines, and waiting in them."""

from dashboards.base import Chart, Panel, Scene, Series
from dashboards.gauges import total
from dashboards.kinds import Measure, Page, PanelKind

_WAITING_SLOT = 2


def draw(scene: Scene) -> Chart:
    """Two lines, summed over the workers that were measured."""
    view, summary = scene.view, scene.view.summary
    points = len(view.at)
    if summary.running is None or summary.waiting is None:
        sentence, now = "No worker tells now how many requests it runs.", ""
    else:
        sentence = f"{summary.running:,} running and {summary.waiting:,} waiting in the engines."
        now = f"{summary.running:,} / {summary.waiting:,}"
    return Chart(
        sentence=sentence,
        now=now,
        series=(
            Series("running", "running", total(view.workers, lambda one: one.running, points)),
            Series(
                "waiting",
                "waiting",
                total(view.workers, lambda one: one.waiting, points),
                _WAITING_SLOT,
            ),
        ),
        is_of_workers=True,
    )


PANEL = Panel(
    kind=PanelKind.QUEUE,
    titles=dict.fromkeys((Page.OVERVIEW, Page.POOL), "Running and waiting"),
    unit="requests",
    measure=Measure.COUNT,
    draw=draw,
)
