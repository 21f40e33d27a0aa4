"""Time from arrival to the first content, by percentiles."""

from dashboards.base import Chart, Panel, Scene
from dashboards.kinds import Measure, Page, PanelKind
from dashboards.percentiles import current, lines_of, sentence


def draw(scene: Scene) -> Chart:
    """Three lines over all requests of the scope."""
    view = scene.view
    return Chart(
        sentence=sentence(view.summary.first_token_ms, view.summary.samples),
        now=current(view.summary.first_token_ms),
        series=lines_of(view.total.first_token_ms, view.at),
    )


PANEL = Panel(
    kind=PanelKind.FIRST_TOKEN,
    titles=dict.fromkeys(Page, "Time to first token"),
    unit="ms",
    measure=Measure.MILLISECONDS,
    draw=draw,
)
