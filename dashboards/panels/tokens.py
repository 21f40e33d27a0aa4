"""Tokens read and written a second."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.kinds import Measure, Page, PanelKind

_IN_SLOT, _OUT_SLOT = 1, 3


def draw(scene: Scene) -> Chart:
    """Prompt and completion tokens of requests that ended."""
    view, summary = scene.view, scene.view.summary
    read, written = summary.prompt_tokens_per_s, summary.completion_tokens_per_s
    if read is None or written is None:
        sentence, now = "No gateway reported in the last minute.", ""
    else:
        sentence = (
            f"{words.number(read)} tokens in and {words.number(written)} out a second"
            " over the last minute."
        )
        now = f"{words.number(read)} / {words.number(written)}"
    return Chart(
        sentence=sentence,
        now=now,
        series=(
            Series("in", "in", view.total.prompt_tokens_per_s, _IN_SLOT),
            Series("out", "out", view.total.completion_tokens_per_s, _OUT_SLOT),
        ),
    )


PANEL = Panel(
    kind=PanelKind.TOKENS,
    titles=dict.fromkeys(Page, "Tokens in and out"),
    unit="tokens/s",
    measure=Measure.PER_SECOND,
    draw=draw,
)
