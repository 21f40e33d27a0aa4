"""What reports can be, as closed vocabularies."""

from enum import StrEnum


class Cadence(StrEnum):
    """How often a report is sent."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class ExportFormat(StrEnum):
    """What a file is of."""

    CSV = "csv"
    PARQUET = "parquet"


class ExportState(StrEnum):
    """How far an export is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class StatementState(StrEnum):
    """Whether a month is closed, or was opened again."""

    CLOSED = "closed"
    REOPENED = "reopened"


class ReportPart(StrEnum):
    """How finely a file tells: the whole range as one, or by day."""

    WHOLE = "whole"
    DAY = "day"


class ReportKind(StrEnum):
    """What a line of a report is of."""

    VALUE = "value"
    NONE = "none"
    """Requests that had no such thing."""
    OTHER = "other"
    """Values that are not told apart."""
    SEVERAL = "several"
    """What requests with several tags count more than once, taken out again."""
