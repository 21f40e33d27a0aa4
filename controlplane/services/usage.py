"""The one writer of usage: ends of requests in, rows, roll-ups and journal marks out, at once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from hashlib import sha256

import msgspec
from django.db import connection, transaction

from controlplane.decisions.journals import Progress, advance
from controlplane.decisions.ledger import ids_in
from controlplane.decisions.rollups import DayKey, MinuteKey, Sums, roll_up
from controlplane.models.usage import JournalMark, PoisonRecord, UsageDay, UsageMinute
from controlplane.selectors.usage import get_names
from controlplane.services.requests import insert_requests
from inference.contract.events import End

_SUMS = tuple(field.name for field in fields(Sums))


@dataclass(frozen=True, slots=True)
class Poison:
    """A stream entry that cannot be recorded. `place` is its journal and seq, if it says so."""

    stream_id: str
    raw: bytes
    error: str
    place: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one write did: how many requests were new, and where their journals now stand."""

    requests: int
    marks: Mapping[str, int]


def record_usage(ends: Sequence[End], poisons: Sequence[Poison] = (), *, now: datetime) -> Recorded:
    """Record a batch in one transaction; what is in the ledger already changes nothing.

    Locks are taken in one order by every writer: requests, minutes, days, marks, each by key.
    Raises what the database raises; then nothing of the batch is recorded.
    """
    with transaction.atomic():
        names = get_names(ids_in(ends))
        new = insert_requests(ends, names, now=now)
        _add_roll_ups(new, names)
        _set_aside(poisons, now)
        places = [(end.journal, end.seq) for end in ends]
        places += [poison.place for poison in poisons if poison.place]
        marks = _advance_marks(places, now)
    return Recorded(requests=len(new), marks=marks)


def forget_marks(*, before: datetime) -> int:
    """Remove the marks that last moved before then and have no gap; returns how many."""
    removed, _ = JournalMark.objects.filter(updated_at__lt=before, ahead=[]).delete()
    return removed


def _add_roll_ups(ends: Sequence[End], names: Mapping[str, str]) -> None:
    increments = roll_up(ends)
    minutes = [key._asdict() | asdict(sums) for key, sums in increments.minutes]
    _upsert(UsageMinute, MinuteKey._fields, minutes)
    labels = {**names, **_route_names(ends)}
    days = [
        key._asdict() | asdict(sums) | {"label": labels.get(key.value, "")}
        for key, sums in increments.days
    ]
    _upsert(UsageDay, DayKey._fields, days, label=True)


def _route_names(ends: Iterable[End]) -> dict[str, str]:
    return {
        end.origin.route_id: end.origin.route_name or ""
        for end in ends
        if end.origin.route_id is not None
    }


def _upsert(
    model: type[UsageMinute] | type[UsageDay],
    key: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    *,
    label: bool = False,
) -> None:
    """Add to the rows in the order given; the last label that isn't empty stays."""
    if not rows:
        return
    table = model._meta.db_table
    keys = ", ".join(key)
    columns = ", ".join([keys, *_SUMS, *(["label"] if label else [])])
    changes = [f"{name} = {table}.{name} + EXCLUDED.{name}" for name in _SUMS]
    if label:
        changes.append(f"label = COALESCE(NULLIF(EXCLUDED.label, ''), {table}.label)")
    statement = (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(NULL::{table}, %s::json) "
        f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(changes)}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [msgspec.json.encode(rows).decode()])


def _set_aside(poisons: Sequence[Poison], now: datetime) -> None:
    PoisonRecord.objects.bulk_create(
        [
            PoisonRecord(
                digest=sha256(poison.raw).hexdigest(),
                stream_id=poison.stream_id,
                raw=poison.raw,
                error=poison.error,
                at=now,
            )
            for poison in poisons
        ],
        ignore_conflicts=True,
    )


def _advance_marks(places: Iterable[tuple[str, int]], now: datetime) -> dict[str, int]:
    """Add these places to their journals' marks and return where those now stand."""
    seqs: dict[str, list[int]] = defaultdict(list)
    for journal, seq in places:
        if journal:
            seqs[journal].append(seq)
    JournalMark.objects.bulk_create(
        [JournalMark(journal=journal, updated_at=now) for journal in sorted(seqs)],
        ignore_conflicts=True,
    )
    locked = JournalMark.objects.select_for_update().order_by("journal")
    rows = list(locked.filter(journal__in=seqs))
    for row in rows:
        ahead = tuple((first, last) for first, last in row.ahead)
        progress = advance(Progress(row.mark, ahead), seqs[row.journal])
        row.mark, row.ahead, row.updated_at = progress.mark, progress.ahead, now
    JournalMark.objects.bulk_update(rows, ["mark", "ahead", "updated_at"])
    return {row.journal: row.mark for row in rows}
