"""Reports: who used what in a month or a range, months closed, and files asked for."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from controlplane.console.api_calls import changing, reading
from controlplane.console.carrying import REASON
from controlplane.console.filtering import address, dress
from controlplane.console.form_pages import NO_REASON
from controlplane.console.formats import clock, count, money, size
from controlplane.console.forms.reports import SHOWN, ExportForm, ReportForm
from controlplane.console.pages import Crumb, Page
from controlplane.decisions.report_kinds import MEDIA, ExportFormat, ExportState, ReportPart
from controlplane.decisions.report_words import days_words
from controlplane.decisions.statements import StatementLine
from controlplane.errors import Conflict, Invalid, NotAllowed, NotFound
from controlplane.models import ReportExport
from controlplane.selectors.reports import get_closed, list_exports
from controlplane.selectors.spend import known_cost, month_after
from controlplane.selectors.statements import FOR_WHOLE, Report, get_report
from controlplane.services.audit import REASON_LENGTH
from controlplane.services.exports import request_export
from controlplane.services.statements import close_month, reopen_month

SHOWN_LINES = 200
"""The dearest; a file has all."""

SHOWN_FILES = 10

_DAY = timedelta(days=1)


class ReportsOfAll(Page):
    """What the pages have in common: they tell of everybody."""

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Cost"), Crumb("Reports"))

    def require_whole(self) -> None:
        """Raise NotAllowed for readers with roles in teams and projects alone."""
        if not self.scope.access.reads_organisation(self.scope.organisation.pk):
            raise NotAllowed(FOR_WHOLE)

    def today(self) -> date:
        return timezone.now().astimezone(self.scope.zone).date()


class ReportPage(ReportsOfAll):
    template_name = "console/reports/page.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the report of the address's question."""
        self.require_whole()
        form = ReportForm(request.GET, today=self.today())
        dress(form, self.scope.zone.key)
        context: dict[str, Any] = {
            "fields": [form[name] for name in SHOWN],
            "clear": reverse("reports"),
            "files": _files_of(self),
        }
        if not form.is_valid():
            return self.render(context)
        since, until = form.days()
        group_by = form.cleaned_data["group_by"]
        try:
            report = get_report(self.scope.access, self.scope.organisation, group_by, since, until)
        except Invalid as error:
            for name, messages in error.fields.items():
                form.add_error(name, list(messages))
            return self.render({**context, "fields": [form[name] for name in SHOWN]})
        return self.render({**context, **self._shown(report, group_by)})

    def _shown(self, report: Report, group_by: str) -> dict[str, Any]:
        asked = QueryDict(mutable=True)
        asked.update({"since": str(report.since), "until": str(report.until), "group_by": group_by})
        month = report.month
        is_over = month is not None and month_after(month) <= self.today()
        place = "" if month is None else f"?month={month:%Y-%m}"
        return {
            "report": report,
            "group": group_by.replace("_", " "),
            "days_words": days_words(report.since, report.until),
            "months": self._months(month),
            "lines": [_line(one, report) for one in report.lines[:SHOWN_LINES]],
            "left_out": max(len(report.lines) - SHOWN_LINES, 0),
            "total": _cells(report.total),
            "export_form": ExportForm(),
            "asked": asked,
            "group_by": group_by,
            "close_url": reverse("report-close") + place
            if is_over and report.statement is None and self.may_write("reports")
            else "",
            "reopen_url": reverse("report-reopen") + place
            if report.statement is not None and self.may_write("statements")
            else "",
            "is_over": is_over,
            "api": reading(self.request, self.scope, reverse("api-report-list"), asked),
        }

    def _months(self, month: date | None) -> Sequence[tuple[str, str, bool]]:
        today = self.today().replace(day=1)
        before = (today - _DAY).replace(day=1)
        shown = sorted({one for one in (month, today, before) if one is not None})
        path, asked = reverse("reports"), self.request.GET
        return [
            (
                f"{one:%B %Y}",
                address(path, asked, month=f"{one:%Y-%m}", since=None, until=None),
                one == month,
            )
            for one in shown
        ]


def _line(line: StatementLine, report: Report) -> Mapping[str, Any]:
    is_adjustment = line.of_month != report.since
    name = f"no {line.place.dimension.replace('_', ' ')}" if line.place.kind == "none" else ""
    return {
        "label": name or line.label,
        "note": f"adjustment of {line.of_month:%B %Y}" if is_adjustment else "",
        **_cells(line.figures),
    }


def _cells(figures: Mapping[str, int]) -> Mapping[str, str]:
    cost, unknown = known_cost(figures), figures["unknown_cost"]
    return {
        "requests": count(figures["requests"]),
        "prompt": count(figures["prompt_tokens"]),
        "completion": count(figures["completion_tokens"]),
        "cost": money(cost),
        "unknown": count(unknown) if unknown else "",
    }


class MonthAct(ReportsOfAll):
    """Closing a month or opening it again: what it means, and a reason."""

    template_name = "console/reports/act.html"
    noun = "reports"
    verb = ""
    words = ""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show what it means."""
        self.require_write(self.noun)
        return self.shown("")

    def post(self, request: HttpRequest) -> HttpResponse:
        """Do it."""
        self.require_write(self.noun)
        reason = str(request.POST.get(REASON, "")).strip()[:REASON_LENGTH]
        if not reason:
            return self.shown(NO_REASON)
        try:
            self.carry_out(reason)
        except (Invalid, Conflict) as error:
            told = [one for messages in error.fields.values() for one in messages]
            return self.shown(" ".join(told) or error.detail)
        return HttpResponseRedirect(f"{reverse('reports')}?month={self.month():%Y-%m}")

    def month(self) -> date:
        """The month the address names; raises Invalid."""
        asked = self.request.GET.get("month", "").replace("\0", "")
        try:
            return date.fromisoformat(f"{asked}-01")
        except ValueError as error:
            raise Invalid.field("month", "Give a month as 2026-11.") from error

    def carry_out(self, reason: str) -> None:
        """Call the service."""
        raise NotImplementedError

    def api(self) -> str:
        """The same by REST."""
        raise NotImplementedError

    def shown(self, problem: str) -> HttpResponse:
        month = self.month()
        return self.render(
            {
                "title": f"{self.verb} {month:%B %Y}",
                "verb": self.verb,
                "words": self.words,
                "problem": problem,
                "reason_length": REASON_LENGTH,
                "cancel": f"{reverse('reports')}?month={month:%Y-%m}",
                "api": self.api(),
            },
            status=400 if problem else 200,
        )


class MonthClose(MonthAct):
    verb = "Close"
    words = (
        "Its report is written down as it is now, by every dimension, and never changes. What "
        "comes to the month later, such as requests recorded late, stands in the next month "
        "that is closed, as an adjustment."
    )

    def carry_out(self, reason: str) -> None:
        close_month(self.actor(reason), organisation=self.scope.organisation, month=self.month())

    def api(self) -> str:
        document = {"month": f"{self.month():%Y-%m}"}
        path = reverse("api-statement-list")
        return changing(self.request, "POST", path, document, reason="REASON")


class MonthReopen(MonthAct):
    noun = "statements"
    verb = "Open again"
    words = (
        "The month's report is told as it is now until it is closed anew. The statement that was "
        "made of it stays, marked as opened again."
    )

    def carry_out(self, reason: str) -> None:
        reopen_month(self.actor(reason), statement_id=self._statement())

    def api(self) -> str:
        path = reverse("api-statement-reopen", args=[self._statement()])
        return changing(self.request, "POST", path, reason="REASON")

    def _statement(self) -> str:
        found = get_closed(self.scope.organisation, self.month())
        if found is None:
            raise Conflict("The month is not closed.")
        return str(found.pk)


class ExportsPart(ReportsOfAll):
    """The list of files, for the page to ask again while one is made, and the way to one more."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        self.require_whole()
        return render(request, "console/reports/files.html", {"files": _files_of(self)})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask, and go back to the list of files; raises Invalid."""
        self.require_whole()
        form = ExportForm(request.POST)
        if not form.is_valid():
            raise Invalid("The file that was asked for can't be made.")
        values = form.cleaned_data
        request_export(
            self.actor(),
            organisation=self.scope.organisation,
            group_by=values["group_by"],
            since=values["since"],
            until=values["until"],
            part=ReportPart(values["part"]),
            file_format=ExportFormat(values["format"]),
        )
        asked = QueryDict(mutable=True)
        since, until = values["since"], values["until"]
        is_month = since.day == 1 and until == month_after(since)
        ends = {"month": f"{since:%Y-%m}"} if is_month else {"since": since, "until": until}
        asked.update({"group_by": values["group_by"], **{k: str(v) for k, v in ends.items()}})
        return HttpResponseRedirect(f"{reverse('reports')}?{asked.urlencode()}#files")


class ExportFile(ReportsOfAll):
    """The file itself."""

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Send the file, if it is there."""
        self.require_whole()
        export = self.found(list_exports(self.scope.access), pk)
        if export.content is None:
            raise NotFound
        return HttpResponse(
            bytes(export.content),
            content_type=MEDIA[ExportFormat(export.format)],
            headers={
                "Content-Disposition": f'attachment; filename="{export.file_name}"',
                "X-Content-Type-Options": "nosniff",
            },
        )


def _files_of(page: ReportsOfAll) -> Mapping[str, Any]:
    rows = list_exports(page.scope.access).filter(organisation=page.scope.organisation)
    shown = list(rows.order_by("-created_at")[:SHOWN_FILES])
    is_open = any(row.state in (ExportState.QUEUED, ExportState.RUNNING) for row in shown)
    return {"rows": [_file(page, row) for row in shown], "is_open": is_open}


def _file(page: ReportsOfAll, row: ReportExport) -> Mapping[str, Any]:
    zone = page.scope.zone
    is_there = row.state == ExportState.DONE and (
        row.expires_at is not None and row.expires_at > timezone.now()
    )
    told = {
        ExportState.QUEUED.value: "waits",
        ExportState.RUNNING.value: f"{row.done} of {row.total} steps" if row.total else "is made",
        ExportState.FAILED.value: row.detail,
        ExportState.DONE.value: f"{count(row.lines)} lines, {size(row.size_bytes)}",
    }[row.state]
    if row.state == ExportState.DONE and not is_there:
        told += ", expired"
    return {
        "words": f"{days_words(row.since, row.until)}, by {row.group_by.replace('_', ' ')}"
        + (" and day" if row.part == ReportPart.DAY else ""),
        "format": "CSV" if row.format == ExportFormat.CSV else "Parquet",
        "at": clock(row.created_at, zone),
        "by": row.created_by,
        "told": told,
        "url": reverse("report-export", args=[row.pk]) if is_there else "",
        "expires": clock(row.expires_at, zone) if is_there and row.expires_at else "",
    }
