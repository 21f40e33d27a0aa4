"""A report as a file, made row group by row group while its job tells how far it is."""

import csv
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from importlib import import_module
from io import StringIO
from typing import Any

from controlplane.decisions.report_kinds import ExportFormat, ReportPart
from controlplane.decisions.spreadsheets import safe_cell
from controlplane.errors import Invalid
from controlplane.models import ReportExport
from controlplane.selectors.reports import MOST_LINES, ReportLine, read_report
from controlplane.selectors.usage_rows import SUMS

STEP = timedelta(days=7)
"""So many days are read at a time, where a file tells days apart."""

COLUMNS = (
    *(("day", "date"), ("since", "date"), ("until", "date")),
    *((name, "text") for name in ("time_zone", "by", "kind", "id", "name")),
    *((name, "number") for name in SUMS),
)
"""Names, and kinds of value."""

Told = Callable[[int, int], None]


def make_file(export: ReportExport, tell: Told) -> tuple[bytes, int]:
    """The file and its number of lines. Raises Invalid where it would have too many.

    Money is whole nano-USD; what has no price is in no sum and counted in `unknown_cost`. `tell` is
    called with the steps that are through, and all of them.
    """
    steps = _steps(export)
    is_csv = export.format == ExportFormat.CSV.value
    writer = _Csv() if is_csv else _parquet()
    lines = 0
    for done, (since, until) in enumerate(steps):
        tell(done, len(steps))
        by_day = export.part == ReportPart.DAY.value
        found = read_report(export.organisation_id, export.group_by, since, until, by_day=by_day)
        lines += len(found)
        if lines > MOST_LINES:
            raise Invalid(f"It has more than {MOST_LINES:,} lines; ask for a shorter range.")
        writer.add([_cells(export, line) for line in found])
    tell(len(steps), len(steps))
    return writer.end(), lines


def _steps(export: ReportExport) -> Sequence[tuple[date, date]]:
    if export.part == ReportPart.WHOLE.value:
        return [(export.since, export.until)]
    found, since = [], export.since
    while since < export.until:
        until = min(since + STEP, export.until)
        found.append((since, until))
        since = until
    return found


def _cells(export: ReportExport, line: ReportLine) -> list[Any]:
    place = line.place
    return [
        *(line.day, export.since, export.until, export.organisation.time_zone),
        *(place.dimension, place.kind, place.value, line.label),
        *(line.figures[name] for name in SUMS),
    ]


def _parquet() -> Any:
    return import_module("controlplane.bridge.report_parquet").ParquetFile(COLUMNS)


class _Csv:
    """Lines for spreadsheets: what one would compute is marked as text."""

    def __init__(self) -> None:
        self._text = StringIO()
        self._writer = csv.writer(self._text)
        self._writer.writerow(name for name, _ in COLUMNS)

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        self._writer.writerows([safe_cell(cell) for cell in row] for row in rows)

    def end(self) -> bytes:
        return self._text.getvalue().encode()
