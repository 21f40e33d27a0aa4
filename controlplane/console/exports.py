"""Tables as files for spreadsheets."""

import csv
from collections.abc import Iterable, Sequence

from django.http import HttpResponse

from controlplane.decisions.spreadsheets import Cell, safe_cell

__all__ = ["Cell", "csv_response"]


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> HttpResponse:
    """A CSV file to download. Texts that a spreadsheet would compute are marked as text.

    None is an empty cell: unknown, which is not 0.
    """
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    writer = csv.writer(response)
    writer.writerow(header)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return response
