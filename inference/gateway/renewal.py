"""An answer that was served stale is asked for anew, by a request of its own that nobody reads.

It is charged and counted like any other of its caller's, but is no exposure to an experiment.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from inference.contract.values import changed
from inference.gateway.cached import Caching
from inference.gateway.dialects import Dialect
from inference.gateway.exchange import Exchange
from inference.gateway.headers import CACHE_CONTROL, CallerHeaders, Headers
from inference.gateway.members import join_members
from inference.gateway.prompts import as_asked

if TYPE_CHECKING:
    from inference.gateway.downstream import Downstream

Run = Callable[[Exchange], Coroutine[Any, Any, None]]


class Unread:
    """A Downstream whose request is given and whose answer goes nowhere."""

    has_unsent = False

    def __init__(self, headers: CallerHeaders, body: bytes) -> None:
        self.headers = headers
        self.task: asyncio.Task[None] | None = asyncio.current_task()
        self.has_started = False
        self._body = body

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        """It is never lost."""

    async def read_body(self, limit_bytes: int) -> bytes:
        return self._body

    async def start(self, status: int, headers: Headers) -> None:
        self.has_started = True

    async def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def write_now(self, data: bytes) -> bool:
        return True

    async def end(self, data: bytes = b"") -> None:
        """Nobody reads it."""

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.has_started = True

    async def answer(
        self, request_id: str, dialect: Dialect, further: Headers, body: bytes
    ) -> None:
        self.has_started = True

    async def abort(self, data: bytes = b"") -> None:
        """There is no connection."""


def renew(exchange: Exchange, caching: Caching, run: Run) -> None:
    """Have a stale answer asked for anew, unless that is under way."""
    request, key = exchange.request, caching.asked.key
    if request is None or caching.wishes.keeps_nothing:
        return
    sent = exchange.downstream.headers
    caching_headers = {**sent.caching, CACHE_CONTROL: b"no-cache"}
    headers = changed(sent, caching=caching_headers, client_request_id=None)
    body = join_members(as_asked(request))

    async def ask() -> None:
        unread: Downstream = Unread(headers, body)
        renewal = Exchange(exchange.services, unread, endpoint=exchange.endpoint)
        renewal.is_renewal = True
        await run(renewal)

    caching.caches.renew(key, ask)
