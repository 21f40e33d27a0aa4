"""One serving process: started by the parent on its listener, gone when told or when it is gone."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from inference.gateway.server import GatewayServer
from inference.journal import Journal
from inference.snapshots.holder import SnapshotHolder
from inference.vitals import VitalsWriter
from inference.workers.connections import Connections

# What is written of a request that the drain cut short, once its task was cancelled.
CANCEL_S = 7.0

# After the last request its end is still to be fed to the stream; what isn't stays on disk.
HAND_OVER_S = 2.0
_POLL_S = 0.02

Background = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayChild:
    """A gateway process's parts, put together by `bootstrap`.

    `background` are tasks that run for as long as it lives; one that fails ends the process, and
    the parent starts it anew.
    """

    server: GatewayServer
    holder: SnapshotHolder
    journal: Journal
    vitals: VitalsWriter
    connections: Connections
    background: Sequence[Background]
    close_store: Background

    async def run(self, listener: socket.socket, *, alive_fd: int) -> None:
        """Serve on `listener` until SIGTERM, SIGINT or the end of the pipe `alive_fd`; then drain.

        Nothing is accepted before there is a configuration.
        """
        stop = _stop_event(alive_fd)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_as_coroutine(one)) for one in self.background]
                if await self._has_configuration(stop):
                    await self._serve(listener, stop)
                await self._hand_over()
                for task in tasks:
                    task.cancel()
        finally:
            listener.close()
            self.connections.close()
            self.journal.release()
            await self.vitals.sign_off()
            await self.close_store()
        log.info("gateway process stopped")

    async def _has_configuration(self, stop: asyncio.Event) -> bool:
        """Wait for a snapshot; False if the process is to stop first."""
        if self.holder.current is None:
            log.info("waiting for a configuration")
        waits = [
            asyncio.ensure_future(self.holder.wait_ready()),
            asyncio.ensure_future(stop.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return not stop.is_set()

    async def _serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        snapshot = self.holder.current
        log.info("accepting requests", snapshot_version=snapshot and snapshot.version)
        serving = asyncio.ensure_future(self.server.serve(sockets=[listener]))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        log.info("draining", requests=len(self.server.server_state.tasks))
        self.server.should_exit = True
        await serving
        if self.server.server_state.tasks:
            await asyncio.wait(self.server.server_state.tasks, timeout=CANCEL_S)

    async def _hand_over(self) -> None:
        """Let the last ends get into the stream; without a store they stay in the journal."""
        for _ in range(int(HAND_OVER_S / _POLL_S)):
            if not self.journal.backlog:
                return
            await asyncio.sleep(_POLL_S)
        log.info("events left to the journal", events=self.journal.backlog)


def _stop_event(alive_fd: int) -> asyncio.Event:
    """An event set by a signal, or when the parent's end of the pipe is closed."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def parent_spoke() -> None:
        if not os.read(alive_fd, 1):
            loop.remove_reader(alive_fd)
            stop.set()

    loop.add_reader(alive_fd, parent_spoke)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _as_coroutine(background: Background) -> None:
    await background()
