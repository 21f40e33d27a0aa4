"""The share of requests that caches served, of all they were asked for."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.gauges import scaled
from dashboards.kinds import Measure, Page, PanelKind

_SLOT = 3


def draw(scene: Scene) -> Chart:
    """One line; a bucket in which no cache was asked has no share."""
    view, share = scene.view, scene.view.summary.cache_hit_share
    if share is not None:
        sentence = f"{words.per_cent(share)} were served from a cache in the last minute."
    elif view.summary.requests_per_s is None:
        sentence = "No gateway reported in the last minute."
    else:
        sentence = "No cache was asked in the last minute."
    return Chart(
        sentence=sentence,
        now="" if share is None else words.per_cent(share),
        series=(Series("served", "served", scaled(view.total.cache_hit_share, 100.0), _SLOT),),
        top=104.0,
    )


PANEL = Panel(
    kind=PanelKind.CACHE_HITS,
    titles={Page.OVERVIEW: "Served from caches", Page.ROUTE: "Served from caches"},
    unit="% of those asked",
    measure=Measure.PER_CENT,
    draw=draw,
)
