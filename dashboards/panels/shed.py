"""Requests that were sent away for want of room, by class."""

from collections.abc import Mapping

from dashboards import words
from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series
from dashboards.kinds import Form, Measure, Page, PanelKind
from inference.contract.kinds import PriorityClass

_SLOTS: Mapping[PriorityClass, int] = {
    PriorityClass.INTERACTIVE: 5,
    PriorityClass.DEFAULT: 4,
    PriorityClass.BATCH: 1,
}
"""The more urgent, the warmer."""


def draw(scene: Scene) -> Chart:
    """Stack the classes: a full queue, a wait that was too long, a step of degradation."""
    summary, rates = scene.view.summary, scene.view.total.shed_per_s
    total = sum(summary.shed.values())
    is_told = summary.requests_per_s is not None
    return Chart(
        sentence=_sentence(summary.shed, is_told=is_told),
        now=f"{total:,} /min" if is_told else "",
        series=tuple(
            Series(one.value, one.value, rates[one.value], _SLOTS.get(one, OTHER_SLOT))
            for one in PriorityClass
            if one.value in rates
        ),
    )


def _sentence(shed: Mapping[str, int], *, is_told: bool) -> str:
    if not is_told:
        return "No gateway reported in the last minute."
    if not shed:
        return "No request was sent away in the last minute."
    total = sum(shed.values())
    by_class = ", ".join(f"{one} {shed[one]:,}" for one in PriorityClass if shed.get(one))
    were = "was" if total == 1 else "were"
    return f"{words.count(total, 'request')} {were} sent away in the last minute: {by_class}."


PANEL = Panel(
    kind=PanelKind.SHED,
    titles=dict.fromkeys((Page.OVERVIEW, Page.ROUTE), "Sent away by class"),
    unit="req/s",
    measure=Measure.PER_SECOND,
    draw=draw,
    form=Form.BARS,
)
