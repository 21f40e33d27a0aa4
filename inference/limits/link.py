"""This process's one line to the store for limits: many steps a round trip, and no long wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from inference.contract import wire
from inference.contract.lease_scripts import ENTER, LEASE
from inference.store import STORE_TROUBLE

WAIT_S = 0.25
"""The longest a request waits for a store that doesn't answer, once: then nobody waits."""

LOST_S = 1.5
"""After so long a connection is given up: a store that is only slow still hears that we live."""

# A loop that was held up itself for longer than this has the answer, perhaps, and not read it yet.
_LATE_S = 0.02
_READ_S = 0.05

# Errors of the whole store, for which the client has no class of their own.
_STORE_CODES = ("MISCONF", "NOREPLICAS")


class LinkDown(Exception):
    """The store is out of reach, silent or not seeded."""


class StoreChanged(Exception):
    """It is another store than before, or has lost what it knew: nothing that was asked is held."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a connection found: which life of the store this is, and since how many seconds."""

    epoch: bytes
    age_s: float


Words = tuple[str | bytes | int, ...]
"""One call of the lease script: how many keys, the keys, the arguments."""


class StoreLink:
    """One connection, used by one task at a time. A call that fails ends it.

    `late` is called when an answer takes longer than `wait_s`.
    """

    def __init__(self, client: Redis, *, wait_s: float, late: Callable[[], None]) -> None:
        self._client = client
        self._wait_s = wait_s
        self._late = late
        self._connection: Any = None
        self._sha: bytes = b""
        self._epoch: bytes = b""
        self.has_budgets = False
        """Whether the store knows what was spent before it began to count, as of the last call."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that was entered."""
        return self._connection is not None

    async def enter(self) -> Entry:
        """Connect if need be and find out which life of the store this is; raises LinkDown."""
        try:
            async with _patience(self._wait_s, self._late):
                return await self._enter()
        except (*STORE_TROUBLE, TimeoutError) as error:
            await self.aclose()
            raise LinkDown(f"{type(error).__name__}: {error}") from error
        except BaseException:
            await self.aclose()
            raise

    async def call(self, calls: Sequence[Words]) -> list[Any]:
        """Run the lease script for each, in one round trip; raises LinkDown and StoreChanged.

        What fails may have been done all the same. A call whose script failed has its ResponseError
        for an answer: the others were done.
        """
        asked = ("MGET", wire.SEEDED_AT, wire.LIMITS_EPOCH, wire.BUDGETS_SEEDED)
        commands: list[Words] = [asked]
        commands += [("EVALSHA", self._sha, *words) for words in calls]
        try:
            async with _patience(self._wait_s, self._late):
                (seeded_at, epoch, budgets), *replies = await self._answers(commands)
        except (*STORE_TROUBLE, TimeoutError) as error:
            await self.aclose()
            raise LinkDown(f"{type(error).__name__}: {error}") from error
        except BaseException:
            await self.aclose()
            raise
        if seeded_at is None:
            raise LinkDown("it is not seeded")
        if epoch != self._epoch:
            raise StoreChanged
        self.has_budgets = budgets == epoch
        return replies

    async def aclose(self) -> None:
        """End the connection; `enter` makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*STORE_TROUBLE):
                await connection.disconnect(nowait=True)

    async def _enter(self) -> Entry:
        if self._connection is None:
            pool: Any = self._client.connection_pool
            self._connection = pool.make_connection()
            await self._connection.connect()
        server, sha, told = await self._pipelined(
            [("INFO", "server"), ("SCRIPT", "LOAD", LEASE), ("GET", wire.SEEDED_AT)]
        )
        if told is None:
            raise LinkDown("it is not seeded")
        (entered,) = await self._pipelined([("EVAL", ENTER, 1, wire.LIMITS_EPOCH, _run_id(server))])
        self._sha, self._epoch = sha, entered[0]
        return Entry(entered[0], int(entered[1]) / 1000)

    async def _pipelined(self, commands: Sequence[Words]) -> list[Any]:
        replies = await self._answers(commands)
        for one in replies:
            if isinstance(one, ResponseError):
                raise one
        return replies

    async def _answers(self, commands: Sequence[Words]) -> list[Any]:
        """The answer to each, a script's error among them; raises what is wrong with the store."""
        connection = self._connection
        if connection is None:
            raise LinkDown("it is not connected")
        await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        replies: list[Any] = []
        failure: ResponseError | None = None
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
                if not _is_of_script(error):
                    failure = error
        if failure is not None:
            raise failure
        return replies


@contextlib.asynccontextmanager
async def _patience(wait_s: float, late: Callable[[], None]) -> AsyncIterator[None]:
    """Call `late` after `wait_s`, a little later if this process was late to look itself.

    Raises TimeoutError after LOST_S more.
    """
    loop = asyncio.get_running_loop()
    due_s = loop.time() + wait_s
    timer: asyncio.TimerHandle | None = None
    async with asyncio.timeout(wait_s + LOST_S):

        def look() -> None:
            nonlocal timer
            if loop.time() - due_s > _LATE_S:
                timer = loop.call_later(_READ_S, late)
            else:
                late()

        timer = loop.call_at(due_s, look)
        try:
            yield
        finally:
            timer.cancel()


def _is_of_script(error: ResponseError) -> bool:
    """Whether a script failed by itself; else nobody's would have been done."""
    told = str(error)
    is_plain = type(error) is ResponseError and not told.startswith(_STORE_CODES)
    return is_plain and "user_script" in told


def _run_id(server: bytes) -> bytes:
    for line in server.splitlines():
        name, _, value = line.partition(b":")
        if name == b"run_id":
            return value.strip()
    raise RedisError("it does not tell its run")
