"""The pages of scheduled reports."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact
from controlplane.console.editing import EditPage
from controlplane.console.formats import clock
from controlplane.console.forms.reports import ScheduleForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import REPORT_SCHEDULES
from controlplane.console.tables.report_schedules import NO_CHANNEL, ScheduleTable
from controlplane.decisions.report_calendar import next_due
from controlplane.decisions.report_kinds import Cadence
from controlplane.decisions.report_words import days_words
from controlplane.errors import NotAllowed
from controlplane.models import ReportSchedule
from controlplane.selectors.filters import ReportScheduleFilters
from controlplane.selectors.reports import list_schedules
from controlplane.selectors.statements import FOR_WHOLE
from controlplane.services.actors import Actor
from controlplane.services.schedules import create_schedule, delete_schedule, update_schedule

_RUNS_SHOWN = 30


class ScheduleList(ListPage):
    noun = REPORT_SCHEDULES
    selector = staticmethod(list_schedules)
    filters = ReportScheduleFilters
    table = ScheduleTable
    intro = "What is sent after each day, week or month of the organisation's zone"
    empty = Empty(
        "No report is scheduled",
        "A scheduled report tells what each team, project, key, tag or end user used, by a "
        "channel of alerts.",
    )

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the list to roles of the whole organisation."""
        if not self.scope.access.reads_organisation(self.scope.organisation.pk):
            raise NotAllowed(FOR_WHOLE)
        return super().get(request)


class ScheduleDetail(DetailPage):
    noun = REPORT_SCHEDULES
    selector = staticmethod(list_schedules)
    template_name = "console/reports/schedule.html"
    is_name_mono = False

    def facts_of(self, row: ReportSchedule) -> Sequence[Fact]:
        zone, now = self.scope.zone, timezone.now()
        following = next_due(Cadence(row.cadence), row.hour, now, zone)
        is_sent = row.is_enabled and row.channel is not None
        return (
            Fact("By", row.group_by.replace("_", " ")),
            Fact("Sent", f"{row.cadence}, at {row.hour:02}:00 of {zone.key}"),
            Fact("Channel", NO_CHANNEL if row.channel is None else row.channel.name),
            Fact("Next", clock(following, zone) if is_sent else "none, it is off"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: ReportSchedule, tab: str) -> Mapping[str, Any]:
        runs = row.runs.order_by("-period")[:_RUNS_SHOWN]
        return {
            "runs": [
                (days_words(one.period, one.until), one.at, _delivery_url(one.delivery_id))
                for one in runs
            ]
        }


def _delivery_url(pk: str) -> str:
    return reverse("delivery", args=[pk]) if pk else ""


class ScheduleCreate(CreatePage):
    noun = REPORT_SCHEDULES
    form_class = ScheduleForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> ReportSchedule:
        return create_schedule(actor, organisation=self.scope.organisation, **values)


class ScheduleEdit(EditPage):
    noun = REPORT_SCHEDULES
    selector = staticmethod(list_schedules)
    form_class = ScheduleForm

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_schedule(
            actor, schedule_id=row.pk, changes=changes, expected_version=expected_version
        )


class ScheduleDelete(DeletePage):
    noun = REPORT_SCHEDULES
    selector = staticmethod(list_schedules)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_schedule(actor, schedule_id=row.pk, expected_version=expected_version)

    def values_of(self, row: ReportSchedule) -> Mapping[str, Any]:
        return {"name": row.name, "by": row.group_by, "sent": row.cadence}
