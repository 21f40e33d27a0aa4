"""How many steps of degradation routes have taken."""

from dashboards import words
from dashboards.base import SLOTS, Chart, Panel, Scene, Series
from dashboards.kinds import Fold, Measure, Page, PanelKind
from dashboards.ladders import step_words


def draw(scene: Scene) -> Chart:
    """One line a route that has steps at all; on a pool's page those that send there, on a
    route's its own."""
    ladders = scene.view.ladders
    return Chart(
        sentence=_sentence(scene),
        now="" if all(one.now is None for one in ladders) else _now(scene),
        series=tuple(
            Series(one.key, one.label, one.steps, 1 + place % SLOTS)
            for place, one in enumerate(ladders)
        ),
        fold=Fold.MOST,
    )


def _now(scene: Scene) -> str:
    """How many routes have taken steps; of one route how many steps."""
    ladders = scene.view.ladders
    if scene.page is Page.ROUTE:
        return f"{ladders[0].now or 0} of {len(ladders[0].names)}"
    return f"{sum(bool(one.now) for one in ladders)} of {len(ladders)}"


def _sentence(scene: Scene) -> str:
    ladders, is_one = scene.view.ladders, scene.page is Page.ROUTE
    if not ladders:
        return f"{'This route has no' if is_one else 'No route has'} steps of degradation."
    if all(one.now is None for one in ladders):
        return "No gateway reported in the last minute."
    taken = sorted((one for one in ladders if one.now), key=lambda one: -(one.now or 0))
    if not taken:
        return "It serves as ever." if is_one else "All routes serve as ever."
    if is_one:
        return f"{step_words(taken[0], scene)} in force."
    first, more = taken[0], len(taken) - 1
    others = f"; {words.count(more, 'more route')} as well" if more else ""
    return f"{first.label}: {step_words(first, scene)}{others}."


PANEL = Panel(
    kind=PanelKind.DEGRADATION,
    titles={
        **dict.fromkeys((Page.OVERVIEW, Page.POOL), "Degradation by route"),
        Page.ROUTE: "Degradation",
    },
    unit="steps taken",
    measure=Measure.COUNT,
    draw=draw,
)
