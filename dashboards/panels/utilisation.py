"""How busy the workers are: their GPUs, or their host's CPUs where they have none."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene
from dashboards.gauges import series_of, whose
from dashboards.kinds import Fold, Measure, Page, PanelKind


def label(*, is_gpu: bool) -> str:
    """What the figure is of; a CPU's must not pass for a GPU's."""
    return "GPU" if is_gpu else "CPU"


def draw(scene: Scene) -> Chart:
    """One line a pool, or one a worker."""
    summary = scene.view.summary
    if summary.utilisation is None:
        sentence, now = "No worker is measured now.", ""
    else:
        now = words.per_cent(summary.utilisation / 100)
        of = label(is_gpu=summary.is_gpu)
        where = "" if summary.is_gpu else ", of all of the host's CPUs"
        sentence = f"{of} {now} now, the mean of {whose(scene)}{where}."
    return Chart(
        sentence=sentence,
        now=now and f"{label(is_gpu=summary.is_gpu)} {now}",
        series=series_of(scene, lambda one: one.utilisation),
        is_of_workers=True,
        fold=Fold.MEAN,
        top=104.0,
    )


PANEL = Panel(
    kind=PanelKind.UTILISATION,
    titles={Page.OVERVIEW: "Utilisation by pool", Page.POOL: "Utilisation by worker"},
    unit="%",
    measure=Measure.PER_CENT,
    draw=draw,
)
