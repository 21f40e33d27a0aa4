"""Lists of prices in files: what a CSV or JSON file says, line by line, and how the book differs.

Amounts are US dollars for a million tokens (a request's for one request), as vendors list them.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from controlplane.decisions.prices import AMOUNTS, Amounts, incomplete, unusual

MOST_LINES = 5_000
MOST_BYTES = 2_000_000

COLUMNS: Mapping[str, str] = {
    "input": "input_nanousd_per_mtok",
    "output": "output_nanousd_per_mtok",
    "cached_input": "cached_input_nanousd_per_mtok",
    "reasoning_output": "reasoning_output_nanousd_per_mtok",
    "embedding_input": "embedding_input_nanousd_per_mtok",
    "request": "request_nanousd",
    "customer_input": "customer_input_nanousd_per_mtok",
    "customer_output": "customer_output_nanousd_per_mtok",
}
"""Amounts as files name them, and as the book does."""

NAMES = ("model", "pool", *COLUMNS, "effective_from")

_NANO = Decimal(10**9)
_MOST_DOLLARS = Decimal(10**8)


class LineState(StrEnum):
    """What a line of a file comes to."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    REJECTED = "rejected"


class Unreadable(ValueError):
    """The file as a whole is none of prices; the message says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it was read; `problem` says why it can't be taken.

    Amounts that the file doesn't name are absent.
    """

    number: int
    model: str
    pool: str | None
    amounts: Mapping[str, int | None] = field(default_factory=dict)
    effective_from: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a line comes to: its state, why it's rejected, and the amounts that differ."""

    line: Line
    state: LineState
    problem: str = ""
    before: Amounts = field(default_factory=dict)
    after: Amounts = field(default_factory=dict)


def read_list(content: str) -> Sequence[Line]:
    """The lines of a file, JSON if it begins like that, else CSV; raises Unreadable."""
    if len(content.encode(errors="replace")) > MOST_BYTES:
        raise Unreadable(f"The file has more than {MOST_BYTES:,} bytes.")
    text = content.removeprefix("\ufeff")
    rows = _json_rows(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text)
    if len(rows) > MOST_LINES:
        raise Unreadable(f"The file has more than {MOST_LINES:,} lines.")
    if not rows:
        raise Unreadable("The file has no lines.")
    return [_line(number, row) for number, row in rows]


def plan_line(
    line: Line,
    *,
    current: Amounts | None,
    is_known: bool,
    is_confirmed: bool,
    is_taken: bool = False,
) -> Planned:
    """What a line comes to where the book says `current` at its moment; None is no price there.

    `is_known` tells whether its model and pool are there, `is_taken` whether a version begins at
    just that moment, beside which no other can.
    """
    if line.problem:
        return Planned(line, LineState.REJECTED, line.problem)
    if not is_known:
        place = "model" if line.pool is None else "model or pool"
        return Planned(line, LineState.REJECTED, f"There is no such {place}.")
    before = dict.fromkeys(AMOUNTS) if current is None else dict(current)
    whole = {**before, **line.amounts}
    missing = incomplete(whole)
    if missing is not None:
        return Planned(line, LineState.REJECTED, "A price is of input and output, or of neither.")
    if current is None and whole["input_nanousd_per_mtok"] is None:
        if any(amount is not None for amount in whole.values()):
            return Planned(line, LineState.REJECTED, "Input and output are missing.")
        return Planned(line, LineState.SAME)
    slips = {} if is_confirmed else unusual(line.amounts)
    if slips:
        return Planned(line, LineState.REJECTED, next(iter(slips.values())))
    changed = [name for name in AMOUNTS if whole[name] != before[name]]
    if current is not None and not changed:
        return Planned(line, LineState.SAME)
    if is_taken:
        return Planned(line, LineState.REJECTED, "A version begins at this moment already.")
    return Planned(
        line,
        LineState.NEW if current is None else LineState.CHANGED,
        before={name: before[name] for name in changed},
        after={name: whole[name] for name in changed},
    )


def without_repeats(
    lines: Iterable[Line], models: Mapping[str, str], pools: Mapping[str, str]
) -> Sequence[Line]:
    """The lines, of which those that name the same price and moment again are rejected.

    A model or pool is the same by its name and by its id, which the mappings tell.
    """
    seen: dict[tuple[str, str | None, datetime | None], int] = {}
    found = []
    for line in lines:
        pool = None if line.pool is None else pools.get(line.pool, line.pool)
        place = (models.get(line.model, line.model), pool, line.effective_from)
        first = seen.setdefault(place, line.number)
        if first == line.number or line.problem:
            found.append(line)
        else:
            problem = f"Line {first} says the same price already."
            found.append(Line(line.number, line.model, line.pool, problem=problem))
    return found


def digest_of(planned: Iterable[Planned]) -> str:
    """A digest of what would be done, so that nothing else is done than what was looked at."""
    told = [
        [
            *(one.line.number, one.line.model, one.line.pool, str(one.line.effective_from)),
            *(one.state.value, sorted(one.before.items()), sorted(one.after.items())),
        ]
        for one in planned
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def write_csv(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows by NAMES as a CSV file that `read_list` reads."""
    out = io.StringIO()
    writer = csv.DictWriter(out, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def dollars_text(nanousd: int | None) -> str:
    """An amount as files tell it: exact, without needless zeros; "" is none."""
    if nanousd is None:
        return ""
    text = f"{Decimal(nanousd) / _NANO:.9f}".rstrip("0").rstrip(".")
    return text or "0"


def _csv_rows(text: str) -> list[tuple[int, Mapping[str, object]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        _refuse_names(names)
        reader.fieldnames = names
        rows = []
        for row in reader:
            if None in row:
                rows.append((reader.line_num, {"": "more cells than columns"}))
            else:
                rows.append((reader.line_num, dict(row)))
        return rows  # type: ignore[return-value]
    except csv.Error as error:
        raise Unreadable(f"This is no CSV file: {error}.") from error


def _json_rows(text: str) -> list[tuple[int, Mapping[str, object]]]:
    try:
        document = json.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"This is no JSON: {error}.") from error
    if isinstance(document, Mapping):
        document = document.get("prices")
    if not isinstance(document, list) or not all(isinstance(row, Mapping) for row in document):
        raise Unreadable("Give a list of objects, one a price.")
    for row in document:
        _refuse_names([str(name) for name in row], needs_model=False)
    return list(enumerate(document, start=1))


def _refuse_names(names: Sequence[str], *, needs_model: bool = True) -> None:
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise Unreadable(f"Unknown columns: {', '.join(unknown)}. Known: {', '.join(NAMES)}.")
    if needs_model and "model" not in names:
        raise Unreadable("There is no column `model`.")


def _line(number: int, row: Mapping[str, object]) -> Line:
    model, pool = _text(row.get("model")), _text(row.get("pool"))
    if "" in row:
        return Line(number, model, pool or None, problem="The line has more cells than columns.")
    if not model:
        return Line(number, "", pool or None, problem="The model is missing.")
    try:
        amounts = {
            column: _amount(name, row[name]) for name, column in COLUMNS.items() if name in row
        }
        begins = _moment(row.get("effective_from"))
    except Unreadable as problem:
        return Line(number, model, pool or None, problem=str(problem))
    return Line(number, model, pool or None, amounts, begins)


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _amount(name: str, value: object) -> int | None:
    text = _text(value)
    if isinstance(value, bool):
        raise Unreadable(f"{name}: {text} is no amount of dollars.")
    if not text:
        return None
    try:
        dollars = Decimal(text)
    except InvalidOperation:
        raise Unreadable(f"{name}: {text[:40]} is no amount of dollars.") from None
    if not dollars.is_finite() or dollars < 0:
        raise Unreadable(f"{name}: a price can't be negative.")
    if dollars > _MOST_DOLLARS:
        raise Unreadable(f"{name}: above $100 a token.")
    nano = dollars * _NANO
    if nano != nano.to_integral_value():
        raise Unreadable(f"{name}: more than nine digits after the point.")
    return int(nano)


def _moment(value: object) -> datetime | None:
    text = _text(value)
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Unreadable("effective_from: give a time such as 2026-12-01T00:00:00Z.") from None
    if at.tzinfo is None:
        raise Unreadable("effective_from: give its offset from UTC, such as Z.")
    return at
