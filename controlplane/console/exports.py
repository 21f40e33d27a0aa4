"""Tables as files for spreadsheets."""

import csv
from collections.abc import Iterable, Sequence

from django.http import HttpResponse

# what makes a spreadsheet take a text for a formula, in its plain and its full-width form
_FORMULA = frozenset("=+-@|%\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}") | frozenset(
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}\N{MINUS SIGN}"
)

Cell = str | int | None


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> HttpResponse:
    """A CSV file to download. Texts that a spreadsheet would compute are marked as text.

    None is an empty cell: unknown, which is not 0.
    """
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    writer = csv.writer(response)
    writer.writerow(header)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return response


def _safe(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return str(cell)
    begins = cell.lstrip()[:1] or cell[:1]
    return f"'{cell}" if begins in _FORMULA and begins else cell
