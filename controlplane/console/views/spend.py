"""Spending: a month against its budget, where it goes, by day and group, down to the hour."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from controlplane.console.api_calls import reading
from controlplane.console.filtering import address, dress
from controlplane.console.formats import NO_PRICE, UNKNOWN, about_dollars, count, money, share
from controlplane.console.forms.spend import SHOWN, SpendForm
from controlplane.console.pages import Crumb, Page
from controlplane.console.spend_figure import (
    anomaly_words,
    change_words,
    course_of,
    interval_words,
    marked,
)
from controlplane.console.usage_report import bucket_words, report_on
from controlplane.selectors.spend import Spend, get_spend, hours_query, known_cost, usage_query
from controlplane.selectors.usage import NO_SUMS
from controlplane.selectors.usage_queries import Bucket
from controlplane.selectors.usage_rows import SUMS

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class SpendPage(Page):
    """A month of an organisation's spending, as far as the reader's roles reach."""

    template_name = "console/spend/page.html"

    def crumbs(self) -> tuple[Crumb, ...]:
        return (Crumb("Cost"), Crumb("Spend"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the month of the address's question."""
        now = timezone.now()
        form = SpendForm(request.GET, today=now.astimezone(self.scope.zone).date())
        dress(form, self.scope.zone.key)
        context = {"fields": [form[name] for name in SHOWN], "clear": reverse("spend")}
        if not form.is_valid():
            return self.render(context)
        query = form.question()
        spend = get_spend(self.scope.access, self.scope.organisation, query, now)
        report = report_on(spend.usage, usage_query(query, spend.zone), now)
        course = course_of(spend, now)
        return self.render(
            {
                **context,
                "query": query,
                "spend": spend,
                "months": self._months(query.month, now.astimezone(spend.zone).date()),
                "month_words": f"{query.month:%B %Y}",
                "group": (query.group_by or "").replace("_", " "),
                "report": report,
                "figure": _json(marked(report.figure, spend)),
                "course": course,
                "course_figure": _json(course.figure),
                "figures": _figures(spend),
                "days": [
                    self._day(spend, day, sums) for day, sums in sorted(_by_day(spend).items())
                ],
                "hours": self._hours(spend),
                "changes": [change_words(one, spend) for one in spend.price_changes],
                "api": reading(request, self.scope, reverse("api-spend-list"), _asked(spend)),
            }
        )

    def _months(self, month: date, today: date) -> list[tuple[str, str, bool]]:
        """The months beside this one, and the present one."""
        shown = sorted({month, (month - _DAY).replace(day=1), today.replace(day=1)})
        path, asked = reverse("spend"), self.request.GET
        return [
            (
                f"{one:%B %Y}",
                address(path, asked, month=f"{one:%Y-%m}", day=None),
                one == month,
            )
            for one in shown
        ]

    def _day(self, spend: Spend, day: date, sums: Mapping[str, int]) -> Mapping[str, Any]:
        return {
            "words": f"{day.day} {day:%b}",
            "url": address(reverse("spend"), self.request.GET, day=str(day)) + "#hours",
            "is_chosen": day == spend.query.day,
            "note": anomaly_words(spend, day),
            **_cells(sums),
        }

    def _hours(self, spend: Spend) -> Mapping[str, Any] | None:
        """The chosen day by hour, each with the address of its requests."""
        if spend.hours is None or spend.query.day is None:
            return None
        usage, zone = spend.hours, spend.zone
        report = report_on(usage, hours_query(spend.query, spend.query.day, zone), timezone.now())
        by_hour: dict[Any, dict[str, int]] = {}
        for row in usage.rows:
            own = by_hour.setdefault(row.at, dict(NO_SUMS))
            for name in SUMS:
                own[name] += row.sums[name]
        rows = []
        for at, sums in sorted(by_hour.items()):
            ends = {
                "from": f"{at.astimezone(zone):%Y-%m-%dT%H:%M}",
                "to": f"{(at + _HOUR).astimezone(zone):%Y-%m-%dT%H:%M}",
            }
            url = f"{reverse('requests')}?{urlencode(ends)}"
            rows.append({"words": bucket_words(at, Bucket.HOUR, zone), "url": url, **_cells(sums)})
        day = spend.query.day
        return {
            "day": f"{day.day} {day:%B %Y}",
            "figure": _json(report.figure),
            "report": report,
            "rows": rows,
        }


def _json(figure: Mapping[str, Any]) -> str:
    return json.dumps(figure, separators=(",", ":"))


def _cells(sums: Mapping[str, int]) -> Mapping[str, str]:
    cost = known_cost(sums)
    return {
        "cost": money(cost),
        "requests": count(sums["requests"]),
        "unknown": count(sums["unknown_cost"]) if sums["unknown_cost"] else "",
    }


def _by_day(spend: Spend) -> Mapping[date, Mapping[str, int]]:
    found: dict[date, dict[str, int]] = {}
    for row in spend.usage.rows:
        own = found.setdefault(row.at.astimezone(spend.zone).date(), dict(NO_SUMS))
        for name in SUMS:
            own[name] += row.sums[name]
    return found


def _figures(spend: Spend) -> Sequence[Mapping[str, str]]:
    """The strip above the charts."""
    sums = spend.usage.total
    forecast = spend.forecast
    priced = sums["requests"] - sums["unknown_cost"]
    budget = spend.budget
    return [
        {
            "label": "Spent" if forecast is None else "Month to date",
            "value": _unit(spend.spent_nanousd, NO_PRICE),
            "unit": "",
        },
        {
            "label": "Forecast to the month's end",
            "value": UNKNOWN if forecast is None else about_dollars(forecast.at_end_nanousd),
            "unit": interval_words(spend).removeprefix("four in five outcomes lie "),
        },
        {
            "label": "Budget",
            "value": UNKNOWN if budget is None else about_dollars(budget.amount_nanousd),
            "unit": _used(spend),
            "url": "" if budget is None else reverse("budget", args=[budget.id]),
        },
        {"label": "A million tokens", "value": _unit(spend.nanousd_per_mtok), "unit": ""},
        {"label": "A request", "value": _unit(spend.nanousd_per_request), "unit": ""},
        {
            "label": "Requests with a price",
            "value": _percent(priced, sums["requests"]),
            "unit": f"of {count(sums['requests'])}",
        },
    ]


def _percent(part: int, whole: int) -> str:
    told = share(part, whole)
    return told if told == UNKNOWN else f"{told} %"


def _used(spend: Spend) -> str:
    if spend.budget is None or spend.spent_nanousd is None:
        return ""
    told = _percent(spend.spent_nanousd, spend.budget.amount_nanousd)
    return "" if told == UNKNOWN else f"{told} used"


def _unit(nanousd: int | None, unknown: str = UNKNOWN) -> str:
    return unknown if nanousd is None else about_dollars(nanousd)


def _asked(spend: Spend) -> QueryDict:
    asked = QueryDict(mutable=True)
    asked["month"] = f"{spend.query.month:%Y-%m}"
    if spend.query.group_by is not None:
        asked["group_by"] = spend.query.group_by
    asked["top"] = str(spend.query.top)
    if spend.query.day is not None:
        asked["day"] = str(spend.query.day)
    return asked
