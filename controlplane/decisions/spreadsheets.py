"""Cells of files that spreadsheets open. Pure."""

from datetime import date

# what makes a spreadsheet take a text for a formula, in its plain and its full-width form
_FORMULA = frozenset("=+-@|%\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}") | frozenset(
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}\N{MINUS SIGN}"
)

Cell = str | int | date | None


def safe_cell(cell: Cell) -> str:
    """A cell as text; one that a spreadsheet would compute is marked as text.

    None is an empty cell: unknown, which is not 0.
    """
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return str(cell)
    begins = cell.lstrip()[:1] or cell[:1]
    return f"'{cell}" if begins in _FORMULA and begins else cell
