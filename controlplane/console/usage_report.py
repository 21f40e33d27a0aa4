"""What the usage page says of its figures. Pure: sums in, words and a figure out.

A sum leaves unknowns out, so wherever some are, the words say how many; a sum of nothing but
unknowns is no figure at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from controlplane.console.formats import NO_PRICE, UNKNOWN, count, money, readable_dollars, share
from controlplane.selectors.usage import NO_SUMS, SUMS, Usage, UsageRow, sum_of
from controlplane.selectors.usage_queries import Bucket, Measure, UsageQuery
from controlplane.selectors.usage_rows import SEVERAL

Sums = Mapping[str, int]

MOST_DRAWN = 7
"""There are so many colours that can be told apart; what is left is one grey part, Other."""

_BY_ATTEMPT, _BY_REQUEST = ("unknown_usage", "attempts"), ("unknown_cost", "requests")
_UNKNOWNS = {
    "prompt_tokens": _BY_ATTEMPT,
    "completion_tokens": _BY_ATTEMPT,
    "cached_tokens": _BY_ATTEMPT,
    "cost_nanousd": _BY_REQUEST,
}
"""Of which sums some can be unknown: what counts the unknown ones, and what all of them."""

_COLOURS = tuple(f"--hw-s{number}" for number in range(1, 8))
_OTHER_COLOUR = "--hw-s8"
_MOST_TICKS = 7
_PARTIAL_OPACITY = 0.5
_NANO = 10**9


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: a group over the whole range, or all of them."""

    value: str | None
    label: str
    requests: str
    errors: str
    prompt_tokens: str
    completion_tokens: str
    cost: str
    share: str
    notes: Sequence[str]
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Cells:
    """One bucket of the chart as a row: its beginning, and a figure a group."""

    label: str
    figures: Sequence[str]


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown. `figure` is a Plotly figure whose colours are names of tokens."""

    lines: Sequence[Line]
    total: Line
    drawn: Sequence[Line]
    cells: Sequence[Cells]
    figure: Mapping[str, Any]
    summary: str
    partial: str


@dataclass(frozen=True, slots=True)
class _Group:
    value: str | None
    label: str
    sums: Sums
    by_bucket: Mapping[datetime, Sums]


def report_on(usage: Usage, query: UsageQuery, now: datetime) -> Report:
    """Put the figures into words, a table and a chart."""
    groups = _groups_of(usage.rows, query)
    drawn = _drawn(groups)
    buckets = sorted({row.at for row in usage.rows})
    whole = _amount(usage.total, query.measure)
    colours = {one.value: colour for one, colour in zip(drawn, _colours(drawn), strict=True)}
    lines = [_line(one, query, whole, colours.get(one.value, "")) for one in groups]
    total = _Group(None, "Total", usage.total, {})
    return Report(
        lines=lines,
        total=_line(total, query, whole, ""),
        drawn=[_line(one, query, whole, colours[one.value]) for one in drawn],
        cells=_cells(drawn, buckets, query, usage.zone),
        figure=_figure(drawn, buckets, usage, query, now),
        summary=_summary(groups, usage, query),
        partial=_partial(usage, query, now),
    )


def _groups_of(rows: Sequence[UsageRow], query: UsageQuery) -> list[_Group]:
    """The groups, the largest first, all others last."""
    values = {row.value: name_of(row.value, row.label, query.group_by) for row in rows}
    found = []
    for value, label in values.items():
        own = [row for row in rows if row.value == value]
        found.append(_Group(value, label, sum_of(own), {row.at: row.sums for row in own}))
    found.sort(
        key=lambda one: (one.value in (None, SEVERAL), -_amount(one.sums, query.measure), one.label)
    )
    return found


def _drawn(groups: Sequence[_Group]) -> list[_Group]:
    """As many as there are colours for; what is left is summed."""
    named = [one for one in groups if one.value not in (None, SEVERAL)]
    rest = [*named[MOST_DRAWN:], *(one for one in groups if one not in named)]
    if len(rest) <= 1:
        return [*named[:MOST_DRAWN], *rest]
    buckets = {at for one in rest for at in one.by_bucket}
    by_bucket = {at: _added(one.by_bucket.get(at, NO_SUMS) for one in rest) for at in buckets}
    other = _Group(None, "Other", _added(one.sums for one in rest), by_bucket)
    return [*named[:MOST_DRAWN], other]


def _added(parts: Any) -> Sums:
    parts = list(parts)
    return {name: sum(part[name] for part in parts) for name in SUMS}


def _colours(drawn: Sequence[_Group]) -> list[str]:
    is_split = any(one.value is not None for one in drawn)
    return [
        _OTHER_COLOUR if is_split and one.value is None else _COLOURS[place]
        for place, one in enumerate(drawn)
    ]


def _amount(sums: Sums, measure: Measure) -> int:
    if measure is Measure.TOKENS:
        return sums["prompt_tokens"] + sums["completion_tokens"]
    return sums["cost_nanousd" if measure is Measure.COST else "requests"]


def _line(group: _Group, query: UsageQuery, whole: int, colour: str) -> Line:
    sums = group.sums
    part = share(_amount(sums, query.measure), whole)
    return Line(
        value=group.value,
        label=group.label,
        requests=count(sums["requests"]),
        errors=count(sums["errors"]),
        prompt_tokens=_tokens_words(sums, "prompt_tokens"),
        completion_tokens=_tokens_words(sums, "completion_tokens"),
        cost=money(known(sums, "cost_nanousd")),
        share=part if part == UNKNOWN else f"{part} %",
        notes=_notes(sums),
        colour=colour,
    )


def known(sums: Sums, name: str) -> int | None:
    """A sum of SUMS; None where all it could be made of is unknown.

    A cost of 0 beside requests without a price is unknown too: what was refused costs nothing.
    """
    of_all = _UNKNOWNS.get(name)
    if of_all is None or sums[name]:
        return sums[name]
    unknown, counted = of_all
    if name == "cost_nanousd":
        return None if sums[unknown] else 0
    return None if sums[unknown] >= sums[counted] > 0 else 0


def name_of(value: str | None, label: str, group_by: str | None) -> str:
    """What a group is called; requests that had no such thing are named by what they lacked."""
    return f"no {group_by.replace('_', ' ')}" if value == "" and group_by else label


def _tokens_words(sums: Sums, name: str) -> str:
    return count(known(sums, name))


def _cost_words(sums: Sums) -> str:
    nanousd = known(sums, "cost_nanousd")
    return NO_PRICE if nanousd is None else readable_dollars(nanousd)


def _cost_cell(sums: Sums) -> str:
    return money(known(sums, "cost_nanousd"))


def _notes(sums: Sums) -> list[str]:
    """What a sum leaves out."""
    notes = []
    if sums["unknown_cost"]:
        notes.append(f"{_counted(sums['unknown_cost'], 'request')} without a price")
    if sums["unknown_usage"]:
        notes.append(f"{_counted(sums['unknown_usage'], 'attempt')} with unknown tokens")
    return notes


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _figures(measure: Measure) -> Callable[[Sums], str]:
    if measure is Measure.COST:
        return _cost_words
    if measure is Measure.TOKENS:
        return _all_tokens_words
    return lambda sums: count(sums["requests"])


def _all_tokens_words(sums: Sums) -> str:
    parts = [known(sums, name) for name in ("prompt_tokens", "completion_tokens")]
    told = [part for part in parts if part is not None]
    return count(sum(told)) if told else UNKNOWN


def _cells(
    drawn: Sequence[_Group], buckets: Sequence[datetime], query: UsageQuery, zone: ZoneInfo
) -> list[Cells]:
    words = _figures(query.measure)
    if query.measure is Measure.COST:
        words = _cost_cell
    return [
        Cells(
            bucket_words(at, query.bucket, zone),
            [words(one.by_bucket[at]) if at in one.by_bucket else UNKNOWN for one in drawn],
        )
        for at in buckets
    ]


def bucket_words(at: datetime, bucket: Bucket, zone: ZoneInfo) -> str:
    """A bucket by its beginning; an hour the clock shows twice is told apart by its offset."""
    local = at.astimezone(zone)
    if bucket is Bucket.DAY:
        return f"{local.day} {local:%b %Y}"
    return f"{local.day} {local:%b %H:%M} {local:%Z}"


def _figure(
    drawn: Sequence[_Group],
    buckets: Sequence[datetime],
    usage: Usage,
    query: UsageQuery,
    now: datetime,
) -> dict[str, Any]:
    """Stacked bars in the middle of their buckets, by the zone's clock."""
    words = _figures(query.measure)
    length = timedelta(days=1) if query.bucket is Bucket.DAY else timedelta(hours=1)
    middles = {at: _wall(at, usage.zone) + length / 2 for at in buckets}
    data = []
    for one, colour in zip(drawn, _colours(drawn), strict=True):
        own = [at for at in buckets if at in one.by_bucket]
        data.append(
            {
                "type": "bar",
                "name": one.label,
                "x": [f"{middles[at]:%Y-%m-%dT%H:%M}" for at in own],
                "y": [_height(one.by_bucket[at], query.measure) for at in own],
                "customdata": [
                    f"{bucket_words(at, query.bucket, usage.zone)}: {words(one.by_bucket[at])}"
                    for at in own
                ],
                "width": length.total_seconds() * 800,
                "marker": {
                    "color": colour,
                    "opacity": [_PARTIAL_OPACITY if at + length > now else 1 for at in own],
                },
                "hovertemplate": "%{customdata}",
            }
        )
    return {"data": data, "layout": _layout(usage, query, length)}


def _height(sums: Sums, measure: Measure) -> float | int:
    amount = _amount(sums, measure)
    return amount / _NANO if measure is Measure.COST else amount


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def _layout(usage: Usage, query: UsageQuery, length: timedelta) -> dict[str, Any]:
    first, last = _wall(usage.since, usage.zone), _wall(usage.until, usage.zone)
    ticks = []
    at = first
    step = max(1, round((last - first) / length / _MOST_TICKS)) * length
    while at < last:
        ticks.append(at)
        at += step
    is_daily = query.bucket is Bucket.DAY
    return {
        "barmode": "stack",
        "xaxis": {
            "type": "date",
            "range": [f"{first:%Y-%m-%dT%H:%M}", f"{last:%Y-%m-%dT%H:%M}"],
            "tickvals": [
                f"{one + length / 2 if is_daily else one:%Y-%m-%dT%H:%M}" for one in ticks
            ],
            "ticktext": [f"{one.day} {one:%b}" if is_daily else f"{one:%H:%M}" for one in ticks],
        },
        "yaxis": {
            "tickprefix": "$" if query.measure is Measure.COST else "",
            "tickformat": ",.3~f" if query.measure is Measure.COST else ",.3~s",
            "rangemode": "tozero",
        },
    }


def _summary(groups: Sequence[_Group], usage: Usage, query: UsageQuery) -> str:
    """One sentence on what the chart shows, and one on what it leaves out."""
    words = _figures(query.measure)
    told = {Measure.REQUESTS: "requests", Measure.TOKENS: "tokens", Measure.COST: "booked"}
    sentence = f"{words(usage.total)} {told[query.measure]} in all"
    largest = groups[0] if groups and groups[0].value is not None else None
    whole = _amount(usage.total, query.measure)
    if largest is not None and whole:
        part = share(_amount(largest.sums, query.measure), whole)
        sentence += f"; {largest.label} has the most, {part} %"
    notes = _notes(usage.total)
    return f"{sentence}. Not in the sums: {', '.join(notes)}." if notes else f"{sentence}."


def _partial(usage: Usage, query: UsageQuery, now: datetime) -> str:
    """Which bucket is still filling."""
    if not usage.since <= now < usage.until:
        return ""
    local = now.astimezone(usage.zone)
    if query.bucket is Bucket.HOUR:
        return f"the hour from {local:%H}:00 is partial"
    return f"{local.day} {local:%b} is partial"
