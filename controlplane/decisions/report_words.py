"""What a report by mail says: fixed when it is queued, so that a repeat says the same. Pure."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Protocol

from controlplane.decisions.alert_words import Content
from controlplane.decisions.report_calendar import Period
from controlplane.decisions.statements import Place
from inference.decisions.budgets import dollars

MOST_LISTED = 25

_TITLE_LENGTH = 200


class Line(Protocol):
    """One value's figures."""

    @property
    def place(self) -> Place: ...

    @property
    def label(self) -> str: ...

    @property
    def figures(self) -> Mapping[str, int]: ...


def report_content(
    name: str, group_by: str, time_zone: str, period: Period, lines: Sequence[Line]
) -> Content:
    """The message: the total, and the dearest values. What has no price is counted, never 0."""
    words = days_words(period.since, period.until)
    total = {
        figure: sum(line.figures[figure] for line in lines)
        for figure in ("requests", "cost_nanousd", "unknown_cost")
    }
    ranked = sorted(lines, key=lambda one: (-one.figures["cost_nanousd"], one.label))
    facts = [(_name(line, group_by), _figures(line.figures)) for line in ranked[:MOST_LISTED]]
    if len(ranked) > MOST_LISTED:
        facts.append((f"and {len(ranked) - MOST_LISTED} more", ""))
    text = f"{_figures(total)} in all, {words}, days of {time_zone}. By {_noun(group_by)}:"
    return {
        "title": f"{name}: {words}"[:_TITLE_LENGTH],
        "text": text if lines else f"Nothing was used, {words}, days of {time_zone}.",
        "severity": "info",
        "url": f"/reports/?since={period.since}&until={period.until}&group_by={group_by}",
        "facts": facts,
        "alerts": [],
    }


def days_words(since: date, until: date) -> str:
    """A range of days, both ends told."""
    last = until - timedelta(days=1)
    if last == since:
        return f"{since.day} {since:%B %Y}"
    if since.day == 1 and until.day == 1 and (until - since).days <= 31:
        return f"{since:%B %Y}"
    return f"{since.day} {since:%B %Y} to {last.day} {last:%B %Y}"


def _figures(figures: Mapping[str, int]) -> str:
    requests, unknown = figures["requests"], figures["unknown_cost"]
    cost = figures["cost_nanousd"]
    money = "no price" if unknown and not cost else dollars(cost)
    told = f"{money}, {requests:,} requests"
    return f"{told}, {unknown:,} of them without a price" if unknown else told


def _name(line: Line, group_by: str) -> str:
    return f"no {_noun(group_by)}" if line.place.kind == "none" else line.label


def _noun(group_by: str) -> str:
    return group_by.replace("_", " ")
