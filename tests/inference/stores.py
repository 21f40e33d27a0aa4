"""A state store of a test's own: one it may empty, freeze, kill and start again."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis import Redis as BlockingRedis
from redis.exceptions import RedisError

from controlplane.local.valkey import DATA, find_binary, state_rules

PATIENCE_S = 60.0
POLL_S = 0.01
_PASSWORD = "own-store"


class OwnStore:
    """One Valkey on a socket in a folder. Whoever comes by `url` has the data plane's rights."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "store.sock"
        self.url = f"unix://{DATA}:{_PASSWORD}@{self._socket}?db=0"
        self.admin_url = f"unix://{self._socket}?db=0"
        self.process = self._start()

    def freeze(self) -> None:
        """Make it accept and never answer."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Come back empty, as another run."""
        self.stop()
        self.process = self._start()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = (str(find_binary()), "--port", "0", "--unixsocket", str(self._socket))
        lasting = ("--save", "", "--appendonly", "no", "--dir", str(self._folder))
        process = subprocess.Popen((*command, *lasting), stdout=subprocess.DEVNULL)
        self._set_up()
        return process

    def _set_up(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        rules = state_rules(DATA).split()
        with BlockingRedis.from_url(self.admin_url) as admin:
            while True:
                try:
                    admin.execute_command("ACL", "SETUSER", DATA, "on", f">{_PASSWORD}", *rules)
                except RedisError:
                    assert time.monotonic() < deadline, "the store did not start"
                    time.sleep(POLL_S)
                else:
                    return


def keep_clear_of_the_end(window_s: float, *, margin_s: float) -> None:
    """Wait for the next window of the stores' clock if this one (of UTC) is about to end."""
    left_s = window_s - time.time() % window_s
    if left_s < margin_s:
        time.sleep(left_s + 0.1)


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str, *, within_s: float = PATIENCE_S
) -> None:
    """Wait for a condition, or fail saying what for."""
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        await asyncio.sleep(POLL_S)
