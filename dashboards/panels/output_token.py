"""Time for each output token after the first, by percentiles."""

from dashboards.base import Chart, Panel, Scene
from dashboards.kinds import Measure, Page, PanelKind
from dashboards.percentiles import current, lines_of, sentence


def draw(scene: Scene) -> Chart:
    """Three lines over all requests of the scope."""
    view = scene.view
    return Chart(
        sentence=sentence(view.summary.output_token_ms, view.summary.output_samples),
        now=current(view.summary.output_token_ms),
        series=lines_of(view.total.output_token_ms, view.at),
    )


PANEL = Panel(
    kind=PanelKind.OUTPUT_TOKEN,
    titles=dict.fromkeys(Page, "Time per output token"),
    unit="ms per token",
    measure=Measure.MILLISECONDS,
    draw=draw,
)
