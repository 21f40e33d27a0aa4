"""The pools process: the supervisor with what it lives on, from start to signal."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from inference.pools.supervisor import Follow, Supervisor
from inference.vitals import VitalsWriter

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsService:
    """The parts of the process, put together by `bootstrap`.

    `background` are tasks that run for as long as it lives; one that fails ends the process, and
    whoever started it starts it anew.
    """

    supervisor: Supervisor
    vitals: VitalsWriter
    background: Sequence[Follow]
    close_store: Follow

    async def run(self) -> None:
        """Supervise until SIGTERM or SIGINT; the workers go on, the lease and vitals are gone."""
        stop = _stop_event()
        working = asyncio.create_task(self.supervisor.run(self.vitals.run, *self.background))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.wait([working, stopping])
            await self.vitals.sign_off()
            await self.close_store()
        log.info("supervisor stopped; its workers go on")


def _stop_event() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
