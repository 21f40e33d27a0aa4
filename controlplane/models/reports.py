"""Reports: months that are closed, files that are asked for, and what is sent by a calendar."""

from django.db.models import (
    CASCADE,
    SET_NULL,
    BigIntegerField,
    BinaryField,
    BooleanField,
    CharField,
    CheckConstraint,
    DateField,
    DateTimeField,
    ForeignKey,
    Index,
    IntegerField,
    Model,
    Q,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
)
from django.db.models.functions import Lower
from django.utils import timezone

from controlplane.decisions.report_kinds import ExportState, ReportPart, StatementState
from controlplane.models.channels import Channel
from controlplane.models.kinds import (
    export_formats,
    export_states,
    report_cadences,
    report_groups,
    report_parts,
    statement_states,
)
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    export_id,
    id_field,
    name_is_label,
    printable_name,
    schedule_id,
    statement_id,
)
from controlplane.models.usage import UsageSums


class Statement(VersionedRow):
    """One closing of a month, named by its first day; `number` counts the closings of the month.

    Its rows never change. What comes to the month later stands in the next statement, unless the
    month is opened again, which leaves this one as it was.
    """

    id = id_field(statement_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="statements")
    month = DateField()
    number = IntegerField()
    time_zone = CharField(max_length=64)
    state = CharField(max_length=8, choices=statement_states, default=StatementState.CLOSED.value)
    closed_by = CharField(max_length=255)
    closed_reason = TextField(default="", blank=True)
    reopened_at = DateTimeField(null=True, blank=True)
    reopened_by = CharField(max_length=255, default="", blank=True)
    reopened_reason = TextField(default="", blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "month"],
                condition=Q(state=StatementState.CLOSED.value),
                name="statement_one_closed",
                violation_error_message="The month is closed already.",
            ),
            UniqueConstraint(
                fields=["organisation", "month", "number"], name="statement_number_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} {self.number}"


class StatementRow(UsageSums):
    """What a statement says of one value of a dimension; `label` is its name as it was then.

    `kind` is a `ReportKind`. `of_month` is the statement's own month, or an earlier closed one of
    which this is what was corrected since: an adjustment, which may be negative.
    """

    statement = ForeignKey(Statement, CASCADE, related_name="rows")
    dimension = TextField()
    kind = TextField(default="value")
    value = TextField()
    label = TextField()
    of_month = DateField()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["statement", "dimension", "kind", "value", "of_month"],
                name="statement_row_unique",
            )
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.value}"


class ReportExport(Model):
    """A file somebody asked for: usage of [since, until), whole days of the organisation's zone.

    `done` of `total` steps are through. `content` goes at `expires_at`, the row a while later. A
    job that makes it moves `beat_at` on.
    """

    id = id_field(export_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="report_exports")
    created_at = DateTimeField(default=timezone.now, editable=False)
    created_by = CharField(max_length=255)
    group_by = CharField(max_length=16, choices=report_groups)
    part = CharField(max_length=8, choices=report_parts, default=ReportPart.WHOLE.value)
    since = DateField()
    until = DateField()
    format = CharField(max_length=8, choices=export_formats)
    state = CharField(max_length=8, choices=export_states, default=ExportState.QUEUED.value)
    total = IntegerField(default=0)
    done = IntegerField(default=0)
    lines = IntegerField(null=True)
    size_bytes = BigIntegerField(null=True)
    detail = TextField(default="", blank=True)
    beat_at = DateTimeField(null=True)
    ended_at = DateTimeField(null=True)
    expires_at = DateTimeField(null=True)
    content = BinaryField(null=True)

    class Meta:
        indexes = [
            Index(fields=["organisation", "-created_at"], name="export_newest"),
            Index(fields=["state"], name="export_by_state"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def file_name(self) -> str:
        return f"report-{self.group_by}-{self.since}-{self.until}.{self.format}"


class ReportSchedule(VersionedRow):
    """A report sent by a channel after each day, week or month of the organisation's zone.

    It goes out at `hour` of the first day after, by the zone's clock; of what ended before `since`
    nothing is sent. Without a channel, because it was removed, nothing is sent at all.
    """

    id = id_field(schedule_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="report_schedules")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    group_by = CharField(max_length=16, choices=report_groups)
    cadence = CharField(max_length=8, choices=report_cadences)
    hour = SmallIntegerField(default=7)
    channel = ForeignKey(Channel, SET_NULL, related_name="report_schedules", null=True, blank=True)
    is_enabled = BooleanField(default=True)
    since = DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="schedule_name_unique",
                violation_error_message="The organisation has a scheduled report of this name.",
            ),
            name_is_label("schedule"),
            CheckConstraint(
                condition=Q(hour__gte=0, hour__lte=23),
                name="schedule_hour_in_range",
                violation_error_message="An hour is from 0 to 23.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ReportRun(Model):
    """One report of the days [period, until); whoever inserts it sends it, so nobody else does."""

    schedule = ForeignKey(ReportSchedule, CASCADE, related_name="runs")
    period = DateField()
    until = DateField()
    at = DateTimeField()
    delivery_id = CharField(max_length=40)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["schedule", "period", "until"], name="report_run_once"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.period}"
