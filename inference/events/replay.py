"""Journals of dead processes: their open requests are closed as lost, then all is fed and deleted.

Any process of the host may do it; a journal's lock makes it one at a time.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from redis.asyncio import Redis

from inference.contract.events import Charge, End, Opening, Usage
from inference.contract.kinds import ChargeKind, Outcome
from inference.events.feed import JournalFault, JournalFeed, StoreUnseeded
from inference.events.reader import read_remains
from inference.events.stream import STREAM_ENTRIES, UsageStream
from inference.journal import Journal, JournalTaken, JournalUnavailable
from inference.store import STORE_TROUBLE, StoreHealth

SCAN_PERIOD_S = 60.0
"""How long a dead process's requests stay open when no other starts meanwhile."""

STEP_PERIOD_S = 1.0

log = structlog.get_logger(__name__)


def lost_end(openings: Sequence[Opening]) -> End:
    """The end of a request whose gateway died, from the openings of its attempts.

    Each attempt may have cost nothing, or all it was allowed. When it ended nobody knows, so its
    time is the opening's and its duration 0.
    """
    first = openings[0]
    return End(
        event_id=first.event_id,
        at_ms=first.at_ms,
        received_at_ms=first.at_ms,
        origin=first.origin,
        outcome=Outcome.LOST_GATEWAY,
        http_status=0,
        charges=tuple(_lost_charge(opening) for opening in openings),
        total_ms=0.0,
        output_tokens_max=first.output_tokens_max,
        client_request_id=first.client_request_id,
        exposures=first.exposures,
    )


def _lost_charge(opening: Opening) -> Charge:
    return Charge(
        attempt=opening.attempt,
        target_id=opening.target_id,
        pool_id=opening.pool_id,
        model_id=opening.model_id,
        worker_id=opening.worker_id,
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        started_at_ms=opening.at_ms,
        duration_ms=0.0,
        price=opening.price,
        cost_nanousd=None if opening.cost_max_nanousd is None else 0,
        cost_max_nanousd=opening.cost_max_nanousd,
    )


@dataclass(frozen=True, slots=True)
class _Adopted:
    journal: Journal
    feed: JournalFeed

    def release(self) -> None:
        self.feed.close()
        self.journal.release()


class Replay:
    """Adopts abandoned journals below `root`, now and every minute, until they are recorded."""

    def __init__(
        self,
        root: Path,
        client: Redis,
        *,
        max_entries: int = STREAM_ENTRIES,
        scan_period_s: float = SCAN_PERIOD_S,
        step_period_s: float = STEP_PERIOD_S,
    ) -> None:
        self._root = root
        self._stream = UsageStream(client, max_entries=max_entries)
        self._scan_period_s = scan_period_s
        self._step_period_s = step_period_s
        self._health = StoreHealth("usage replay")
        self._adopted: list[_Adopted] = []

    async def run(self) -> None:
        """Adopt and feed until cancelled; then let go of what is not recorded yet."""
        loop = asyncio.get_running_loop()
        scan_at = loop.time()
        try:
            while True:
                if loop.time() >= scan_at:
                    await self.adopt()
                    scan_at = loop.time() + self._scan_period_s
                await self.step()
                pause_s = self._step_period_s if self._adopted else self._scan_period_s
                await asyncio.sleep(min(pause_s, max(0.0, scan_at - loop.time())))
        finally:
            for adopted in self._adopted:
                adopted.release()

    async def adopt(self) -> None:
        """Take over every journal whose owner is gone, and close its open requests."""
        for folder in sorted(self._root.glob("jnl_*")):
            try:
                journal = Journal.adopt(folder)
            except JournalTaken:
                continue
            except OSError as error:
                log.error("journal not adopted", journal=folder.name, error=repr(error))
                continue
            await self._take_over(journal)

    async def step(self) -> None:
        """Feed what was adopted, and delete the journals that are in the ledger."""
        try:
            for adopted in tuple(self._adopted):
                if adopted.journal.seq == 0 or await adopted.feed.step():
                    self._remove(adopted)
        except JournalFault as fault:
            log.error("journal cannot be read or removed", error=str(fault))
        except (*STORE_TROUBLE, StoreUnseeded) as error:
            self._health.failed(error)
        else:
            self._health.succeeded()

    async def _take_over(self, journal: Journal) -> None:
        is_whole = False
        try:
            await _close_open_requests(journal)
            is_whole = True
        except (OSError, JournalUnavailable) as error:
            log.error("journal not adopted", journal=journal.journal_id, error=repr(error))
        finally:
            if not is_whole:
                journal.release()
        if is_whole:
            self._adopted.append(_Adopted(journal, JournalFeed(journal, self._stream)))

    def _remove(self, adopted: _Adopted) -> None:
        adopted.feed.close()
        self._adopted.remove(adopted)
        try:
            adopted.journal.remove()
        except OSError as error:
            adopted.journal.release()
            raise JournalFault(repr(error)) from error
        log.info("journal recorded and removed", journal=adopted.journal.journal_id)


async def _close_open_requests(journal: Journal) -> None:
    remains = await asyncio.to_thread(read_remains, journal.folder)
    journal.seq = remains.seq
    await asyncio.gather(*(journal.close(lost_end(openings)) for openings in remains.unended))
    log.info(
        "journal adopted",
        journal=journal.journal_id,
        ends=remains.seq,
        lost_requests=len(remains.unended),
    )
