"""How full the engines' KV caches are."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene
from dashboards.gauges import series_of, whose
from dashboards.kinds import Fold, Measure, Page, PanelKind


def draw(scene: Scene) -> Chart:
    """One line a pool, or one a worker."""
    used = scene.view.summary.kv_used
    return Chart(
        sentence=(
            "No worker tells now how full its KV cache is."
            if used is None
            else f"{words.per_cent(used)} used now, the mean of {whose(scene)}."
        ),
        now="" if used is None else words.per_cent(used),
        series=series_of(scene, lambda one: one.kv_used, factor=100.0),
        is_of_workers=True,
        fold=Fold.MEAN,
        top=104.0,
    )


PANEL = Panel(
    kind=PanelKind.KV_CACHE,
    titles={Page.OVERVIEW: "KV cache by pool", Page.POOL: "KV cache by worker"},
    unit="%",
    measure=Measure.PER_CENT,
    draw=draw,
)
