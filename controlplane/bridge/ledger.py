"""The recorder's hold on the ledger: what can be recorded is, whatever else is in the batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TypeVar

import structlog
from django.db import (
    DataError,
    Error,
    IntegrityError,
    close_old_connections,
    connection,
)

from controlplane.decisions.ledger import day_of, place_of, read_fact, stored_text, time_of
from controlplane.services.requests import ensure_partitions
from controlplane.services.usage import Poison, Recorded, record_usage
from inference.contract.codec import CodecError
from inference.contract.events import End, Feedback

FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 5.0
DAYS_AHEAD = 7
# A day further back has its partition already or never will: its rows go to the default one.
DAYS_BACK = 31

# The most a mark's column takes.
LAST_SEQ = 2**63 - 1

_CONTENT_STATES = ("22", "23", "54")

log = structlog.get_logger(__name__)

T = TypeVar("T")


class ContentRefused(Exception):
    """The database will never take this batch, whatever its state."""


# What one event's content can cause; anything else is the database's absence, and is waited out.
_CONTENT_ERRORS = (ContentRefused, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the stream. `data` is None when it was deleted since it was delivered.

    `start` is there instead of an end when a journal is fed again from after its first ends.
    """

    id: str
    data: bytes | None
    start: bytes | None = None


@dataclass(frozen=True, slots=True)
class LedgerWriter:
    """Writes batches. `wait` sleeps up to so many seconds, less when told to stop."""

    is_stopping: Callable[[], bool]
    wait: Callable[[float], None]
    now: Callable[[], datetime]
    _known_days: set[date] = field(default_factory=set)

    def write(self, entries: Sequence[Entry]) -> Recorded | None:
        """Commit a batch, waiting out the database's absence; None when told to stop meanwhile."""
        batch = _decode(entries)
        self._prepare_days(batch.ends)
        try:
            return self.persist(lambda: self._record(batch))
        except _CONTENT_ERRORS as error:
            log.warning("batch refused, recording one by one", error=type(error).__name__)
        return self._write_each(entries)

    def _write_each(self, entries: Iterable[Entry]) -> Recorded | None:
        requests = 0
        marks: dict[str, int] = {}
        for entry in entries:
            recorded = self._write_one(entry)
            if recorded is None:
                return None
            requests += recorded.requests
            marks |= recorded.marks
        return Recorded(requests, marks)

    def _write_one(self, entry: Entry) -> Recorded | None:
        batch = _decode([entry])
        try:
            return self.persist(lambda: self._record(batch))
        except _CONTENT_ERRORS as error:
            poison = _poison(entry.id, entry.data or b"", error)
        return self.persist(lambda: record_usage((), [poison], now=self.now()))

    def _record(self, batch: "_Batch") -> Recorded:
        return record_usage(
            batch.ends, batch.poisons, batch.starts, said=batch.said, now=self.now()
        )

    def persist(self, work: Callable[[], T]) -> T | None:
        """Do it, again and again until the database is there; None when told to stop meanwhile.

        Raises what the content causes, which no repetition would mend.
        """
        backoff_s = FIRST_BACKOFF_S
        while True:
            close_old_connections()
            try:
                return work()
            except Error as error:
                if _is_about_content(error):
                    raise ContentRefused(str(error)) from error
                log.warning("database unavailable, waiting", error=type(error).__name__)
                connection.close()
            self.wait(backoff_s)
            backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)
            if self.is_stopping():
                return None

    def _prepare_days(self, ends: Iterable[End]) -> None:
        """See that the days have partitions; without one, rows go to the default partition."""
        today = self.now().date()
        ahead = [today + timedelta(days=days) for days in range(DAYS_AHEAD + 1)]
        oldest, newest = today - timedelta(days=DAYS_BACK), ahead[-1]
        met = {day for day in map(day_of, ends) if oldest <= day <= newest}
        missing = {*ahead, *met} - self._known_days
        if not missing:
            return
        try:
            ensure_partitions(missing)
        except Error as error:
            log.warning("partitions not made, trying again later", error=type(error).__name__)
            connection.close()
        else:
            self._known_days.update(missing)


def _is_about_content(error: Error) -> bool:
    """Whether no repetition would help: bad data, a broken constraint, a limit exceeded."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return state.startswith(_CONTENT_STATES) or (
        not state and isinstance(error, (DataError, IntegrityError))
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """What some entries say."""

    starts: Mapping[str, int]
    ends: list[End] = field(default_factory=list)
    said: list[Feedback] = field(default_factory=list)
    poisons: list[Poison] = field(default_factory=list)


def _decode(entries: Sequence[Entry]) -> _Batch:
    batch = _Batch(_starts_of(entries))
    for entry in entries:
        if entry.data is None or entry.start is not None:
            continue
        try:
            fact = read_fact(entry.data)
            if isinstance(fact, Feedback):
                time_of(fact.at_ms)
                batch.said.append(fact)
            else:
                day_of(fact)
                batch.ends.append(fact)
        except (CodecError, OverflowError) as error:
            batch.poisons.append(_poison(entry.id, entry.data, error))
    return batch


def _starts_of(entries: Iterable[Entry]) -> dict[str, int]:
    """Where journals begin that are fed again; what can't be read says nothing, and is logged."""
    starts: dict[str, int] = {}
    for entry in entries:
        if entry.start is None:
            continue
        journal, _, seq = entry.start.decode(errors="replace").replace("\0", "").partition(" ")
        if journal and seq.isdecimal() and int(seq) <= LAST_SEQ:
            starts[journal] = max(starts.get(journal, 0), int(seq))
        else:
            log.error("start of a journal unreadable", stream_id=entry.id)
    return starts


def _poison(stream_id: str, data: bytes, error: Exception) -> Poison:
    text = stored_text(f"{type(error).__name__}: {error}").replace("\0", "")
    log.error("event set aside", stream_id=stream_id, error=type(error).__name__)
    return Poison(stream_id, data, text, place_of(data))
