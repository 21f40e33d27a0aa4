"""One journal's way into the stream: in order, repeated rather than lost, deleted when recorded."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import structlog

from inference.events.reader import JournalReader, StoredEnds, seq_before
from inference.events.stream import UsageStream
from inference.journal import Journal, segments_of

log = structlog.get_logger(__name__)


class StoreUnseeded(Exception):
    """The store answers but was not seeded yet, so nothing may be trusted to it."""


class JournalFault(Exception):
    """The journal's own disk fails."""


class JournalFeed:
    """Feeds one journal. The recorder ignores repeats, so whatever is in doubt is fed again."""

    def __init__(self, journal: Journal, stream: UsageStream) -> None:
        self._journal = journal
        self._stream = stream
        self._reader = JournalReader(journal.folder)
        self._identity: tuple[bytes, bytes, bytes] | None = None
        self._held: StoredEnds | None = None
        self._untold_start = 0

    async def step(self) -> bool:
        """Feed what there is and delete what is recorded; True once all of it is recorded.

        Stops early while the stream is full. Raises STORE_TROUBLE, StoreUnseeded and JournalFault.
        """
        state = await self._stream.state(self._journal.journal_id)
        if state.identity is None:
            raise StoreUnseeded
        if state.identity != self._identity:
            with _disk():
                self._begin_again(state.identity)
        self._delete_recorded(state.mark)
        await self._feed(state.mark)
        return state.mark >= self._journal.seq

    def close(self) -> None:
        """Give the open file back."""
        self._reader.close()

    def _begin_again(self, identity: tuple[bytes, bytes, bytes]) -> None:
        """Go back to the oldest kept end: another store, or an emptied one, has none of them.

        And say where that is: another ledger may be waiting for what is here no longer.
        """
        if self._identity is not None:
            log.info("events fed again", journal=self._journal.journal_id)
        self._identity = identity
        self._reader.rewind()
        self._held = None
        self._journal.fed_seq = 0
        oldest = next(iter(segments_of(self._journal.folder)), None)
        self._untold_start = (seq_before(oldest) or 0) if oldest is not None else 0

    async def _feed(self, mark: int) -> None:
        start = self._untold_start
        if start and not await self._stream.append_start(self._journal.journal_id, start):
            return
        self._untold_start = 0
        while held := self._held or self._read():
            ends = held.after(mark)
            if ends and not await self._stream.append(ends):
                return
            self._journal.fed_seq = held.last_seq
            self._held = None
            await asyncio.sleep(0)

    def _read(self) -> StoredEnds | None:
        with _disk():
            self._held = self._reader.read()
        return self._held

    def _delete_recorded(self, mark: int) -> None:
        """Delete segments whose ends are all in the ledger, oldest first, never the newest."""
        with _disk():
            segments = segments_of(self._journal.folder)
            for segment, following in pairwise(segments):
                before = seq_before(following)
                if before is None or before > mark:
                    return
                segment.unlink()


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalFault(repr(error)) from error
