"""The table of scheduled reports."""

from django_tables2 import Column

from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import REPORT_SCHEDULES
from controlplane.models import ReportSchedule

NO_CHANNEL = "none: nothing is sent"


class ScheduleTable(NounTable):
    """What is sent, how often and by which channel."""

    name = NameColumn(REPORT_SCHEDULES)
    group_by = Column("By", attrs={"td": {"data-l": "By"}})
    cadence = Column("Sent", attrs={"td": {"data-l": "Sent"}})
    channel = Column("Channel", empty_values=(), attrs={"td": {"data-l": "Channel"}})
    is_enabled = Column("On")
    updated_at = WhenColumn("Changed")

    caption = "Scheduled reports"

    def render_group_by(self, value: str) -> str:
        return value.replace("_", " ")

    def render_cadence(self, record: ReportSchedule) -> str:
        return f"{record.cadence}, {record.hour:02}:00"

    def render_channel(self, record: ReportSchedule) -> str:
        return NO_CHANNEL if record.channel is None else record.channel.name

    def render_is_enabled(self, value: bool) -> str:
        return "on" if value else "off"
