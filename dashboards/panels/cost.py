"""What the traffic costs, as an hourly rate."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.gauges import scaled
from dashboards.kinds import Measure, Page, PanelKind
from dashboards.prices import NO_PRICE, SOME_UNPRICED, lacks_price, priced_costs, why_unpriced

_DOLLARS_A_NANO = 1e-9
_SLOT = 4


def draw(scene: Scene) -> Chart:
    """One line: what was booked in each bucket, times what it takes to make an hour."""
    sentence, now = _words(scene)
    costs = scaled(priced_costs(scene), _DOLLARS_A_NANO)
    return Chart(sentence=sentence, now=now, series=(Series("cost", "cost", costs, _SLOT),))


def _words(scene: Scene) -> tuple[str, str]:
    summary = scene.view.summary
    rate = summary.cost_nanousd_per_hour
    if lacks_price(scene):
        return why_unpriced(scene), NO_PRICE
    if rate is None:
        return "No gateway reported in the last minute.", ""
    if summary.requests_per_s == 0 and rate == 0:
        return "No requests in the last minute.", f"{words.dollars(rate)} /h"
    sentence = f"{words.dollars(rate)} an hour at the last minute's rate"
    if summary.has_unknown_cost:
        sentence += f"; {SOME_UNPRICED}"
    return f"{sentence}.", f"{words.dollars(rate)} /h"


PANEL = Panel(
    kind=PanelKind.COST,
    titles=dict.fromkeys(Page, "Cost per hour"),
    unit="USD an hour",
    measure=Measure.DOLLARS,
    draw=draw,
)
