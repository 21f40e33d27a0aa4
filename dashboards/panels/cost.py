"""What the traffic costs, as an hourly rate."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.gauges import scaled
from dashboards.kinds import Measure, Page, PanelKind

_DOLLARS_A_NANO = 1e-9
_SLOT = 4


def draw(scene: Scene) -> Chart:
    """One line: what was booked in each bucket, times what it takes to make an hour."""
    summary = scene.view.summary
    rate = summary.cost_nanousd_per_hour
    sentence = "No gateway reported in the last minute."
    if rate is not None:
        sentence = f"{words.dollars(rate)} an hour at the last minute's rate."
    if summary.has_unknown_cost:
        sentence += " Requests without a price are not in it."
    return Chart(
        sentence=sentence,
        now="" if rate is None else f"{words.dollars(rate)} /h",
        series=(
            Series(
                "cost",
                "cost",
                scaled(scene.view.total.cost_nanousd_per_hour, _DOLLARS_A_NANO),
                _SLOT,
            ),
        ),
    )


PANEL = Panel(
    kind=PanelKind.COST,
    titles=dict.fromkeys((Page.OVERVIEW, Page.POOL), "Cost per hour"),
    unit="USD an hour",
    measure=Measure.DOLLARS,
    draw=draw,
)
