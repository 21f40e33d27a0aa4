"""Who watches what: a sorted set in the channel layer's database, by when each entry expires.

Consumers put the scope of their page in and renew it; the feed computes what is in there and
nothing else. Times are the store's own, so no host's clock matters. A console that dies is
forgotten within WATCH_LIFE_S.
"""

from collections.abc import Sequence

from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dashboards.scopes import LiveScope

WATCHED = "hw:live:watched"
WATCH_LIFE_S = 15
WATCH_RENEWAL_S = 5

_STORE_TIMEOUT_S = 1.0
_MOST_CONNECTIONS = 4

_RENEW = """
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'GT', now[1] + ARGV[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2] * 4)
"""
_LIST = """
local now = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""


class Watches:
    """A consumer's side; one for all sockets of a process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: AsyncRedis | None = None

    async def renew(self, scope: LiveScope) -> None:
        """Say that somebody watches; raises RedisError or OSError when the store fails."""
        if self._client is None:
            self._client = _connect(self._url)
        await self._client.eval(_RENEW, 1, WATCHED, scope.name, WATCH_LIFE_S)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            await self._client.aclose(close_connection_pool=True)
            self._client = None


def _connect(url: str) -> AsyncRedis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_MOST_CONNECTIONS,
        timeout=_STORE_TIMEOUT_S,
        socket_timeout=_STORE_TIMEOUT_S,
        socket_connect_timeout=_STORE_TIMEOUT_S,
    )
    return AsyncRedis(connection_pool=pool, retry=Retry(NoBackoff(), 0))


def connect_watched(url: str) -> Redis:
    """The feed's side of the store, with a time-out on every call."""
    return Redis.from_url(
        url,
        socket_timeout=_STORE_TIMEOUT_S,
        socket_connect_timeout=_STORE_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def list_watched(store: Redis) -> Sequence[LiveScope]:
    """The scopes somebody watches now; raises RedisError or OSError."""
    names = store.eval(_LIST, 1, WATCHED)
    found = (LiveScope.named(name.decode()) for name in names)
    return [scope for scope in found if scope is not None]
