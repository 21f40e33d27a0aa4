"""The burn-down of a budget as a figure and a table. Pure: values in, words and a picture out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from controlplane.bridge.budget_status import AccountStatus, Status
from controlplane.console.formats import about_dollars, dollars
from controlplane.decisions.budgets import period_words
from inference.contract.kinds import BudgetPeriod

_NANO = 10**9
_MOST_ROWS = 40
_STEP: Mapping[BudgetPeriod, timedelta] = {
    BudgetPeriod.HOUR: timedelta(minutes=10),
    BudgetPeriod.DAY: timedelta(hours=4),
    BudgetPeriod.WEEK: timedelta(days=1),
    BudgetPeriod.MONTH: timedelta(days=5),
    BudgetPeriod.QUARTER: timedelta(days=14),
}


@dataclass(frozen=True, slots=True)
class BurnDown:
    """The chart, its sentence, and the same as rows: by when, and what was spent by then."""

    figure: Mapping[str, Any]
    summary: str
    rows: Sequence[tuple[str, str]]


def burn_down(status: Status, account: AccountStatus, zone: ZoneInfo, now: datetime) -> BurnDown:
    """What one account spent by time, against an even pace, and where it goes."""
    now_s = min(now.timestamp(), status.period.ends_s)
    points = _points(status, account, now_s)
    lines = [
        *_band(status, account, zone, now_s),
        *_even_pace(status, zone),
        *_levels(status, zone),
        _line("spent", points, zone, "--hw-s1", "solid", width=2),
        *_forecast(status, account, zone, now_s),
    ]
    return BurnDown(
        figure={"data": lines, "layout": _layout(status, zone, lines)},
        summary=_summary(status, account, zone),
        rows=_rows(points, zone),
    )


Point = tuple[float, int]


def _points(status: Status, account: AccountStatus, now_s: float) -> list[Point]:
    """What was spent by the beginning of each stretch, and by now."""
    total = 0
    points: list[Point] = [(status.period.starts_s, 0)]
    for at, spent in account.buckets:
        points.append((max(at, status.period.starts_s), total))
        total += spent
    points.append((now_s, total))
    return points


def _even_pace(status: Status, zone: ZoneInfo) -> Sequence[Mapping[str, Any]]:
    """What would be spent by when at an even pace; what rolls has no beginning to go on from."""
    if status.record.is_rolling:
        return ()
    period = status.period
    points = [(period.starts_s, 0), (period.ends_s, status.plain_amount_nanousd)]
    return (_line("even pace", points, zone, "--hw-text-3", "dot", width=1),)


def _forecast(
    status: Status, account: AccountStatus, zone: ZoneInfo, now_s: float
) -> Sequence[Mapping[str, Any]]:
    # the chart of one that rolls ends with its window
    if account.forecast is None or status.record.is_rolling:
        return ()
    points = [
        (now_s, account.balance.spent_nanousd),
        (status.period.ends_s, account.forecast.at_end_nanousd),
    ]
    return (_line("forecast", points, zone, "--hw-s1", "dash", width=2),)


def _band(
    status: Status, account: AccountStatus, zone: ZoneInfo, now_s: float
) -> Sequence[Mapping[str, Any]]:
    forecast = account.forecast
    if forecast is None or forecast.low_nanousd is None or forecast.high_nanousd is None:
        return ()
    if status.record.is_rolling:
        return ()
    spent, end = account.balance.spent_nanousd, status.period.ends_s
    corners = [(now_s, spent), (end, forecast.high_nanousd), (end, forecast.low_nanousd)]
    line = _line("four fifths of outcomes", [*corners, corners[0]], zone, "--hw-s1", "solid")
    return ({**line, "fill": "toself", "fillcolor": "--hw-info-soft", "mode": "none"},)


def _levels(status: Status, zone: ZoneInfo) -> Sequence[Mapping[str, Any]]:
    """The budget, and the thresholds below it."""
    lower = [
        _line(
            f"{percent} %",
            _level(status, status.plain_amount_nanousd * percent // 100),
            zone,
            "--hw-s2",
            "dot",
        )
        for percent in status.thresholds_percent
        if percent < 100
    ]
    budget = _level(status, status.amount_nanousd)
    return (*lower, _line("budget", budget, zone, "--hw-s5", "dash", width=1.5))


def _level(status: Status, amount_nanousd: int) -> Sequence[Point]:
    return [(status.period.starts_s, amount_nanousd), (status.period.ends_s, amount_nanousd)]


def _line(
    name: str,
    points: Sequence[Point],
    zone: ZoneInfo,
    colour: str,
    dash: str,
    *,
    width: float = 1,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [_wall(at, zone) for at, _ in points],
        "y": [amount / _NANO for _, amount in points],
        "customdata": [f"{name}: {about_dollars(amount)}" for _, amount in points],
        "hovertemplate": "%{customdata}<extra></extra>",
        "line": {"color": colour, "dash": dash, "width": width},
    }


def _wall(at_s: float, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC).astimezone(zone):%Y-%m-%dT%H:%M:%S}"


def _tick_format(lines: Sequence[Mapping[str, Any]]) -> str:
    """So many digits that the steps of the axis differ, however small the sums are."""
    top = max((amount for line in lines for amount in line["y"]), default=0.0)
    first = -math.floor(math.log10(top)) if top > 0 else 0
    return f",.{max(first + 2, 3)}~f"


def _layout(status: Status, zone: ZoneInfo, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    period, kind = status.period, status.record.period
    first = datetime.fromtimestamp(period.starts_s, UTC).astimezone(zone)
    last = datetime.fromtimestamp(period.ends_s, UTC).astimezone(zone)
    ticks, at = [], first.replace(tzinfo=None)
    while at < last.replace(tzinfo=None):
        ticks.append(at)
        at += _STEP[kind]
    is_short = kind in (BudgetPeriod.HOUR, BudgetPeriod.DAY)
    return {
        "xaxis": {
            "type": "date",
            "range": [_wall(period.starts_s, zone), _wall(period.ends_s, zone)],
            "tickvals": [f"{one:%Y-%m-%dT%H:%M:%S}" for one in ticks],
            "ticktext": [f"{one:%H:%M}" if is_short else f"{one.day} {one:%b}" for one in ticks],
        },
        "yaxis": {"tickprefix": "$", "tickformat": _tick_format(lines), "rangemode": "tozero"},
    }


def _summary(status: Status, account: AccountStatus, zone: ZoneInfo) -> str:
    """One sentence: where it is, and where it goes."""
    balance, forecast = account.balance, account.forecast
    told = f"{dollars(balance.spent_nanousd)} of {dollars(status.amount_nanousd)} spent"
    if status.record.is_rolling:
        return f"{told} {period_words(status.record.period, is_rolling=True)}."
    if forecast is None:
        return f"{told}; too little of the period is over for a forecast."
    end = datetime.fromtimestamp(status.period.ends_s, UTC).astimezone(zone)
    told += f"; {about_dollars(forecast.at_end_nanousd)} by {end.day} {end:%b %H:%M} at this pace"
    if forecast.reached_at_s is None:
        return f"{told}, within the budget."
    at = datetime.fromtimestamp(forecast.reached_at_s, UTC).astimezone(zone)
    verb = "was used up" if balance.left_nanousd == 0 else "is used up"
    return f"{told}; it {verb} on {at.day} {at:%b %H:%M}."


def _rows(points: Sequence[Point], zone: ZoneInfo) -> Sequence[tuple[str, str]]:
    step = max(1, -(-len(points) // _MOST_ROWS))
    chosen = [*points[:-1:step], points[-1]]
    return [
        (
            f"{datetime.fromtimestamp(at, UTC).astimezone(zone):%d %b %H:%M}",
            dollars(amount),
        )
        for at, amount in chosen
    ]
