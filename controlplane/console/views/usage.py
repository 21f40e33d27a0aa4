"""Usage by time and group, the reader's own usage, and both as a file."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from controlplane.console.api_calls import reading
from controlplane.console.budget_notices import Notice, notices_of
from controlplane.console.exports import Cell, csv_response
from controlplane.console.filtering import address, dress
from controlplane.console.formats import dollars, minute
from controlplane.console.forms.usage import MEASURES, RANGES, SHOWN, UsageForm
from controlplane.console.pages import Crumb, Page
from controlplane.console.usage_report import Line, known, name_of, report_on
from controlplane.errors import Invalid
from controlplane.models import User
from controlplane.selectors.budget_warnings import chain_of_reader
from controlplane.selectors.usage import SUMS, Usage, get_usage
from controlplane.selectors.usage_queries import DAILY_GROUPS, Range, UsageQuery
from controlplane.selectors.usage_rows import SEVERAL

_FILTERED = frozenset({"route", "pool", "model", "project", "key", "tag", "end_user"})
_HEADER = ("from", "time_zone", "by", "id", "name", *SUMS, "cost_usd")


class UsagePage(Page):
    """Usage of an organisation, as far as the reader's roles reach."""

    template_name = "console/usage/page.html"
    url_name: ClassVar[str] = "usage"
    title: ClassVar[str] = "Usage"
    group_by: ClassVar[str] = "route"
    named: ClassVar[Range] = Range.WEEK

    def crumbs(self) -> tuple[Crumb, ...]:
        return (Crumb("Observe"), Crumb(self.title))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show chart and table of the address's question."""
        now = timezone.now()
        form = self._form()
        context = self._frame(form)
        if not form.is_valid():
            return self.render(context)
        query = form.question(now, self.scope.zone)
        try:
            usage = get_usage(self.scope.access, self.scope.organisation, query)
        except Invalid as error:
            for name, messages in error.fields.items():
                form.add_error(name, list(messages))
            return self.render(self._frame(form))
        report = report_on(usage, query, now)
        return self.render(
            {
                **context,
                "query": query,
                "usage": usage,
                "report": report,
                "figure": json.dumps(report.figure, separators=(",", ":")),
                "lines": [(line, self._requests_of(line, usage, query)) for line in report.lines],
                "group": (query.group_by or "").replace("_", " "),
                "is_daily": query.group_by in DAILY_GROUPS,
                "measure": MEASURES[query.measure],
                "range_words": _range_words(usage),
                "zone_words": _zone_words(usage),
                "named": form.named,
                "api": reading(
                    request, self.scope, reverse("api-usage-list"), _asked(usage, query)
                ),
            }
        )

    def _form(self) -> UsageForm:
        form = UsageForm(self.request.GET, group_by=self.group_by, named=self.named)
        dress(form, self.scope.zone.key)
        return form

    def _frame(self, form: UsageForm) -> dict[str, Any]:
        """What the page shows whatever the answer is."""
        path, asked = reverse(self.url_name), self.request.GET
        ends = {"from": None, "to": None}
        return {
            "title": self.title,
            "url_name": self.url_name,
            "form": form,
            "fields": [form[name] for name in SHOWN],
            "is_valid": form.is_valid(),
            "ranges": [
                (one.value, words, address(path, asked, range=one.value, **ends))
                for one, words in RANGES.items()
            ],
            "export": address(reverse(f"{self.url_name}-export"), asked),
            "clear": path,
            "budget_notices": self._notices(),
        }

    def _notices(self) -> Sequence[Notice]:
        return ()

    def _requests_of(self, line: Line, usage: Usage, query: UsageQuery) -> str:
        """The address of a group's requests in the range; empty where there is no such filter."""
        if query.group_by not in _FILTERED or line.value in (None, "", SEVERAL):
            return ""
        ends = {
            "from": f"{usage.since.astimezone(self.scope.zone):%Y-%m-%dT%H:%M}",
            "to": f"{usage.until.astimezone(self.scope.zone):%Y-%m-%dT%H:%M}",
        }
        return f"{reverse('requests')}?{urlencode({query.group_by: line.value, **ends})}"


class MyUsagePage(UsagePage):
    """Usage of the projects the reader's roles reach; there for everybody who is signed in."""

    url_name = "my-usage"
    title = "My usage"
    group_by = "project"
    named = Range.MONTH_TO_DATE

    def crumbs(self) -> tuple[Crumb, ...]:
        return (Crumb("Me", reverse("me")), Crumb(self.title))

    def _notices(self) -> Sequence[Notice]:
        """Budgets that refuse the reader's requests, or are about to."""
        chain = chain_of_reader(self.scope.access, self.scope.organisation)
        return notices_of(self.scope, chain, timezone.now())

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        except PermissionDenied:
            if not isinstance(request.user, User):
                raise
            return render(request, "console/usage/nothing.html", {"title": self.title})


class UsageExport(UsagePage):
    """The page's rows, a line a bucket and group, for a spreadsheet."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Send the file; raises Invalid for a question that can't be answered."""
        form = self._form()
        if not form.is_valid():
            raise Invalid("The range or grouping is not valid.")
        query = form.question(timezone.now(), self.scope.zone)
        usage = get_usage(self.scope.access, self.scope.organisation, query)
        first = usage.since.astimezone(usage.zone)
        name = f"{self.url_name}-{query.group_by or 'all'}-{first:%Y-%m-%d}"
        return csv_response(name, _HEADER, _rows(usage, query))


class MyUsageExport(UsageExport):
    """The same of My usage."""

    url_name = MyUsagePage.url_name
    group_by = MyUsagePage.group_by
    named = MyUsagePage.named


def _rows(usage: Usage, query: UsageQuery) -> list[list[Cell]]:
    return [
        [
            row.at.astimezone(usage.zone).isoformat(),
            usage.zone.key,
            query.group_by or "",
            row.value or "",
            name_of(row.value, row.label, query.group_by),
            *(known(row.sums, name) for name in SUMS),
            _plain_dollars(known(row.sums, "cost_nanousd")),
        ]
        for row in usage.rows
    ]


def _plain_dollars(nanousd: int | None) -> str | None:
    return None if nanousd is None else dollars(nanousd).replace("$", "").replace(",", "")


def _zone_words(usage: Usage) -> str:
    """The zone, and its offset where the range begins."""
    if usage.zone.key == "UTC":
        return "UTC"
    begin = usage.since.astimezone(usage.zone)
    return f"{usage.zone.key}, UTC{begin.isoformat()[-6:]}"


def _range_words(usage: Usage) -> str:
    return (
        f"{minute(usage.since, usage.zone)} to {minute(usage.until, usage.zone)}, end not included"
    )


def _asked(usage: Usage, query: UsageQuery) -> QueryDict:
    """The same question to the API, by the ends of its range."""
    asked = QueryDict(mutable=True)
    asked["from"] = f"{usage.since:%Y-%m-%dT%H:%M:%SZ}"
    asked["to"] = f"{usage.until:%Y-%m-%dT%H:%M:%SZ}"
    asked["bucket"] = query.bucket.value
    if query.group_by is not None:
        asked["group_by"] = query.group_by
    asked["top"] = str(query.top)
    asked["measure"] = query.measure.value
    return asked
