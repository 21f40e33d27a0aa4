"""Every figure is one by Plotly's own schema, whatever the scene."""

import pytest
from plotly.graph_objects import Figure

from dashboards.figures import figure_of
from dashboards.kinds import Page
from dashboards.registry import panels_of
from tests.dashboards.factory import ladder, percentiles, queue, scene, traffic, view, worker

_NONE = (None,) * 4
_BLANK = traffic(
    failures={},
    **dict.fromkeys(
        (
            *("requests", "requests_per_s", "failure_share", "prompt_tokens_per_s"),
            *("completion_tokens_per_s", "cost_nanousd_per_hour"),
        ),
        _NONE,
    ),
)
_TIMES = percentiles((210.0, None, 215.0, 220.0), _NONE, (None, 900.0, None, None))
_FULL = {
    "total": traffic(first_token_ms=_TIMES, output_token_ms=_TIMES),
    "pools": tuple(traffic(f"pool_{name}", name) for name in "abcdefg"),
    "queues": tuple(queue(f"pool_{name}") for name in "abcdefg"),
    "ladders": (ladder(), ladder("code")),
    "workers": tuple(worker(number, f"pool_{name}") for name in "abc" for number in range(3)),
}
VIEWS = {
    "full": view(**_FULL),
    "full with a gap": view(**_FULL, covered=(1.0, 0.0, 0.0, 0.5)),
    "silent": view(total=_BLANK, covered=(0.0,) * 4),
    "without buckets": view(at=(), covered=(), total=traffic(first_token_ms={}, failures={})),
    "one worker alone": view(workers=(worker(kv_used=(0.5, None, 0.6, None)),)),
}


@pytest.mark.parametrize("page", Page)
@pytest.mark.parametrize("name", VIEWS)
def test_plotly_accepts_every_figure_of_every_panel(page: Page, name: str) -> None:
    shown = scene(page, at=VIEWS[name])
    for panel in panels_of(page):
        figure = figure_of(panel, panel.draw(shown), shown)
        made = Figure({"data": figure["data"], "layout": figure["layout"]})
        assert [one.type for one in made.data] == [one["type"] for one in figure["data"]]


def test_plotly_would_refuse_a_property_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="Invalid property"):
        Figure({"data": [{"type": "scatter", "conectgaps": False}]})
