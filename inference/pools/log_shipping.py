"""Tails of workers' logs, shipped to the store for as long as a page asks for them."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.sealing import without_secrets, worker_key
from inference.pools.worker_logs import Mark, mark_of, whole_lines_of
from inference.store import STORE_TROUBLE, StoreHealth

SHIPPING_PERIOD_S = 1.0


class LogShipper:
    """Ships the logs that are wanted out of `logs`, files by worker id, as `wire` says.

    `clock` gives seconds since the epoch.
    """

    def __init__(
        self,
        client: Redis,
        *,
        logs: Callable[[], Mapping[str, Path]],
        data_key: bytes,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._logs = logs
        self._data_key = data_key
        self._clock = clock
        self._shipped: dict[str, Mark | None] = {}
        self._health = StoreHealth("worker logs")

    async def run(self) -> None:
        """Ship every second until cancelled, through outages of the store."""
        while True:
            await self.step()
            await asyncio.sleep(SHIPPING_PERIOD_S)

    async def step(self) -> None:
        """Ship once what is wanted and has changed."""
        logs = self._logs()
        if not logs:
            self._shipped.clear()
            return
        try:
            wanted = await self._wanted(logs)
            self._shipped = {one: mark for one, mark in self._shipped.items() if one in wanted}
            for worker_id, log in wanted.items():
                await self._ship(worker_id, log)
        except STORE_TROUBLE as error:
            self._health.failed(error)
        else:
            self._health.succeeded()

    async def _wanted(self, logs: Mapping[str, Path]) -> Mapping[str, Path]:
        wishes = await self._client.mget([wire.worker_log_wish(worker_id) for worker_id in logs])
        pairs = zip(logs.items(), wishes, strict=True)
        return {worker_id: log for (worker_id, log), wish in pairs if wish is not None}

    async def _ship(self, worker_id: str, log: Path) -> None:
        key, mark = wire.worker_log_key(worker_id), mark_of(log)
        is_same = worker_id in self._shipped and self._shipped[worker_id] == mark
        if is_same and await self._client.expire(key, wire.WORKER_LOG_LIFE_S):
            return
        fields = await asyncio.to_thread(self._fields, worker_id, log)
        async with self._client.pipeline() as pipe:
            pipe.hset(key, items=fields)
            pipe.expire(key, wire.WORKER_LOG_LIFE_S)
            await pipe.execute()
        self._shipped[worker_id] = mark

    def _fields(self, worker_id: str, log: Path) -> list[str]:
        at = self._clock()
        tail = whole_lines_of(log, limit_bytes=wire.WORKER_LOG_TAIL_BYTES)
        text = without_secrets(tail.text).replace(worker_key(self._data_key, worker_id), "***")
        return [
            *(wire.WORKER_LOG_AT, f"{at:.3f}"),
            *(wire.WORKER_LOG_SIZE, str(tail.size)),
            *(wire.WORKER_LOG_TEXT, text),
        ]
