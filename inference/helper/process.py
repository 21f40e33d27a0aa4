"""The helper's parts put together, and its end.

It stands apart from the other processes' composition, which must not load what is loaded here.
"""

import asyncio
import contextlib
import hashlib
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from redis.asyncio import Redis

from inference.helper.embedder import MODEL_FILE, Embedder
from inference.helper.mind import SemanticMind
from inference.helper.replication import Replication
from inference.helper.semantic_index import SemanticIndex
from inference.helper.server import HelperServer
from inference.settings import HelperSettings
from inference.store import connect_store

EXPIRE_PERIOD_S = 1.0

log = structlog.get_logger(__name__)


class HelperProcess:
    """Serves until it is told to stop by SIGTERM or SIGINT."""

    def __init__(
        self,
        server: HelperServer,
        index: SemanticIndex,
        replication: Replication | None,
        close_store: Callable[[], Awaitable[None]],
    ) -> None:
        self._server = server
        self._index = index
        self._replication = replication
        self._close_store = close_store

    async def run(self) -> None:
        """Serve; raises OSError if the socket can't be had."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        tasks = [asyncio.create_task(self._server.run()), asyncio.create_task(self._expire())]
        if self._replication is not None:
            tasks.append(asyncio.create_task(self._replication.run()))
        stopping = asyncio.create_task(stopped.wait())
        try:
            done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for one in done - {stopping}:
                one.result()
        finally:
            for one in (*tasks, stopping):
                one.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
            await self._close_store()

    async def _expire(self) -> None:
        while True:
            self._index.expire()
            await asyncio.sleep(EXPIRE_PERIOD_S)


def build_helper(settings: HelperSettings) -> HelperProcess:
    """Load the model and put the helper together; raises OSError if there is no model."""
    embedder = Embedder(settings.model)
    index = SemanticIndex(settings.bytes_max)
    mind = SemanticMind(embedder, index)
    client = connect_store(settings.cache_url) if settings.cache_url else None
    replication = None if client is None else _replication(client, settings, mind)
    if replication is not None:
        mind.share(told=replication.tell, gone=replication.tell_gone)
    log.info("the model is loaded", model=str(settings.model))

    async def close() -> None:
        if client is not None:
            with contextlib.suppress(OSError):
                await client.aclose()

    return HelperProcess(HelperServer(settings.socket, mind), index, replication, close)


def _replication(client: Redis, settings: HelperSettings, mind: SemanticMind) -> Replication:
    return Replication(
        client,
        data_key=settings.data_key,
        model=_digest_of(settings.model),
        take=mind.take,
        remove=mind.index.remove,
    )


def _digest_of(model: Path) -> str:
    """What tells vectors of one model from those of another."""
    with (model / MODEL_FILE).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
