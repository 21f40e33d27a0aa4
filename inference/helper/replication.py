"""Entries as a stream in the cache store, so that hosts share them and a restart loses none.

What one helper remembers is sealed and added; all read it, from its beginning when they start. Both
are done once a second, in pages, so the store may be slow or away: then a host has what it has.
Entries are known by their keys, so reading one twice changes nothing.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import structlog
from redis.asyncio import Redis

from inference.contract.sealing import Box, SealError
from inference.contract.wire import SEMANTIC_FIELD, SEMANTIC_STREAM
from inference.helper.embedder import WIDTH, Vector
from inference.helper.messages import SemanticEntry
from inference.store import STORE_TROUBLE, StoreHealth

ENTRIES_MAX = 20_000
"""So many the stream keeps, 25 MB: its store is the answers' above all."""

STREAM_LIFE_MS = 30 * 86_400 * 1000
"""No answer lives longer, so nobody needs what wasn't added to for so long."""

WAITING_MAX = 2048
"""New entries that wait for the store; the oldest go first, and are then known on one host only."""

PERIOD_S = 1.0
_PAGE = 100
_ABOUT = SEMANTIC_STREAM.encode()
_BEGINNING = "0-0"

log = structlog.get_logger(__name__)


class _Told(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One entry, or only the key of one that is gone. `model` made the vector, as 16-bit floats."""

    origin: bytes
    key: bytes
    model: str = ""
    partition: bytes = b""
    text: str = ""
    expires_at: float = 0.0
    vector: bytes = b""


_decoder = msgspec.msgpack.Decoder(_Told)


class Replication:
    """Tells of entries and hears of others'. `take` and `remove` are called on the loop."""

    def __init__(
        self,
        client: Redis,
        *,
        data_key: bytes,
        model: str,
        take: Callable[[SemanticEntry, Vector], None],
        remove: Callable[[bytes], None],
        period_s: float = PERIOD_S,
    ) -> None:
        self.dropped = 0
        self.strange = 0
        """Entries that couldn't be opened, or are of another model."""
        self.last_id = _BEGINNING
        self._client = client
        self._box = Box(data_key, "semantic-entries")
        self._model = model
        self._take = take
        self._remove = remove
        self._period_s = period_s
        self._origin = os.urandom(8)
        self._waiting: deque[_Told] = deque()
        self._health = StoreHealth("semantic entries")

    def tell(self, entry: SemanticEntry, vector: Vector) -> None:
        """Have an entry told to other hosts, and to the next helper here."""
        rounded = np.asarray(vector, dtype="<f2").tobytes()
        self._add(
            _Told(
                *(self._origin, entry.key, self._model, entry.partition, entry.text),
                *(entry.expires_at, rounded),
            )
        )

    def tell_gone(self, key: bytes) -> None:
        """Have others know that an entry is to be found no more."""
        self._add(_Told(self._origin, key))

    def _add(self, told: _Told) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(told)

    async def run(self) -> None:
        """Say and hear until cancelled, through outages of the store."""
        while True:
            try:
                await self.say()
                await self.hear()
            except STORE_TROUBLE as error:
                self._health.failed(error)
            else:
                self._health.succeeded()
            await asyncio.sleep(self._period_s)

    async def say(self) -> None:
        """Add what waits. What a call that fails had is said again: it may be there twice then."""
        while self._waiting:
            page = [self._waiting[at] for at in range(min(_PAGE, len(self._waiting)))]
            async with self._client.pipeline(transaction=False) as pipe:
                for told in page:
                    sealed = self._box.seal(msgspec.msgpack.encode(told), _ABOUT)
                    fields: Any = {SEMANTIC_FIELD: sealed}
                    pipe.xadd(SEMANTIC_STREAM, fields, maxlen=ENTRIES_MAX, approximate=True)
                pipe.pexpire(SEMANTIC_STREAM, STREAM_LIFE_MS)
                await pipe.execute()
            # what came meanwhile may have pushed out some of them
            said = {id(one) for one in page}
            self._waiting = deque(one for one in self._waiting if id(one) not in said)

    async def hear(self) -> None:
        """Take what was added since, or all if this is another stream than it was."""
        if await self._is_another():
            self.last_id = _BEGINNING
        while page := await self._read():
            for id_, fields in page:
                self._apply(fields)
                self.last_id = id_.decode()
                await asyncio.sleep(0)  # questions come first

    async def _read(self) -> Sequence[tuple[bytes, dict[bytes, bytes]]]:
        answer: Any = await self._client.xread({SEMANTIC_STREAM: self.last_id}, count=_PAGE)
        return answer[0][1] if answer else ()

    async def _is_another(self) -> bool:
        """Whether the stream's end lies before what was read: it was emptied under a clock that
        went back, or its store was put back."""
        newest: Any = await self._client.xrevrange(SEMANTIC_STREAM, count=1)
        return bool(newest) and _place(newest[0][0].decode()) < _place(self.last_id)

    def _apply(self, fields: dict[bytes, bytes]) -> None:
        try:
            sealed = fields.get(SEMANTIC_FIELD.encode(), b"")
            told = _decoder.decode(self._box.open(sealed, _ABOUT))
        except (SealError, msgspec.DecodeError):
            self.strange += 1
            return
        if told.origin == self._origin:
            return
        if not told.vector:
            self._remove(told.key)
        elif told.model != self._model or len(told.vector) != 2 * WIDTH:
            self.strange += 1
        else:
            vector = np.frombuffer(told.vector, dtype="<f2").astype(np.float32)
            entry = SemanticEntry(told.partition, told.text, told.key, told.expires_at)
            self._take(entry, vector)


def _place(id_: str) -> tuple[int, int]:
    milliseconds, _, number = id_.partition("-")
    return int(milliseconds), int(number or 0)
