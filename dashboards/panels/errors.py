"""The share of requests that failed."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.gauges import scaled
from dashboards.kinds import Measure, Page, PanelKind

_SLOT = 5


def draw(scene: Scene) -> Chart:
    """One line over all requests; a bucket without requests has no share."""
    view, share = scene.view, scene.view.summary.failure_share
    if share is None:
        sentence = words.idle_minute(is_reported=view.summary.requests_per_s is not None)
    else:
        sentence = f"{words.per_cent(share)} of requests failed in the last minute."
    return Chart(
        sentence=sentence,
        now="" if share is None else words.per_cent(share),
        series=(Series("failed", "failed", scaled(view.total.failure_share, 100.0), _SLOT),),
    )


PANEL = Panel(
    kind=PanelKind.ERRORS,
    titles={Page.OVERVIEW: "Error rate"},
    unit="% of requests",
    measure=Measure.PER_CENT,
    draw=draw,
)
