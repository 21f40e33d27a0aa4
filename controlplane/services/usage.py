"""The one writer of usage: ends of requests in, rows, roll-ups and journal marks out, at once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Min

from controlplane.decisions.budget_effects import effects_of
from controlplane.decisions.cache_rollups import roll_up_caches
from controlplane.decisions.journals import (
    Progress,
    advance,
    count_missing,
    is_committed,
    skip_to,
)
from controlplane.decisions.ledger import ids_in
from controlplane.decisions.rollups import (
    DayKey,
    HourKey,
    MinuteKey,
    NamedKey,
    PricedKey,
    PricedSums,
    RollUps,
    RuleKey,
    Sums,
    cap_named,
    roll_up,
)
from controlplane.models.usage import (
    JournalMark,
    PoisonRecord,
    RuleMinute,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageNamed,
    UsagePriced,
)
from controlplane.selectors.usage_recording import get_names, get_zones, list_refused
from controlplane.services.budget_accounts import add_spending, hold_counting, sum_spending
from controlplane.services.budget_effects import add_effects
from controlplane.services.cache_usage import add_cache_use
from controlplane.services.requests import insert_requests
from controlplane.services.upserts import add_up
from inference.contract.events import End

NO_STARTS: Mapping[str, int] = {}

log = structlog.get_logger(__name__)

_SUMS = tuple(one.name for one in fields(Sums))
_PRICED_SUMS = tuple(one.name for one in fields(PricedSums))
_figures = attrgetter(*_SUMS)

RULES_KEPT = timedelta(days=7)
"""What rules took is shown for a day; so long it can be looked up after a week-end."""

_DELETE_BATCH = timedelta(hours=6)

_MOVED = ("mark", "ahead", "missing", "recorded", "set_aside", "skipped", "updated_at")


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


def record_usage(
    ends: Sequence[End],
    poisons: Sequence[Poison] = (),
    starts: Mapping[str, int] = NO_STARTS,
    *,
    now: datetime,
) -> Recorded:
    """Record a batch in one transaction; what is in the ledger already changes nothing.

    `starts` are journals that have let go of their ends up to a number: no mark waits for those.
    Every writer takes locks in one order: requests, minutes, rules, hours, days, names, versions,
    budgets' accounts, their effects, caches, marks, each by key. All is summed before the first
    roll-up is written: two recorders add to the same rows, and each waits from there on for the
    other's commit.
    Raises what the database raises; then nothing of the batch is recorded.
    """
    with transaction.atomic():
        hold_counting()
        names = get_names(ids_in(ends))
        new = insert_requests(ends, names, now=now)
        zones = get_zones({end.origin.organisation_id for end in new})
        increments, caches = roll_up(new, zones), roll_up_caches(new, zones)
        spendings, effects = sum_spending(new), effects_of(new)
        add_increments(increments, {**names, **_route_names(new)})
        add_spending(spendings, now=now)
        add_effects(effects)
        add_cache_use(caches)
        _set_aside(poisons, now)
        marks = _advance_marks(_told_of(ends, new, poisons), starts, now)
    return Recorded(requests=len(new), marks=marks)


@dataclass(slots=True)
class _Told:
    """What a batch has of one journal: all ends, and those of them that were new or set aside."""

    seqs: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    set_aside: list[int] = field(default_factory=list)


def _told_of(
    ends: Iterable[End], new: Iterable[End], poisons: Iterable[Poison]
) -> dict[str, _Told]:
    told: dict[str, _Told] = defaultdict(_Told)
    for end in ends:
        told[end.journal].seqs.append(end.seq)
    for end in new:
        told[end.journal].new.append(end.seq)
    for journal, seq in (poison.place for poison in poisons if poison.place):
        told[journal].seqs.append(seq)
        told[journal].set_aside.append(seq)
    return told


def _move(row: JournalMark, told: _Told, start: int) -> None:
    """Take in what was recorded; what the journal let go of stays missing, if it ever was here."""
    before, seqs = progress_of(row), told.seqs
    row.recorded += len(told.new)
    row.set_aside += sum(not is_committed(before, seq) for seq in set(told.set_aside))
    # what the journal had let go of may be fed all the same, by another copy
    row.skipped -= sum(is_committed(before, seq) for seq in told.new)
    if start > before.mark:
        log.warning("journal begins after its mark", journal=row.journal, start=start)
    after = advance(before, seqs)
    row.missing -= count_missing(before, row.reached) - count_missing(after, row.reached)
    row.skipped += count_missing(after, start)
    moved = skip_to(after, start)
    row.mark, row.ahead = moved.mark, moved.ahead


def progress_of(row: JournalMark) -> Progress:
    """How far a journal is in the ledger."""
    return Progress(row.mark, tuple((first, last) for first, last in row.ahead))


def expect_marks(reached: Mapping[str, int], now: datetime) -> int:
    """Note how far the ledger before this one had each journal; returns the ends this one lacks.

    For a database that was put back to an older copy. Repeating it changes nothing.
    """
    with transaction.atomic():
        JournalMark.objects.bulk_create(
            [JournalMark(journal=journal, updated_at=now) for journal in sorted(reached)],
            ignore_conflicts=True,
        )
        rows = list(JournalMark.objects.select_for_update().order_by("journal"))
        for row in rows:
            further = max(row.reached, reached.get(row.journal, 0))
            progress = progress_of(row)
            row.missing += count_missing(progress, further) - count_missing(progress, row.reached)
            row.reached = further
        JournalMark.objects.bulk_update(rows, ["reached", "missing"])
    return sum(row.missing for row in rows)


def forget_marks(*, before: datetime) -> int:
    """Remove the marks that last moved before then and have no gap; returns how many."""
    removed, _ = JournalMark.objects.filter(updated_at__lt=before, ahead=[]).delete()
    return removed


def forget_rules(now: datetime) -> int:
    """Remove what rules took longer ago than it is kept, a stretch at a time; returns how many."""
    before, removed = now - RULES_KEPT, 0
    while oldest := RuleMinute.objects.filter(minute__lt=before).aggregate(at=Min("minute"))["at"]:
        until = min(before, oldest + _DELETE_BATCH)
        removed += RuleMinute.objects.filter(minute__lt=until).delete()[0]
    return removed


def add_increments(increments: RollUps, labels: Mapping[str, str]) -> None:
    """Add to every roll-up, in the order in which all writers do; inside a transaction."""
    minutes = _rows(MinuteKey, increments.minutes)
    add_up(UsageMinute, MinuteKey._fields, minutes, sums=_SUMS)
    rules = [key._asdict() | {"requests": count} for key, count in increments.rules]
    add_up(RuleMinute, RuleKey._fields, rules, sums=("requests",))
    add_up(UsageHour, HourKey._fields, _rows(HourKey, increments.hours), sums=_SUMS)
    days = _rows(DayKey, increments.days)
    for row, (key, _) in zip(days, increments.days, strict=True):
        row["label"] = labels.get(key.value, "")
    add_up(UsageDay, DayKey._fields, days, sums=_SUMS, label=True)
    if increments.named:
        refused = list_refused([key for key, _ in increments.named])
        capped = _rows(NamedKey, cap_named(increments.named, refused))
        add_up(UsageNamed, NamedKey._fields, capped, sums=_SUMS)
    priced = [key._asdict() | asdict(sums) for key, sums in increments.priced]
    add_up(UsagePriced, PricedKey._fields, priced, sums=_PRICED_SUMS)


def _rows(kind: type[Any], sums: Iterable[tuple[Any, Sums]]) -> list[dict[str, object]]:
    columns = (*kind._fields, *_SUMS)
    return [dict(zip(columns, (*key, *_figures(one)), strict=True)) for key, one in sums]


def _route_names(ends: Iterable[End]) -> dict[str, str]:
    return {
        end.origin.route_id: end.origin.route_name or ""
        for end in ends
        if end.origin.route_id is not None
    }


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


def _advance_marks(
    told: Mapping[str, _Told], starts: Mapping[str, int], now: datetime
) -> dict[str, int]:
    """Add these places to their journals' marks and return where those now stand."""
    seqs = {journal: told.get(journal) or _Told() for journal in {*told, *starts} if journal}
    JournalMark.objects.bulk_create(
        [JournalMark(journal=journal, updated_at=now) for journal in sorted(seqs)],
        ignore_conflicts=True,
    )
    locked = JournalMark.objects.select_for_update().order_by("journal")
    rows = list(locked.filter(journal__in=seqs))
    for row in rows:
        _move(row, seqs[row.journal], starts.get(row.journal, 0))
        row.updated_at = now
    JournalMark.objects.bulk_update(rows, _MOVED)
    return {row.journal: row.mark for row in rows}
