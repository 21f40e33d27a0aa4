"""One serving process: started by the parent on its listener, gone when told or when it is gone."""

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from inference.gateway.control import Accepting, ParentLink
from inference.gateway.listener import turn_away, waiting_on
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

# Callers whose greeting is under way come to the listener within a round trip.
_GREETING_S = 0.1

# Where others go on listening, there is always somebody who waits.
_LAST_ACCEPT_S = 1.0

# A busy process has ten thousand values under way at once, which go without a collector's help.
# Looking through them at every 700th would take a twentieth of its time. Whatever still refers back
# to itself waits for it, so much more would show as memory that grows.
_GARBAGE_THRESHOLDS = (5_000, 10, 20)

Background = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayChild:
    """A gateway process's parts, put together by `bootstrap`.

    `background` are tasks that run for as long as it lives; one that fails ends the process, and
    the parent starts it anew. `orphan` is its name once the parent is gone: the next one gives its
    number to another while it still drains.
    """

    server: GatewayServer
    holder: SnapshotHolder
    journal: Journal
    vitals: VitalsWriter
    connections: Connections
    link: ParentLink
    orphan: str
    background: Sequence[Background]
    close_store: Background

    async def run(self, listener: socket.socket) -> None:
        """Serve on `listener` until SIGTERM, SIGINT or the end of the parent; then drain.

        Nothing is accepted before there is a configuration.
        """
        stop = _stop_event()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        await self.link.open()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_as_coroutine(one)) for one in self.background]
                tasks.append(group.create_task(self._follow_parent(listener, stop)))
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
            await self.link.close()
        log.info("gateway process stopped")

    async def _follow_parent(self, listener: socket.socket, stop: asyncio.Event) -> None:
        """Answer the parent, and stop with it: its children end together, so nobody goes on."""
        await self.link.answer()
        self.vitals.rename(self.orphan)
        if not stop.is_set():
            turn_away(listener)
            stop.set()

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
        serving = asyncio.create_task(self.server.serve(sockets=[listener]))
        await _first_of(serving, self.server.accepting)
        self.link.say(Accepting())
        await _first_of(serving, stop)
        if not serving.done():
            await _accept_all(listener)
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


async def _accept_all(listener: socket.socket) -> None:
    """Wait until nobody waits to be accepted; the server still listens meanwhile."""
    await asyncio.sleep(_GREETING_S)
    for _ in range(int(_LAST_ACCEPT_S / _POLL_S)):
        if not waiting_on(listener):
            return
        await asyncio.sleep(_POLL_S)


async def _first_of(serving: asyncio.Task[None], event: asyncio.Event) -> None:
    """Wait until the event is set or the server has ended."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _stop_event() -> asyncio.Event:
    """An event set by a signal. One to replace processes (SIGHUP) is for the parent."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stop


async def _as_coroutine(background: Background) -> None:
    await background()
