"""Reports by REST: who used what, months closed, files asked for, what is sent by a calendar."""

from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_ID, BY_NAME
from controlplane.api.serializers.reports import (
    ReportExportSerializer,
    ReportQuerySerializer,
    ReportScheduleSerializer,
    StatementSerializer,
    UsageReportSerializer,
)
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import (
    Changing,
    Creating,
    NounView,
    Removing,
    TenantView,
    named,
)
from controlplane.decisions.report_kinds import MEDIA, ExportFormat, ReportPart
from controlplane.errors import NotAllowed, NotFound
from controlplane.models import Organisation, ReportExport
from controlplane.selectors.alerts import list_channels
from controlplane.selectors.filters import ReportScheduleFilters
from controlplane.selectors.reports import list_exports, list_schedules, list_statements
from controlplane.selectors.statements import FOR_WHOLE, get_report
from controlplane.services.exports import request_export
from controlplane.services.schedules import create_schedule, delete_schedule, update_schedule
from controlplane.services.statements import close_month, reopen_month


class ReportView(TenantView):
    """What each value of a dimension used in a month or a range of days."""

    serializer_class = UsageReportSerializer
    pagination_class = None
    filter_backends = ()
    is_for_whole = True

    @extend_schema(
        parameters=[ORGANISATION, ReportQuerySerializer], responses=UsageReportSerializer
    )
    def list(self, request: Request) -> Response:
        """A month as it was closed or as it is now, or a range of days."""
        asked = ReportQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        organisation = organisation_asked(self)
        today = timezone.now().astimezone(ZoneInfo(organisation.time_zone)).date()
        since, until = asked.days(today)
        group_by = asked.validated_data["group_by"]
        report = get_report(self.access, organisation, group_by, since, until)
        page, page_size = asked.validated_data["page"], asked.validated_data["page_size"]
        end = page * page_size
        following = replace_query_param(request.build_absolute_uri(), "page", page + 1)
        answer = {
            "organisation_id": organisation.pk,
            "time_zone": organisation.time_zone,
            "since": since,
            "until": until,
            "group_by": group_by,
            "statement": report.statement,
            "total": report.total,
            "is_reconciled": report.is_reconciled,
            "count": len(report.lines),
            "next": following if end < len(report.lines) else None,
            "results": [],
        }
        results = [
            {
                **line.figures,
                "cost_nanousd": str(line.figures["cost_nanousd"]),
                "kind": line.place.kind,
                "value": line.place.value,
                "label": line.label,
                "of_month": str(line.of_month),
            }
            for line in report.lines[end - page_size : end]
        ]
        return Response({**UsageReportSerializer(answer).data, "results": results})


class StatementView(Creating):
    """Months that are closed, and those that were opened again."""

    noun = "reports"
    is_for_whole = True
    selector = staticmethod(list_statements)
    serializer_class = StatementSerializer
    orderings = BY_ID

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return close_month(self.actor, organisation=organisation, **values)

    @extend_schema(request=None, responses={200: StatementSerializer})
    @action(detail=True, methods=["post"])
    def reopen(self, request: Request, pk: str) -> Response:
        """Open a closed month again, for administrators; say why in `X-Headworks-Reason`."""
        row = self.get_object()
        self.require_write("statements", row.organisation_id)
        reopen_month(self.actor, statement_id=row.pk, expected_version=self.expected_version())
        return self.shown(self.fresh(row))


class ReportExportView(NounView):
    """Files of reports. Asking for one takes any role of the whole organisation."""

    noun = "reports"
    is_for_whole = True
    selector = staticmethod(list_exports)
    queryset = ReportExport.objects.none()
    serializer_class = ReportExportSerializer
    orderings = BY_ID

    def get_queryset(self) -> QuerySet[ReportExport]:
        return list_exports(self.access)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Read how far one is."""
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(responses={201: ReportExportSerializer})
    def create(self, request: Request) -> Response:
        """Ask for a file; a job makes it within seconds."""
        organisation = self.organisation()
        if not self.access.reads_organisation(organisation.pk):
            raise NotAllowed(FOR_WHOLE)
        values = self.validated()
        export = request_export(
            self.actor,
            organisation=organisation,
            group_by=values["group_by"],
            since=values["since"],
            until=values["until"],
            part=ReportPart(values["part"]),
            file_format=ExportFormat(values["format"]),
        )
        return Response(self.get_serializer(export).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        responses={200: OpenApiResponse(OpenApiTypes.BINARY, description="The file itself.")}
    )
    @action(detail=True, methods=["get"])
    def content(self, request: Request, pk: str) -> HttpResponse:
        """The file, while it is there."""
        export = self.get_object()
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


class ReportScheduleView(Creating, Changing, Removing):
    """Reports that are sent by a channel after each day, week or month."""

    noun = "report_schedules"
    is_for_whole = True
    selector = staticmethod(list_schedules)
    serializer_class = ReportScheduleSerializer
    filterset_class = ReportScheduleFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        channel = named(list_channels(self.access), "channel", values.pop("channel"))
        return create_schedule(self.actor, organisation=organisation, channel=channel, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        if "channel" in changes:
            changes["channel"] = named(list_channels(self.access), "channel", changes["channel"])
        update_schedule(
            self.actor, schedule_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_schedule(self.actor, schedule_id=row.pk, expected_version=expected_version)
