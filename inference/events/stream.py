"""The event stream in the state store, from the side that fills it."""

from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from inference.contract import wire

STREAM_ENTRIES = 100_000
"""Where feeding stops. An entry takes one to two kilobytes, so this is some 150 MB of a store that
refuses writes when it is full; what is above it waits in the journals, on disk."""

# One call for many ends, and one argument of all of them, a line each: the client takes longer for
# an argument than the loop does for a request's whole journal.
_APPEND = """
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
for value in string.gmatch(ARGV[3], '[^\\n]+') do
    redis.call('XADD', KEYS[1], '*', ARGV[2], value)
end
return 1
"""


@dataclass(frozen=True, slots=True)
class StreamState:
    """Which store this is, and up to where the ledger has a journal.

    `identity` changes when the store was restarted, replaced, emptied or seeded anew: it may have
    lost entries then. None means that it isn't seeded, which counts as down.
    """

    identity: tuple[bytes, bytes, bytes] | None
    mark: int


class UsageStream:
    """Appends ends to the stream, up to a bound. Its methods raise `STORE_TROUBLE`."""

    def __init__(self, client: Redis, *, max_entries: int = STREAM_ENTRIES) -> None:
        self._client = client
        self._max_entries = max_entries
        self._append = client.register_script(_APPEND)

    async def state(self, journal_id: str) -> StreamState:
        """Ask which store this is, and for one journal's mark."""
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.info("server")
            pipe.get(wire.LINEAGE)
            pipe.get(wire.SEEDED_AT)
            pipe.hget(wire.JOURNAL_MARKS, journal_id)
            server, lineage, seeded_at, mark = await pipe.execute()
        is_seeded = lineage is not None and seeded_at is not None
        run_id = str(server["run_id"]).encode()
        recorded = int(mark) if mark is not None and mark.isdigit() else 0
        return StreamState((run_id, lineage, seeded_at) if is_seeded else None, recorded)

    async def append(self, ends: Sequence[bytes]) -> bool:
        """Append encoded ends in order, all or none; False if the stream is full.

        Each is one line, as it is in a journal.
        """
        return await self._add(wire.USAGE_FIELD, b"\n".join(ends))

    async def append_start(self, journal_id: str, seq: int) -> bool:
        """Say that a journal no longer has its ends up to `seq`; False if the stream is full."""
        return await self._add(wire.USAGE_START_FIELD, f"{journal_id} {seq}")

    async def _add(self, field: str, lines: bytes | str) -> bool:
        arguments: list[bytes | str | int] = [self._max_entries, field, lines]
        return bool(await self._append(keys=[wire.USAGE_STREAM], args=arguments))
