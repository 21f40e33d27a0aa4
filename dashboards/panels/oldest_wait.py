"""How long whoever waits the longest has waited for a worker."""

from dashboards import words
from dashboards.base import Chart, Panel, Scene, Series
from dashboards.kinds import Measure, Page, PanelKind


def draw(scene: Scene) -> Chart:
    """One line: of each bucket the longest wait that was seen."""
    queues = scene.view.queues
    longest = [one.oldest_wait_ms_now for one in queues if one.oldest_wait_ms_now is not None]
    if not longest:
        sentence, now = "No gateway reported in the last minute.", ""
    elif not max(longest):
        sentence, now = "Nobody waits for a worker.", "0 ms"
    else:
        now = words.milliseconds(max(longest))
        sentence = f"Whoever waits the longest has waited {now}."
    series = (Series(one.key, "longest wait", one.oldest_wait_ms, 2) for one in queues)
    return Chart(sentence=sentence, now=now, series=tuple(series))


PANEL = Panel(
    kind=PanelKind.OLDEST_WAIT,
    titles={Page.POOL: "Longest wait"},
    unit="ms",
    measure=Measure.MILLISECONDS,
    draw=draw,
)
