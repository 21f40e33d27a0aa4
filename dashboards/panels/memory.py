"""The memory of each worker: its GPUs', or its process group's where there are none."""

from controlplane.selectors.live import LIVE_BUCKETS
from dashboards import words
from dashboards.base import Chart, Panel, Scene, Values
from dashboards.gauges import series_of
from dashboards.kinds import Measure, Page, PanelKind


def draw(scene: Scene) -> Chart:
    """One line a worker."""
    series = series_of(scene, lambda one: one.memory_bytes)
    newest = [value for one in series if (value := _newest(one.values)) is not None]
    of = "GPUs" if scene.view.summary.is_gpu else "process group"
    return Chart(
        sentence=(
            f"{words.size(sum(newest))} over {words.count(len(newest), 'worker')}, of each's {of}."
            if newest
            else "No worker is measured now."
        ),
        now=words.size(sum(newest)) if newest else "",
        series=series,
        is_of_workers=True,
    )


def _newest(values: Values) -> float | None:
    """The last value of the newest buckets, which live messages have too; who is gone has none."""
    return next((value for value in reversed(values[-LIVE_BUCKETS:]) if value is not None), None)


PANEL = Panel(
    kind=PanelKind.MEMORY,
    titles={Page.POOL: "Memory by worker"},
    unit="bytes",
    measure=Measure.BYTES,
    draw=draw,
)
