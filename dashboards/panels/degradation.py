"""How many steps of degradation routes have taken."""

from dashboards import words
from dashboards.base import SLOTS, Chart, Panel, Scene, Series
from dashboards.kinds import Fold, Measure, Page, PanelKind
from dashboards.ladders import step_words


def draw(scene: Scene) -> Chart:
    """One line a route that has steps at all; on a pool's page those that send there."""
    ladders = scene.view.ladders
    taken = [one for one in ladders if one.now]
    return Chart(
        sentence=_sentence(scene),
        now="" if all(one.now is None for one in ladders) else f"{len(taken)} of {len(ladders)}",
        series=tuple(
            Series(one.key, one.label, one.steps, 1 + place % SLOTS)
            for place, one in enumerate(ladders)
        ),
        fold=Fold.MOST,
    )


def _sentence(scene: Scene) -> str:
    ladders = scene.view.ladders
    if not ladders:
        return "No route has steps of degradation."
    if all(one.now is None for one in ladders):
        return "No gateway reported in the last minute."
    taken = sorted((one for one in ladders if one.now), key=lambda one: -(one.now or 0))
    if not taken:
        return "All routes serve as ever."
    first, more = taken[0], len(taken) - 1
    others = f"; {words.count(more, 'more route')} as well" if more else ""
    return f"{first.label}: {step_words(first, scene)}{others}."


PANEL = Panel(
    kind=PanelKind.DEGRADATION,
    titles=dict.fromkeys((Page.OVERVIEW, Page.POOL), "Degradation by route"),
    unit="steps taken",
    measure=Measure.COUNT,
    draw=draw,
)
