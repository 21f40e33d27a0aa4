"""The gateway's first process: owns the public socket, starts the others and starts them again.

It serves nothing itself but its admin port. Children inherit its listener, so connections waiting
to be accepted survive a child; they are linked to it by a socket pair each, which ends with it.
Children are replaced one after another: the new one accepts before the old one drains.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any

import structlog

from inference.contract.params import GATEWAY_DRAIN_S
from inference.gateway.admin import LOOPBACK, Standing, make_admin_server
from inference.gateway.child import CANCEL_S, HAND_OVER_S
from inference.gateway.control import Wanted
from inference.gateway.listener import bind, turn_away
from inference.gateway.processes import ServingProcess, start_process
from inference.observability.merging import Family, Merger, Sample

# A child that dies at once is started again more and more slowly.
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0

# A child that served this long has earned a quick restart.
STABLE_S = 30.0

# All a child may take to stop, and something for a slow machine.
STOP_S = GATEWAY_DRAIN_S + CANCEL_S + HAND_OVER_S + 5.0

# A child accepts within two seconds of its start; one that can't must not cost the old one.
TAKE_OVER_S = 60.0
REPLACE_AGAIN_S = 5.0

# Starts that are under way at a stop are looked for so often.
STARTING_POLL_S = 0.02

CHILD_COMMAND = (sys.executable, "-m", "inference", "gateway-child")

log = structlog.get_logger(__name__)


class GatewayParent:
    """Keeps `processes` children on one listener until it is told to stop."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        admin_port: int,
        processes: int,
        command: Sequence[str] = CHILD_COMMAND,
    ) -> None:
        self._host = host
        self._port = port
        self.admin_port = admin_port
        self._processes = processes
        self._command = command
        self._children: dict[int, ServingProcess] = {}
        self._slots: set[int] = set()
        self._starting = 0
        self._living: set[asyncio.Task[None]] = set()
        self._merger = Merger()
        self._deaths = 0
        self._generation: int | None = None
        self._superseded = asyncio.Event()
        self._turn = asyncio.Event()
        self._turn.set()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then stop the children. Raises CannotListen.

        SIGHUP, or a higher restart generation in the configuration, has the children replaced.
        """
        listener = bind(
            self._host, self._port, settings="HEADWORKS_GATEWAY_HOST and HEADWORKS_GATEWAY_PORT"
        )
        with (
            listener,
            bind(LOOPBACK, self.admin_port, settings="HEADWORKS_GATEWAY_ADMIN_PORT") as admin,
        ):
            self._heed_signals()
            log.info(
                "gateway listening",
                host=self._host,
                port=listener.getsockname()[1],
                admin_port=admin.getsockname()[1],
                processes=self._processes,
            )
            server = make_admin_server(self)
            async with asyncio.TaskGroup() as group:
                group.create_task(server.serve(sockets=[admin]))
                keepers = [group.create_task(self._keep(listener)) for _ in range(self._processes)]
                await self._stop.wait()
                turn_away(listener)
                listener.close()  # the children's copies are theirs to drain
                await self._stop_children()
                for keeper in keepers:
                    keeper.cancel()
                server.should_exit = True

    @property
    def standing(self) -> Standing:
        """Whether the gateway takes requests, in one word."""
        accepting = [one for one in self._children.values() if one.serves]
        if self._stop.is_set():
            return Standing.STOPPING
        if not accepting:
            return Standing.STARTING
        if all(one.wanted is not None and one.wanted.is_drained for one in accepting):
            return Standing.DRAINING
        return Standing.READY

    @property
    def children(self) -> Sequence[ServingProcess]:
        """All that run, those that are leaving too."""
        return [self._children[slot] for slot in sorted(self._children)]

    @property
    def generation(self) -> int | None:
        """The newest restart generation a child has read; None before the first."""
        return self._generation

    async def metrics(self) -> bytes:
        """What all children, living and dead, have counted, in Prometheus' text format."""
        await self.ask_all()
        # nothing is waited for from here on: who is no child any more is in the merger's keeping
        living = [one.last.families for one in self.children if one.last is not None]
        return self._merger.text([self._own_families(), *living])

    async def ask_all(self) -> None:
        """Have every child say how it is."""
        await asyncio.gather(*(one.ask() for one in self.children))

    def _own_families(self) -> tuple[Family, ...]:
        accepting = sum(one.serves for one in self.children)
        return (
            _family("processes", "gauge", "Processes that accept requests", accepting),
            _family("process_deaths", "counter", "Processes that ended unasked", self._deaths),
        )

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.replace_all)

    def stop(self) -> None:
        """Have `run` stop the children and return."""
        self._stop.set()

    def replace_all(self) -> None:
        """Have all children that run now replaced, one after another."""
        log.info("replacing gateway processes", processes=len(self._children))
        superseded, self._superseded = self._superseded, asyncio.Event()
        superseded.set()

    def _note_wanted(self, wanted: Wanted) -> None:
        """Take note of what a child has read; the first word says what the children began with."""
        known, self._generation = self._generation, wanted.restart_generation
        if known is not None:
            self._generation = max(known, wanted.restart_generation)
            if self._generation > known:
                self.replace_all()

    async def _keep(self, listener: socket.socket) -> None:
        """Keep one child running: replaced when it is due, started again when it dies."""
        loop = asyncio.get_running_loop()
        backoff_s = FIRST_BACKOFF_S
        slot = self._take_slot()
        while not self._stop.is_set():
            started_s = loop.time()
            child = await self._start(listener, slot)
            while child is not None and await _is_due(child):
                child = await self._replace(child, listener)
            if self._stop.is_set():
                return
            if loop.time() - started_s >= STABLE_S:
                backoff_s = FIRST_BACKOFF_S
            if child is not None:
                self._deaths += 1
                slot = child.slot
                log.warning(
                    "gateway process died",
                    slot=child.slot,
                    code=child.code,
                    restart_in_s=backoff_s,
                )
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)

    def _take_slot(self) -> int:
        """The lowest number that is free. One that died is followed under its own number: whoever
        counts processes would miss it otherwise."""
        slot = next(number for number in count() if number not in self._slots)
        self._slots.add(slot)
        return slot

    async def _start(self, listener: socket.socket, slot: int) -> ServingProcess | None:
        """Start a child under this number; None if the system won't."""
        self._starting += 1
        try:
            child, link = await start_process(
                self._command,
                slot=slot,
                listener=listener,
                superseded=self._superseded,
                generation=self._generation,
            )
        except OSError as error:
            log.error("gateway process cannot be started", slot=slot, error=str(error))
            return None
        finally:
            self._starting -= 1
        self._children[slot] = child
        self._spawn(
            child.live(link, on_wanted=self._note_wanted, on_end=lambda: self._forget(child))
        )
        if self._stop.is_set():
            child.terminate()
        log.info("gateway process started", slot=slot, pid=child.pid)
        return child

    def _spawn(self, living: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(living)
        self._living.add(task)
        task.add_done_callback(self._living.discard)

    def _forget(self, child: ServingProcess) -> None:
        """Let go of a child that has ended, but for what it counted."""
        del self._children[child.slot]
        if child.is_leaving:
            self._slots.discard(child.slot)
        if child.last is not None:
            self._merger.retire(child.last.families)

    async def _replace(self, old: ServingProcess, listener: socket.socket) -> ServingProcess:
        """Put another in this child's place, when its turn comes; returns who is to be kept then.

        The turn lasts until the old one has ended. Whoever keeps the new one doesn't wait for that:
        one that dies while another drains is started again at once.
        """
        if not await self._has_turn(old):
            return old
        new = await self._start_successor(old, listener)
        if new is None:
            self._turn.set()
            return old
        old.terminate()
        self._spawn(self._end_turn(old))
        return new

    async def _has_turn(self, child: ServingProcess) -> bool:
        """Wait until this child may be replaced; False if it ends first, as at a stop."""
        while not (child.ended.is_set() or self._stop.is_set()):
            if self._turn.is_set():
                self._turn.clear()
                return True
            await _first_of(self._turn, child.ended, self._stop)
        await child.ended.wait()
        return False

    async def _start_successor(
        self, old: ServingProcess, listener: socket.socket
    ) -> ServingProcess | None:
        """Start a child that can take this one's place; None if there is none now."""
        slot = self._take_slot()
        new = await self._start(listener, slot)
        if new is not None and await self._can_take_over(new, old):
            return new
        await self._give_up(new, slot)
        if not old.ended.is_set():
            log.error("gateway process not replaced", slot=old.slot, again_in_s=REPLACE_AGAIN_S)
            await _first_of(old.ended, within_s=REPLACE_AGAIN_S)
        return None

    async def _end_turn(self, old: ServingProcess) -> None:
        """End a child that was replaced; then the next has its turn."""
        await _end(old)
        self._turn.set()

    async def _give_up(self, new: ServingProcess | None, slot: int) -> None:
        """End a child that was to replace another, and give its number back."""
        if new is not None:
            new.kill()
            await new.ended.wait()
        self._slots.discard(slot)

    async def _can_take_over(self, new: ServingProcess, old: ServingProcess) -> bool:
        """Wait until the new one accepts, if the old one does.

        One that dies meanwhile is followed under its own number, as always.
        """
        if not old.accepting.is_set():
            return True
        await _first_of(new.accepting, new.ended, old.ended, self._stop, within_s=TAKE_OVER_S)
        return not old.ended.is_set() and (new.accepting.is_set() or self._stop.is_set())

    async def _stop_children(self) -> None:
        """End all that run, and those whose start was under way when they were told."""
        log.info("stopping", processes=len(self._children))
        while self._children or self._starting:
            await asyncio.gather(*(_end(child) for child in self.children))
            await asyncio.sleep(STARTING_POLL_S)


def _family(name: str, kind: str, text: str, value: int) -> Family:
    name = f"headworks_gateway_{name}"
    series = f"{name}_total" if kind == "counter" else name
    return Family(name, kind, text, (Sample(series, (), value),))


async def _is_due(child: ServingProcess) -> bool:
    """Wait until a child is to be replaced (True) or has ended."""
    await _first_of(child.superseded, child.ended)
    return not child.ended.is_set()


async def _end(child: ServingProcess) -> None:
    """Have a child drain and end, or end it."""
    child.terminate()
    await _first_of(child.ended, within_s=STOP_S)
    if not child.ended.is_set():
        log.error("gateway process killed", slot=child.slot, pid=child.pid)
        child.kill()
        await child.ended.wait()


async def _first_of(*events: asyncio.Event, within_s: float | None = None) -> None:
    """Wait until one of these is set, or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
