"""The recorder: drains the event stream into the ledger, each event once, none lost.

It holds nothing that isn't in the stream: an entry is acknowledged and deleted after the commit, so
a death, an outage of the database or of the store, and a second recorder all only cause repeats,
which the ledger ignores. What is too bad to record is set aside and never blocks the rest.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from controlplane.bridge.ledger import FIRST_BACKOFF_S, LAST_BACKOFF_S, Entry, LedgerWriter
from controlplane.bridge.publisher import publish
from controlplane.selectors.usage_recording import get_marks
from inference.contract.wire import (
    JOURNAL_MARKS,
    LINEAGE,
    SEEDED_AT,
    USAGE_FIELD,
    USAGE_GROUP,
    USAGE_START_FIELD,
    USAGE_STREAM,
)

BATCH_ENTRIES = 2_000
# Below a full batch the next read waits this long, so that a moderate rate makes few commits.
LINGER_S = 0.1
READ_BLOCK_MS = 500
# Longer than a read may block, short enough that a store that never answers counts as down.
STORE_TIMEOUT_S = 2.0
# Entries another recorder has held this long are taken over; a batch takes a tenth of it.
STALE_MS = 10_000
CLAIM_PERIOD_S = 5.0
# A consumer without entries that hasn't asked for this long belongs to a process that is gone.
GONE_MS = 3_600_000

_NEW = ">"
_OWN_PENDING = "0"

# A mark only grows: with several recorders an older commit may be told after a newer one.
_RAISE_MARKS = """
for i = 1, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  if not held or tonumber(held) < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
"""

log = structlog.get_logger(__name__)


def connect_store(url: str) -> Redis:
    """A connection for the recorder: a time-out on every call, repeats left to the recorder."""
    return Redis.from_url(
        url,
        socket_timeout=STORE_TIMEOUT_S,
        socket_connect_timeout=STORE_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


class Recorder:
    """One consumer of the stream. `wait` sleeps up to so many seconds, less when told to stop."""

    def __init__(
        self,
        store: Redis,
        consumer: str,
        *,
        is_stopping: Callable[[], bool],
        wait: Callable[[float], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        stale_ms: int = STALE_MS,
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._is_stopping = is_stopping
        self._wait = wait
        self._stale_ms = stale_ms
        self._ledger = LedgerWriter(is_stopping, wait, now)
        self._may_hold_entries = True
        self._is_joined = False
        self._claim_at = 0.0
        self._identity: tuple[object, ...] | None = None

    def run(self) -> None:
        """Record until told to stop; the batch in hand is finished first."""
        backoff_s = FIRST_BACKOFF_S
        while not self._is_stopping():
            try:
                self.step()
            except (RedisError, OSError) as error:
                log.warning("state store unavailable, waiting", error=type(error).__name__)
                self._is_joined = False
                self._wait(backoff_s)
                backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)
            else:
                backoff_s = FIRST_BACKOFF_S
        self._leave()

    def step(self) -> int:
        """Record what is there, at most one batch, and return the number of its entries.

        Waits up to READ_BLOCK_MS for the first. Raises RedisError when the store fails; what was
        committed by then comes again and is ignored.
        """
        started = time.monotonic()
        is_claim_due = started >= self._claim_at
        if not self._is_joined or (is_claim_due and self._identify() != self._identity):
            self._join()
        entries = self._next_entries(is_claim_due=is_claim_due)
        if not entries:
            return 0
        recorded = self._ledger.write(entries)
        if recorded is None:
            return 0
        self._acknowledge(entries, recorded.marks)
        log.debug("batch recorded", entries=len(entries), requests=recorded.requests)
        if len(entries) < BATCH_ENTRIES:
            self._wait(started + LINGER_S - time.monotonic())
        return len(entries)

    def _join(self) -> None:
        """Make the group if it is gone, tell a store that may have lost them marks and manifest.

        Begins with what we still hold from before.
        """
        try:
            self._store.xgroup_create(USAGE_STREAM, USAGE_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        marks = self._ledger.persist(get_marks)
        if marks:
            self._store.eval(_RAISE_MARKS, 1, JOURNAL_MARKS, *_flat(marks))
        self._ledger.persist(publish)
        self._identity = self._identify()
        self._may_hold_entries = True
        self._claim_at = 0.0
        self._is_joined = True

    def _identify(self) -> tuple[object, ...]:
        """Which store this is; it changes with a restart, an older copy and a new seeding."""
        told: Any = self._store.info("server")
        return told["run_id"], *self._store.mget(LINEAGE, SEEDED_AT)

    def _next_entries(self, *, is_claim_due: bool) -> list[Entry]:
        """What the dead left, else what we still hold from before a failure, else what is new."""
        claimed = self._claim_stale() if is_claim_due else []
        if claimed:
            return claimed
        if self._may_hold_entries:
            held = self._read(_OWN_PENDING)
            if held:
                return held
            self._may_hold_entries = False
        return self._read(_NEW)

    def _read(self, after: str) -> list[Entry]:
        reply: Any = self._store.xreadgroup(
            USAGE_GROUP,
            self._consumer,
            {USAGE_STREAM: after},
            count=BATCH_ENTRIES,
            block=READ_BLOCK_MS,
        )
        return _entries(reply[0][1]) if reply else []

    def _claim_stale(self) -> list[Entry]:
        """Take over a batch of the entries whose recorder seems dead."""
        reply: Any = self._store.xautoclaim(
            USAGE_STREAM, USAGE_GROUP, self._consumer, self._stale_ms, "0-0", count=BATCH_ENTRIES
        )
        entries = _entries(reply[1])
        if entries:
            log.info("stale entries taken over", entries=len(entries))
        if len(entries) < BATCH_ENTRIES:
            self._claim_at = time.monotonic() + CLAIM_PERIOD_S
            self._forget_the_gone()
        return entries

    def _forget_the_gone(self) -> None:
        consumers: Any = self._store.xinfo_consumers(USAGE_STREAM, USAGE_GROUP)
        for consumer in consumers:
            if consumer["pending"] == 0 and consumer["idle"] > GONE_MS:
                self._store.xgroup_delconsumer(USAGE_STREAM, USAGE_GROUP, consumer["name"])

    def _acknowledge(self, entries: Sequence[Entry], marks: Mapping[str, int]) -> None:
        ids = [entry.id for entry in entries]
        with self._store.pipeline(transaction=True) as pipe:
            pipe.xack(USAGE_STREAM, USAGE_GROUP, *ids)
            pipe.xdel(USAGE_STREAM, *ids)
            if marks:
                pipe.eval(_RAISE_MARKS, 1, JOURNAL_MARKS, *_flat(marks))
            pipe.execute()

    def _leave(self) -> None:
        """Take our name off the group; a name that still holds entries stays, for others to see."""
        try:
            consumers: Any = self._store.xinfo_consumers(USAGE_STREAM, USAGE_GROUP)
            ours = [one for one in consumers if one["name"] == self._consumer.encode()]
            if ours and ours[0]["pending"] == 0:
                self._store.xgroup_delconsumer(USAGE_STREAM, USAGE_GROUP, self._consumer)
        except RedisError as error:
            log.info("left without saying so", error=type(error).__name__)


def _entries(items: Sequence[tuple[bytes, Mapping[bytes, bytes] | None]]) -> list[Entry]:
    end, start = USAGE_FIELD.encode(), USAGE_START_FIELD.encode()
    return [
        Entry(key.decode(), fields.get(end, b""), fields.get(start))
        if fields
        else Entry(key.decode(), None)
        for key, fields in items
    ]


def _flat(marks: Mapping[str, int]) -> list[str | int]:
    return [part for item in sorted(marks.items()) for part in item]
