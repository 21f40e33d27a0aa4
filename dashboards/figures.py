"""Charts as Plotly figures: plain dicts, without a colour in them.

Colours are the theme's: each trace says in `meta.slot` which one is its own, and the page's script
puts it in, again when the theme changes. Times are milliseconds since the epoch; the script prints
them in the reporting zone. A gap is a grey band with the words, and no line crosses it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series, Values
from dashboards.kinds import Fold, Form
from dashboards.words import NO_DATA

MOST_SERIES = 4
MARKER_PX = 5
_ROOM_ABOVE = 1.08
_OTHER = "other"
_FOLDS: Mapping[Fold, Callable[[Sequence[float]], float]] = {
    Fold.SUM: sum,
    Fold.MEAN: mean,
    Fold.MOST: max,
}
_FOLD_WORDS: Mapping[Fold, str] = {Fold.SUM: "", Fold.MEAN: ", mean", Fold.MOST: ", the most"}


def figure_of(panel: Panel, chart: Chart, scene: Scene) -> dict[str, Any]:
    """The whole figure of one panel."""
    at = [int(one.timestamp()) for one in scene.view.at]
    bucket_s = scene.view.span.bucket_s
    shown = folded(chart)
    missing = gaps_of(chart, scene)
    bands = list(_bands(at, missing, bucket_s))
    return {
        "data": [_trace(panel.form, chart.fold, one, at) for one in shown],
        "layout": {
            "xaxis": {"type": "date", "range": _range_of(at, bucket_s)},
            "yaxis": {"range": [0, top_of(panel, chart, shown)], **_ticks_of(chart, shown)},
            "shapes": [shape for shape, _ in bands],
            "annotations": [words for _, words in bands],
        },
        "meta": {
            "measure": panel.measure,
            "form": panel.form,
            "gaps": "workers" if chart.is_of_workers else "gateways",
            "top": chart.top,
        },
    }


def folded(chart: Chart) -> list[tuple[Series, Sequence[str]]]:
    """The series to draw, each with the keys it is made of: at most four, and the rest as one."""
    if len(chart.series) <= MOST_SERIES + 1:
        return [(one, (one.key,)) for one in chart.series]
    rest = chart.series[MOST_SERIES:]
    other = Series(
        _OTHER,
        f"Other ({len(rest)})" + _FOLD_WORDS[chart.fold],
        _joined([one.values for one in rest], chart.fold),
        OTHER_SLOT,
    )
    kept = [(one, (one.key,)) for one in chart.series[:MOST_SERIES]]
    return [*kept, (other, tuple(one.key for one in rest))]


def _joined(columns: Sequence[Values], fold: Fold) -> Values:
    known = [[v for v in bucket if v is not None] for bucket in zip(*columns, strict=True)]
    return [_FOLDS[fold](values) if values else None for values in known]


def gaps_of(chart: Chart, scene: Scene) -> list[bool]:
    """Which buckets nobody told anything of; one that has just begun is none yet."""
    count = len(scene.view.at)
    if chart.is_of_workers:
        columns = [one.values for one in chart.series]
        missing = [all(column[at] is None for column in columns) for at in range(count)]
    else:
        missing = [share == 0 for share in scene.view.covered]
    if scene.is_partial and count > 1 and not missing[-2]:
        missing[-1] = False
    return missing


def isolated(values: Values) -> list[bool]:
    """Which values have no neighbour, so that no line shows them."""
    padded = [None, *values, None]
    return [
        value is not None and padded[at] is None and padded[at + 2] is None
        for at, value in enumerate(values)
    ]


def top_of(panel: Panel, chart: Chart, shown: Sequence[tuple[Series, Sequence[str]]]) -> float:
    """The upper end of the scale; one where there is nothing to scale by."""
    if chart.top is not None:
        return chart.top
    columns = [one.values for one, _ in shown]
    if panel.form is Form.BARS:
        columns = [[sum(v or 0 for v in bucket) for bucket in zip(*columns, strict=True)]]
    highest = max((value or 0 for column in columns for value in column), default=0)
    return highest * _ROOM_ABOVE if highest else 1


def _ticks_of(
    chart: Chart, shown: Sequence[tuple[Series, Sequence[str]]]
) -> dict[str, Sequence[int]]:
    """No tick where nothing is known, one at 0 where nothing is more; else Plotly chooses."""
    known = [value for one, _ in shown for value in one.values if value is not None]
    if chart.top is not None or any(known):
        return {}
    return {"tickvals": [0] if known else []}


def _range_of(at: Sequence[int], bucket_s: int) -> list[int]:
    if not at:
        return [0, 1]
    half_ms = bucket_s * 500
    return [at[0] * 1_000 - half_ms, at[-1] * 1_000 + half_ms]


def _trace(
    form: Form, fold: Fold, shown: tuple[Series, Sequence[str]], at: Sequence[int]
) -> dict[str, Any]:
    one, keys = shown
    trace: dict[str, Any] = {
        "name": one.label,
        "x": [second * 1_000 for second in at],
        "y": list(one.values),
        "hoverinfo": "none",
        "meta": {"key": one.key, "of": list(keys), "slot": one.slot, "fold": fold},
    }
    if form is Form.BARS:
        return trace | {"type": "bar"}
    alone = isolated(one.values)
    return trace | {
        "type": "scatter",
        "mode": "lines+markers" if any(alone) else "lines",
        "line": {"width": one.width, "dash": one.dash, "shape": "linear"},
        "marker": {"size": [MARKER_PX if is_alone else 0 for is_alone in alone]},
        "connectgaps": False,
    }


def runs_of(missing: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First and last place of each run of gaps."""
    first = None
    for place, is_missing in enumerate([*missing, False]):
        if is_missing and first is None:
            first = place
        if not is_missing and first is not None:
            yield first, place - 1
            first = None


def _bands(
    at: Sequence[int], missing: Sequence[bool], bucket_s: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """A band from half a bucket before a gap to half a bucket after it, and its words."""
    half_ms = bucket_s * 500
    for first, last in runs_of(missing):
        x0, x1 = at[first] * 1_000 - half_ms, at[last] * 1_000 + half_ms
        band = {"type": "rect", "xref": "x", "yref": "paper", "x0": x0, "x1": x1, "y0": 0, "y1": 1}
        words = {"xref": "x", "yref": "paper", "x": (x0 + x1) / 2, "y": 0.5, "text": NO_DATA}
        yield band | {"layer": "below"}, words | {"showarrow": False}
