"""The socket of a live page: authorise, join the scope's group, relay the newest message.

The layer may lose messages and so may this: a page that sees a number missing reads its document
again. So a client that reads slowly holds up nothing and fills nothing: what it was too slow for
is left out.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseFailure
from redis.exceptions import RedisError

from dashboards.readers import CloseCode, Refused, admit
from dashboards.scopes import LiveScope
from dashboards.watching import WATCH_RENEWAL_S, Watches

LAYER_TIMEOUT_S = 10.0
"""Longer than a busy console takes to ask for everybody at once, who would else all come again."""

MESSAGE = "live.message"

_TROUBLE = (RedisError, DatabaseFailure, OSError, TimeoutError)

log = structlog.get_logger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher. `watches` is shared by all of the process; `recheck_s` is how often it is asked
    again whether the reader still may."""

    watches: Watches
    recheck_s: float = WATCH_RENEWAL_S

    def __init__(self, *, watches: Watches, recheck_s: float = WATCH_RENEWAL_S) -> None:
        super().__init__()
        self.watches = watches
        self.recheck_s = recheck_s
        self._watched: LiveScope | None = None
        self._newest: str | None = None
        self._has_news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._forget_channel()

    async def connect(self) -> None:
        try:
            async with asyncio.timeout(LAYER_TIMEOUT_S):
                self._watched = await self._admit()
                await self.channel_layer.group_add(self._watched.name, self.channel_name)
                await self.watches.renew(self._watched)
        except Refused as refused:
            await self.close(code=refused.code)
            return
        except _TROUBLE as error:
            log.warning("live page refused: no layer", error=type(error).__name__)
            await self.close(code=CloseCode.RESTART)
            return
        await self.accept()
        self._tasks = [
            asyncio.create_task(self._guarded(self._relay())),
            asyncio.create_task(self._guarded(self._recheck())),
        ]

    async def disconnect(self, code: int) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            await self._leave()

    async def live_message(self, event: Mapping[str, Any]) -> None:
        """Keep what the feed sent; a newer one takes the place of one not sent yet."""
        self._newest = event["text"]
        self._has_news.set()

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Do it to its end; a socket whose work breaks is closed, so that none goes on unasked."""
        try:
            await work
        except Exception as error:
            log.error("live page closed: its work broke", error=repr(error))
            await self.close(code=CloseCode.BROKEN)
            raise

    async def _relay(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            text, self._newest = self._newest, None
            if text is None:
                continue
            try:
                await self.send(text_data=text)
            except OSError:
                # whoever was too slow for it has left, which `disconnect` is told of as well
                return

    async def _recheck(self) -> None:
        """Renew the watch while the reader still may; else, or without a layer, close."""
        assert self._watched is not None
        while True:
            await asyncio.sleep(self.recheck_s)
            try:
                async with asyncio.timeout(LAYER_TIMEOUT_S):
                    await self.watches.renew(self._watched)
                    await self._admit()
            except Refused as refused:
                await self.close(code=refused.code)
                return
            except _TROUBLE as error:
                log.warning("live page closed: no layer", error=type(error).__name__)
                await self.close(code=CloseCode.RESTART)
                return

    async def _admit(self) -> LiveScope:
        return await database_sync_to_async(admit)(
            self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, ""),
            self.scope["url_route"]["kwargs"]["page"],
            self.scope["query_string"].decode("ascii", errors="replace"),
        )

    async def _forget_channel(self) -> None:
        """Have the layer drop this socket's queue and subscription.

        It does so where a receiver that waits is cancelled, and nowhere else: a message that comes
        while a socket leaves would keep both for good.
        """
        name = getattr(self, "channel_name", "")
        while name in self.channel_layer._get_layer().channels:
            waiting = asyncio.ensure_future(self.channel_layer.receive(name))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _leave(self) -> None:
        if self._watched is None:
            return
        try:
            async with asyncio.timeout(LAYER_TIMEOUT_S):
                await self.channel_layer.group_discard(self._watched.name, self.channel_name)
        except _TROUBLE as error:
            log.info("group left without saying so", error=type(error).__name__)
