"""Sessions in the state store. A store that is away is an outage, not the end of a session.

Django's own engine takes a failing cache for an unknown session: everybody would be signed out,
cookie and all, by a store that restarts.
"""

import json
from typing import Any

from django.contrib.sessions.backends.cache import SessionStore as CacheSessionStore


class SessionStore(CacheSessionStore):
    """Django's cache sessions, except that `load` raises what the store raises."""

    def load(self) -> dict[str, Any]:
        data = None if self.session_key is None else self._cache.get(self.cache_key)
        if data is None:
            self._session_key = None
            return {}
        return dict(data)

    async def aload(self) -> dict[str, Any]:
        data = None
        if self.session_key is not None:
            data = await self._cache.aget(await self.acache_key())
        if data is None:
            self._session_key = None
            return {}
        return dict(data)


class JsonSerializer:
    """What the cache keeps, as JSON: a pickle would run code for whoever can write to the store."""

    def dumps(self, value: object) -> bytes | int:
        # a bare number stays one, so that the store can count with it
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)
