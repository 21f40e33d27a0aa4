"""Processes pinned to a core, and the CPU time that they and their children took."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 60.0
_POLL_S = 0.05
_STOP_S = 10.0


class NotStarted(Exception):
    """Something that is to be measured doesn't run."""


@contextmanager
def pinned(
    command: Sequence[str | Path],
    *,
    core: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[int]:
    """Run a command on one core, with its output in a file; yields its process id."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["taskset", "-c", core, *map(str, command)],
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        thaw(process.pid)
        for one in tree(process.pid):
            _signal(one, signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            for one in tree(process.pid):
                _signal(one, signal.SIGKILL)
            process.wait()


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pid, *(one for child in children for one in tree(int(child)))]


def freeze(pid: int) -> None:
    """Have it take no time until it is thawed: some burn a core after their last request."""
    for one in tree(pid):
        _signal(one, signal.SIGSTOP)


def thaw(pid: int) -> None:
    for one in tree(pid):
        _signal(one, signal.SIGCONT)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and all below it, user and system."""
    return sum(_cpu_s(one) for one in tree(pid))


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            first = int(found.getsockname()[1])
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def wait_for(condition: Callable[[], bool], what: str, *, poll_s: float = _POLL_S) -> None:
    """Wait until it holds, or raise NotStarted."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise NotStarted(f"{what}: not within {_PATIENCE_S:.0f} s")
        time.sleep(poll_s)


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) * _TICKS_S


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
