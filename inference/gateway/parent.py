"""The gateway's first process: owns the public socket, starts the others and starts them again.

It serves nothing itself. Children inherit its listener, so connections waiting to be accepted
survive a child; they also inherit the reading end of a pipe that ends when it does.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence

import structlog

from inference.gateway.child import CANCEL_S, HAND_OVER_S
from inference.gateway.server import BACKLOG, DRAIN_S

# A child that dies at once is started again more and more slowly.
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0

# A child that served this long has earned a quick restart.
STABLE_S = 30.0

# All a child may take to stop, and something for a slow machine.
STOP_S = DRAIN_S + CANCEL_S + HAND_OVER_S + 5.0

CHILD_COMMAND = (sys.executable, "-m", "inference", "gateway-child")

log = structlog.get_logger(__name__)


class GatewayParent:
    """Keeps `processes` children on one listener until it is told to stop."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        processes: int,
        command: Sequence[str] = CHILD_COMMAND,
    ) -> None:
        self._host = host
        self._port = port
        self._processes = processes
        self._command = command
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then stop the children. Raises OSError if it can't bind."""
        listener = bind(self._host, self._port)
        alive, alive_end = os.pipe()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        log.info(
            "gateway listening",
            host=self._host,
            port=listener.getsockname()[1],
            processes=self._processes,
        )
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [
                    group.create_task(self._keep(slot, (listener.fileno(), alive)))
                    for slot in range(self._processes)
                ]
                await self._stop.wait()
                listener.close()  # the children's copies are theirs to drain
                await self._stop_children()
                for keeper in keepers:
                    keeper.cancel()
        finally:
            listener.close()
            os.close(alive)
            os.close(alive_end)

    async def _keep(self, slot: int, descriptors: tuple[int, int]) -> None:
        """Keep one child running."""
        loop = asyncio.get_running_loop()
        backoff_s = FIRST_BACKOFF_S
        while not self._stop.is_set():
            started_s = loop.time()
            code = await self._run_child(slot, descriptors)
            if self._stop.is_set():
                return
            if loop.time() - started_s >= STABLE_S:
                backoff_s = FIRST_BACKOFF_S
            log.warning("gateway process died", slot=slot, code=code, restart_in_s=backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)

    async def _run_child(self, slot: int, descriptors: tuple[int, int]) -> int:
        listener_fd, alive_fd = descriptors
        child = await asyncio.create_subprocess_exec(
            *self._command,
            *("--fd", str(listener_fd), "--alive-fd", str(alive_fd), "--slot", str(slot)),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=descriptors,
        )
        self._children[slot] = child
        if self._stop.is_set():
            child.terminate()
        log.info("gateway process started", slot=slot, pid=child.pid)
        try:
            return await child.wait()
        finally:
            del self._children[slot]

    async def _stop_children(self) -> None:
        log.info("stopping", processes=len(self._children))
        children = list(self._children.values())
        for child in children:
            child.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                for child in children:
                    await child.wait()
        except TimeoutError:
            for child in children:
                if child.returncode is None:
                    log.error("gateway process killed", pid=child.pid)
                    child.kill()


def bind(host: str, port: int) -> socket.socket:
    """Open the public socket; raises OSError if the address is taken or isn't ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
