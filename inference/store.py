"""Clients of the stores that never keep a caller waiting, and what outlives its outages."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

# A store that answers at all answers in a millisecond; one that accepts and stays silent must not
# hold up whoever asked. Our own loops try again, so the client doesn't.
CALL_TIMEOUT_S = 0.5
CONNECT_TIMEOUT_S = 0.5

STORE_TROUBLE = (RedisError, OSError)
"""What a call to a store that is down, silent or ailing raises."""

log = structlog.get_logger(__name__)


class _Cancellable(AbstractConnection):
    """A connection on which a cancellation is never lost.

    The client sends through `asyncio.wait_for`, and Python 3.11's swallows a cancellation that
    comes in the moment it is done: most of those that hit a busy loop, which then never ends.
    """

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        await super().send_packed_command(command, check_health)
        if task and task.cancelling() > before:
            await self.disconnect(nowait=True)
            raise asyncio.CancelledError


class _UnixConnection(_Cancellable, UnixDomainSocketConnection):
    pass


class _TcpConnection(_Cancellable, Connection):
    pass


class _TlsConnection(_Cancellable, SSLConnection):
    pass


_CONNECTIONS: Mapping[type[AbstractConnection], type[AbstractConnection]] = {
    UnixDomainSocketConnection: _UnixConnection,
    Connection: _TcpConnection,
    SSLConnection: _TlsConnection,
}


def connect_store(
    url: str, *, call_s: float = CALL_TIMEOUT_S, connect_s: float = CONNECT_TIMEOUT_S
) -> Redis:
    """Make a client of a `unix://`, `redis://` or `rediss://` store; it connects when it is used.

    Every call ends within a second or so and is tried once; failures are `STORE_TROUBLE`. Replies
    are bytes. Whoever makes it closes it with `aclose()`.
    """
    pool = ConnectionPool.from_url(
        url,
        socket_timeout=call_s,
        socket_connect_timeout=connect_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    pool.connection_class = _CONNECTIONS[pool.connection_class]
    return Redis.from_pool(pool)


class StoreHealth:
    """Logs that the store went and that it came back, once each, for one user of it."""

    def __init__(self, user: str) -> None:
        self._user = user
        self.is_up = True

    def failed(self, error: Exception) -> None:
        """Note that a call failed."""
        if self.is_up:
            self.is_up = False
            reason = f"{type(error).__name__}: {error}"
            log.warning("state store unavailable", user=self._user, error=reason)

    def succeeded(self) -> None:
        """Note that a call was answered."""
        if not self.is_up:
            self.is_up = True
            log.info("state store available again", user=self._user)


class ChangeSignal:
    """Wakes a follower when a channel speaks, and every `poll_s` seconds whatever happens.

    Messages are only a nudge: one that is lost costs a poll's length. The store may come and go.
    """

    def __init__(self, client: Redis, channel: str, *, poll_s: float) -> None:
        self._client = client
        self._channel = channel
        self._poll_s = poll_s
        self._pubsub: Any = None

    async def wait(self) -> None:
        """Return after the next message, after (re-)subscribing, or after `poll_s` seconds."""
        try:
            await self._next()
        except STORE_TROUBLE:
            await self.aclose()
            await asyncio.sleep(self._poll_s)

    async def aclose(self) -> None:
        """Give the connection back; `wait` may be called again all the same."""
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            await pubsub.aclose()

    async def _next(self) -> None:
        if self._pubsub is None:
            self._pubsub = self._client.pubsub()
            await self._pubsub.subscribe(self._channel)
        await self._pubsub.get_message(timeout=self._poll_s)
