"""Charts as Plotly figures: exact data, gaps that stay gaps, and nothing of a colour."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboards.base import Chart, Panel, Series
from dashboards.documents import encode
from dashboards.figures import figure_of, folded, gaps_of, isolated, runs_of
from dashboards.kinds import Fold, Form, Measure, Page, PanelKind
from dashboards.registry import REGISTRY, panels_of
from tests.dashboards.factory import (
    NOW,
    SINCE_S,
    ladder,
    percentiles,
    queue,
    scene,
    traffic,
    view,
    worker,
)

X_MS = [(SINCE_S + 5 * n) * 1_000 for n in range(4)]


def drawn(kind: PanelKind, page: Page = Page.OVERVIEW, **fields: object) -> dict:
    panel, shown = REGISTRY[kind], scene(page, at=view(**fields))
    return figure_of(panel, panel.draw(shown), shown)


def test_percentiles_share_one_hue_and_differ_by_their_dashes() -> None:
    lines = percentiles((210.0, 212.0, 215.0, 220.0), (None, 840.0, 842.0, 850.0), (None,) * 4)
    figure = drawn(PanelKind.FIRST_TOKEN, total=traffic(first_token_ms=lines))
    assert [
        (one["name"], one["y"], one["line"], one["mode"], one["meta"]["slot"])
        for one in figure["data"]
    ] == [
        (
            "p50",
            [210.0, 212.0, 215.0, 220.0],
            {"width": 1.5, "dash": "dot", "shape": "linear"},
            "lines",
            1,
        ),
        (
            "p95",
            [None, 840.0, 842.0, 850.0],
            {"width": 2.0, "dash": "solid", "shape": "linear"},
            "lines",
            1,
        ),
        ("p99", [None] * 4, {"width": 1.25, "dash": "dash", "shape": "linear"}, "lines", 1),
    ]
    assert all(one["x"] == X_MS and one["connectgaps"] is False for one in figure["data"])
    assert figure["layout"]["yaxis"]["range"] == [0, 850.0 * 1.08]
    assert figure["layout"]["xaxis"]["range"] == [X_MS[0] - 2_500, X_MS[-1] + 2_500]


def test_plain_lines_are_thin_and_without_markers() -> None:
    figure = drawn(PanelKind.TOKENS)
    assert [(one["line"]["width"], one["mode"]) for one in figure["data"]] == [(1.75, "lines")] * 2


def test_a_bucket_nobody_reported_is_a_band_with_the_words_and_never_zero() -> None:
    cut = (1.0, None, None, 3.0)
    figure = drawn(
        PanelKind.TOKENS,
        covered=(1.0, 0.0, 0.0, 1.0),
        total=traffic(prompt_tokens_per_s=cut, completion_tokens_per_s=cut),
    )
    assert figure["data"][0]["y"] == [1.0, None, None, 3.0]
    assert figure["layout"]["shapes"] == [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": X_MS[1] - 2_500,
            "x1": X_MS[2] + 2_500,
            "y0": 0,
            "y1": 1,
            "layer": "below",
        }
    ]
    assert [(one["text"], one["x"]) for one in figure["layout"]["annotations"]] == [
        ("no data", (X_MS[1] + X_MS[2]) / 2)
    ]


def test_a_bucket_reported_without_requests_is_no_gap() -> None:
    figure = drawn(PanelKind.REQUESTS)
    assert figure["data"][0]["y"] == [1.0, 2.0, 0.0, 3.0]
    assert figure["layout"]["shapes"] == []


def test_workers_have_gaps_of_their_own() -> None:
    figure = drawn(PanelKind.UTILISATION, Page.POOL, workers=(worker(0), worker(1)))
    assert [one["name"] for one in figure["data"]] == ["pool_a/0", "pool_a/1"]
    assert [one["x0"] for one in figure["layout"]["shapes"]] == [X_MS[2] - 2_500]
    assert figure["layout"]["yaxis"]["range"] == [0, 104.0]
    assert figure["meta"]["gaps"] == "workers"


GAP = (1.0, 1.0, 0.0, 0.4)


def lines_of(figure: dict) -> list[tuple[str, list[float | None], int]]:
    """Name, values and colour of each trace, all at the same times."""
    assert all(one["x"] == X_MS for one in figure["data"])
    return [(one["name"], one["y"], one["meta"]["slot"]) for one in figure["data"]]


def test_who_waits_is_a_line_a_pool_with_a_gap_where_nobody_reported() -> None:
    queues = (queue("pool_a"), queue("pool_b", waiting=(1, 0, None, 2)))
    figure = drawn(PanelKind.WAITING, covered=GAP, queues=queues)
    assert lines_of(figure) == [("a", [0, 3, None, 0], 1), ("b", [1, 0, None, 2], 2)]
    assert figure["layout"]["yaxis"]["range"] == [0, 3 * 1.08]
    assert [one["x0"] for one in figure["layout"]["shapes"]] == [X_MS[2] - 2_500]
    assert figure["data"][0]["mode"] == "lines+markers"
    many = tuple(queue(f"pool_{name}", waiting=(4, 1, None, 7)) for name in "abcdefg")
    other = drawn(PanelKind.WAITING, covered=GAP, queues=many)["data"][-1]
    assert (other["name"], other["y"]) == ("Other (3)", [12, 3, None, 21])


def test_the_longest_wait_is_a_line_of_the_pool() -> None:
    figure = drawn(PanelKind.OLDEST_WAIT, Page.POOL, covered=GAP, queues=(queue(),))
    assert lines_of(figure) == [("longest wait", [0, 4_200.0, None, 0], 2)]
    assert figure["layout"]["yaxis"]["range"] == [0, 4_200.0 * 1.08]


def test_who_was_turned_away_is_told_apart_by_reason_and_the_rest_is_left() -> None:
    none = replace(
        traffic(requests_per_s=(4.0, 1.0, None, 0.0)),
        key="",
        label="Refused, no pool",
        refused_per_s={"budget": (3.0, 0.0, None, 0.0), "limit": (0.0, 1.0, None, 0.0)},
    )
    pool = replace(traffic(), key="pool_a", label="a")
    figure = drawn(PanelKind.REQUESTS, covered=GAP, pools=(pool, none))
    told = {name: (values, slot) for name, values, slot in lines_of(figure)}
    assert told["Refused by a budget"] == ([3.0, 0.0, None, 0.0], 6)
    assert told["Refused by a limit"] == ([0.0, 1.0, None, 0.0], 4)
    assert told["Refused, no pool"][0] == [1.0, 0.0, None, 0.0]
    assert "Switched off" not in told


def test_who_was_sent_away_is_stacked_by_class() -> None:
    shed = {
        "batch": (0.0, 2.0, None, 1.0),
        "default": (0.0, 0.5, None, 0.0),
        "interactive": (0.0, 0.0, None, 0.0),
    }
    figure = drawn(PanelKind.SHED, covered=GAP, total=traffic(shed_per_s=shed))
    assert lines_of(figure) == [
        ("interactive", [0.0, 0.0, None, 0.0], 5),
        ("default", [0.0, 0.5, None, 0.0], 4),
        ("batch", [0.0, 2.0, None, 1.0], 1),
    ]
    assert {one["type"] for one in figure["data"]} == {"bar"}
    assert figure["layout"]["yaxis"]["range"] == [0, 2.5 * 1.08]


@pytest.mark.parametrize("page", Page)
def test_steps_of_degradation_are_a_line_a_route(page: Page) -> None:
    ladders = (ladder(), ladder("code", steps=(0, 0, None, 0), now=0, since=None))
    figure = drawn(PanelKind.DEGRADATION, page, covered=GAP, ladders=ladders)
    assert lines_of(figure) == [("chat", [0, 1, None, 2], 1), ("code", [0, 0, None, 0], 2)]
    assert figure["layout"]["yaxis"]["range"] == [0, 2 * 1.08]


def test_a_bucket_that_has_just_begun_is_no_gap_yet() -> None:
    begun = scene(at=view(covered=(1.0, 1.0, 1.0, 0.0)))
    chart = REGISTRY[PanelKind.TOKENS].draw(begun)
    assert gaps_of(chart, begun) == [False] * 4
    ended = replace(begun, now=NOW + timedelta(seconds=60))
    assert gaps_of(chart, ended) == [False, False, False, True]


def test_only_a_value_without_neighbours_gets_a_marker() -> None:
    assert isolated([1.0, None, 2.0, None, 3.0, 4.0]) == [True, False, True, False, False, False]
    figure = drawn(PanelKind.KV_CACHE, Page.POOL, workers=(worker(kv_used=(0.5, 0.6, None, 0.7)),))
    assert figure["data"][0]["mode"] == "lines+markers"
    assert figure["data"][0]["marker"] == {"size": [0, 0, 0, 5]}


def test_runs_of_gaps_are_found_at_both_ends() -> None:
    assert list(runs_of([True, False, True, True])) == [(0, 0), (2, 3)]
    assert list(runs_of([])) == []


@pytest.mark.parametrize(
    ("fold", "label", "values"),
    [
        (Fold.SUM, "Other (2)", [11.0, 6.0]),
        (Fold.MEAN, "Other (2), mean", [5.5, 6.0]),
        (Fold.MOST, "Other (2), the most", [6.0, 6.0]),
    ],
)
def test_beyond_the_fourth_of_many_series_is_other(
    fold: Fold, label: str, values: list[float]
) -> None:
    rest = (Series("e", "e", (5.0, None)), Series("f", "f", (6.0, 6.0)))
    four = tuple(Series(key, key, (1.0, 1.0)) for key in "abcd")
    other, keys = folded(Chart("", "", (*four, *rest), fold=fold))[-1]
    assert (other.label, other.values, other.slot, keys) == (label, values, 8, ("e", "f"))
    assert len(folded(Chart("", "", (*four, rest[0])))) == 5


def test_bars_are_scaled_by_their_sum() -> None:
    parts = (Series("a", "a", (1.0, 2.0, None, 0.0)), Series("b", "b", (1.0, 3.0, None, 0.0)))
    panel = Panel(
        PanelKind.REQUESTS,
        {Page.OVERVIEW: "x"},
        "req/s",
        Measure.PER_SECOND,
        lambda shown: Chart("", "", parts),
        Form.BARS,
    )
    figure = figure_of(panel, panel.draw(scene()), scene())
    assert figure["layout"]["yaxis"]["range"] == [0, 5.0 * 1.08]
    assert [one["type"] for one in figure["data"]] == ["bar", "bar"]


def test_a_chart_without_a_value_has_a_scale_all_the_same() -> None:
    figure = drawn(PanelKind.FIRST_TOKEN, at=(), covered=(), total=traffic(first_token_ms={}))
    assert figure["layout"]["yaxis"]["range"] == [0, 1]
    assert figure["layout"]["xaxis"]["range"] == [0, 1]


@pytest.mark.parametrize(
    ("memory", "yaxis"),
    [
        ((None,) * 4, {"range": [0, 1], "tickvals": []}),
        ((0.0, None, 0.0, 0.0), {"range": [0, 1], "tickvals": [0]}),
        ((1e9, None, 0.0, 2e9), {"range": [0, 2e9 * 1.08]}),
    ],
)
def test_an_axis_without_a_value_has_no_figures(
    memory: tuple[float | None, ...], yaxis: dict
) -> None:
    figure = drawn(PanelKind.MEMORY, Page.POOL, workers=(worker(memory_bytes=memory),))
    assert figure["layout"]["yaxis"] == yaxis


def test_an_axis_of_per_cent_is_the_same_with_and_without_values() -> None:
    figure = drawn(PanelKind.UTILISATION, Page.POOL)
    assert figure["layout"]["yaxis"] == {"range": [0, 104.0]}


@pytest.mark.parametrize("page", Page)
def test_every_panel_draws_both_an_empty_and_a_full_page_without_a_colour(page: Page) -> None:
    none = (None,) * 4
    blank = traffic(
        **{
            name: none
            for name in (
                *("requests", "requests_per_s", "failure_share", "prompt_tokens_per_s"),
                *("completion_tokens_per_s", "cost_nanousd_per_hour"),
            )
        },
        failures={},
    )
    empty = scene(page, at=view(total=blank, covered=(0.0,) * 4))
    lists = {"queues": (queue(),), "ladders": (ladder(),)}
    workers, pools = (worker(0), worker(1)), (traffic("pool_a", "a"),)
    full = scene(page, at=view(workers=workers, pools=pools, **lists))
    for panel in panels_of(page):
        for shown in (empty, full):
            chart = panel.draw(shown)
            assert chart.sentence.endswith(".")
            text = encode(figure_of(panel, chart, shown))
            assert "color" not in text
            assert json.loads(text)["data"] is not None
