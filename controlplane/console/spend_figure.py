"""A month of spending in figures and words. Pure: values in, a picture and sentences out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from controlplane.console.formats import about_dollars, dollars, minute, money, share
from controlplane.selectors.spend import PriceChange, Spend

_NANO = 10**9
_DAY = timedelta(days=1)
_TICK_DAYS = 5
_WORDS = {
    "input_nanousd_per_mtok": "in",
    "output_nanousd_per_mtok": "out",
    "cached_input_nanousd_per_mtok": "cached",
    "reasoning_output_nanousd_per_mtok": "reasoning",
    "embedding_input_nanousd_per_mtok": "embedding",
    "request_nanousd": "a request",
    "customer_input_nanousd_per_mtok": "customers' in",
    "customer_output_nanousd_per_mtok": "customers' out",
}
_WITHOUT = {
    "cached_input_nanousd_per_mtok": "as the prompt",
    "reasoning_output_nanousd_per_mtok": "as the output",
    "embedding_input_nanousd_per_mtok": "as the prompt",
}
"""What is asked where there is no amount of its own; nothing is known of the others."""


@dataclass(frozen=True, slots=True)
class Course:
    """What was spent by when, as a figure, a sentence, and rows of a day and two amounts."""

    figure: Mapping[str, Any]
    summary: str
    rows: Sequence[tuple[str, str, str]]


def course_of(spend: Spend, now: datetime) -> Course:
    """The month from its beginning to now, where it goes, and the budget it is held against."""
    points = _points(spend, now)
    lines = [*_band(spend, points), _line("spent", points, "--hw-s1", "solid", 2)]
    end = f"{spend.until.astimezone(spend.zone):%Y-%m-%dT%H:%M}"
    if spend.forecast is not None:
        ahead = [points[-1], (end, spend.forecast.at_end_nanousd)]
        lines.append(_line("forecast", ahead, "--hw-s1", "dash", 2))
    if spend.budget is not None:
        amount = spend.budget.amount_nanousd
        lines.append(_line("budget", [(points[0][0], amount), (end, amount)], "--hw-s5", "dash", 2))
    return Course(
        figure={"data": lines, "layout": _layout(spend)},
        summary=_summary(spend),
        rows=_rows(spend),
    )


Point = tuple[str, int]


def _points(spend: Spend, now: datetime) -> list[Point]:
    """What was spent by the beginning of each day, and by now or the month's end."""
    by_day = costs_by_day(spend)
    total, points = 0, []
    at, until = spend.query.month, min(now, spend.until).astimezone(spend.zone)
    last = (until - timedelta(microseconds=1)).date()
    while at <= last:
        points.append((f"{at}T00:00", total))
        total += by_day.get(at, 0)
        at += _DAY
    points.append((f"{until:%Y-%m-%dT%H:%M}", total))
    return points


def costs_by_day(spend: Spend) -> Mapping[date, int]:
    """What was booked on each day that had anything."""
    found: dict[date, int] = {}
    for row in spend.usage.rows:
        day = row.at.astimezone(spend.zone).date()
        found[day] = found.get(day, 0) + row.sums["cost_nanousd"]
    return found


def _band(spend: Spend, points: Sequence[Point]) -> Sequence[Mapping[str, Any]]:
    forecast = spend.forecast
    if forecast is None or forecast.low_nanousd is None or forecast.high_nanousd is None:
        return ()
    end = f"{spend.until.astimezone(spend.zone):%Y-%m-%dT%H:%M}"
    begin = points[-1]
    corners = [begin, (end, forecast.high_nanousd), (end, forecast.low_nanousd), begin]
    line = _line("four fifths of outcomes", corners, "--hw-s1", "solid", 1)
    return ({**line, "fill": "toself", "fillcolor": "--hw-info-soft", "mode": "none"},)


def _line(
    name: str, points: Sequence[Point], colour: str, dash: str, width: float
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [at for at, _ in points],
        "y": [amount / _NANO for _, amount in points],
        "customdata": [f"{name}: {about_dollars(amount)}" for _, amount in points],
        "hovertemplate": "%{customdata}<extra></extra>",
        "line": {"color": colour, "dash": dash, "width": width},
    }


def _layout(spend: Spend) -> dict[str, Any]:
    first = spend.query.month
    last = spend.until.astimezone(spend.zone).date()
    ticks = [first + place * _DAY for place in range(0, (last - first).days, _TICK_DAYS)]
    return {
        "xaxis": {
            "type": "date",
            "range": [f"{first}T00:00", f"{last}T00:00"],
            "tickvals": [f"{one}T00:00" for one in ticks],
            "ticktext": [f"{one.day} {one:%b}" for one in ticks],
        },
        "yaxis": {"tickprefix": "$", "tickformat": ",.3~f", "rangemode": "tozero"},
        "shapes": [_mark(one, spend) for one in spend.price_changes],
    }


def _mark(change: PriceChange, spend: Spend) -> Mapping[str, Any]:
    at = f"{change.at.astimezone(spend.zone):%Y-%m-%dT%H:%M}"
    line = {"color": "--hw-text-3", "width": 1, "dash": "dot"}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _summary(spend: Spend) -> str:
    if spend.spent_nanousd is None:
        return "Nothing that was charged has a price."
    told = f"{about_dollars(spend.spent_nanousd)} spent"
    if spend.budget is not None and spend.budget.amount_nanousd:
        told += f" of a budget of {about_dollars(spend.budget.amount_nanousd)}"
    if spend.forecast is None:
        return f"{told}."
    told += f"; {about_dollars(spend.forecast.at_end_nanousd)} by the month's end at this pace"
    within = interval_words(spend)
    return f"{told}, {within}." if within else f"{told}; too few days are over for an interval."


def interval_words(spend: Spend) -> str:
    """Between what the month will likely end; nothing where nobody knows."""
    forecast = spend.forecast
    if forecast is None or forecast.low_nanousd is None or forecast.high_nanousd is None:
        return ""
    low, high = about_dollars(forecast.low_nanousd), about_dollars(forecast.high_nanousd)
    return f"four in five outcomes lie between {low} and {high}"


def _rows(spend: Spend) -> list[tuple[str, str, str]]:
    by_day, total, rows = costs_by_day(spend), 0, []
    for day in sorted(by_day):
        total += by_day[day]
        rows.append((f"{day.day} {day:%b}", money(by_day[day]), money(total)))
    return rows


def marked(figure: Mapping[str, Any], spend: Spend) -> Mapping[str, Any]:
    """The days' chart with what is out of the ordinary, and the changes of prices."""
    found = spend.anomalies
    layout = {**figure["layout"], "shapes": [_mark(one, spend) for one in spend.price_changes]}
    if not found:
        return {"data": figure["data"], "layout": layout}
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "out of the ordinary",
        "x": [f"{one.day}T12:00" for one in found],
        "y": [one.nanousd / _NANO for one in found],
        "customdata": [anomaly_words(spend, one.day) for one in found],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": "diamond",
            "size": 9,
            "color": "--hw-crit",
            "line": {"color": "--hw-surface", "width": 1},
        },
    }
    return {"data": [*figure["data"], dots], "layout": layout}


def anomaly_words(spend: Spend, day: date) -> str:
    """What is out of the ordinary about a day; nothing where nothing is."""
    for one in spend.anomalies:
        if one.day == day:
            usual = about_dollars(one.usual.nanousd)
            if not one.usual.nanousd:
                return f"usually {usual}"
            part = share(abs(one.nanousd - one.usual.nanousd), one.usual.nanousd)
            more = "above" if one.nanousd > one.usual.nanousd else "below"
            return f"{part} % {more} the usual {usual}"
    return ""


def change_words(change: PriceChange, spend: Spend) -> str:
    """A change of a price as a sentence."""
    at = minute(change.at, spend.zone)
    if change.action == "create":
        return f"{at}: {change.model} gets a price, {_prices(change.after)}"
    if change.action == "delete":
        return f"{at}: {change.model} has no price any more, was {_prices(change.before)}"
    return f"{at}: {change.model} {_prices(change.before)}, from then on {_prices(change.after)}"


def _prices(prices: Mapping[str, int | None]) -> str:
    return ", ".join(
        f"{_WORDS[name]} {_WITHOUT.get(name, 'none') if value is None else dollars(value)}"
        for name, value in prices.items()
    )
