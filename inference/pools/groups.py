"""Worker processes as groups on record, so that none is ever lost.

A worker leads a session and process group of its own. Its record is on disk before it runs a line
of its program: whoever comes after us, the local guardian too, finds it there and can end it.
"""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from inference.contract.kinds import Task
from inference.decisions.lifecycle import Presence
from inference.pools.worker_logs import LOG_MODE

WORKER_KIND = "worker"
_RECORD_MODE = 0o600
_DEAD_STATES = ("Z", "X")

# Holds the child until its record is written. Should we die in between, it reads the end of the
# pipe and leaves without having run anything.
_GATE = 'read -r go && cd "$0" && exec "$@" </dev/null'
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A worker's group. `start_time` (clock ticks since boot) tells a reused pid from ours."""

    name: str
    pid: int
    start_time: int
    spec_digest: str
    kind: str
    worker_id: str
    pool_id: str
    port: int
    served_model_name: str
    task: Task
    drain_timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStart:
    """How a worker's process is started."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    log: Path


@dataclass(frozen=True, slots=True)
class GatedProcess:
    """The leader of a new group, held until `open`: it has run nothing of its program yet."""

    pid: int
    gate: int

    def open(self) -> None:
        """Let it run its program. If it is gone already, that is seen like any later death."""
        with suppress(BrokenPipeError):
            os.write(self.gate, b"go\n")
        os.close(self.gate)

    def discard(self) -> None:
        """End it unused."""
        os.close(self.gate)
        os.waitpid(self.pid, 0)


def spawn_gated(start: GroupStart) -> GatedProcess:
    """Start the leader of a new session and group, held at its gate. Raises OSError."""
    log = os.open(start.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, LOG_MODE)
    held, gate = os.pipe()
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            ("sh", "-c", _GATE, str(start.folder), *start.command),
            dict(start.environment),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, held, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigdef=_DEFAULT_SIGNALS,
            setsigmask=(),
        )
    except OSError:
        os.close(gate)
        raise
    finally:
        os.close(held)
        os.close(log)
    return GatedProcess(pid, gate)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a leader ended; `code` is negative for a signal, None if its parent was another."""

    code: int | None


def ending_of(pid: int) -> Ending | None:
    """Reap a dead leader if it is ours to reap; None while its last threads are still leaving."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return Ending(None)
    return Ending(os.waitstatus_to_exitcode(status)) if reaped else None


class GroupRecords:
    """The records of a host's workers, one file each in the folder the guardian reads too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: GroupRecord) -> None:
        """Write a record, whole or not at all. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(record.name)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _RECORD_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(record))
        partial.replace(path)

    def read(self) -> tuple[GroupRecord, ...]:
        """All records of workers; what is not one is left to its owner."""
        found = (_read(path) for path in sorted(self._folder.glob("worker-*.json")))
        return tuple(record for record in found if record is not None)

    def remove(self, record: GroupRecord) -> None:
        """Remove a record unless the name belongs to another process by now."""
        path = self._path(record.name)
        if _read(path) == record:
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _read(path: Path) -> GroupRecord | None:
    try:
        record = msgspec.json.decode(path.read_bytes(), type=GroupRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.kind == WORKER_KIND else None


def presence_of(record: GroupRecord) -> Presence:
    """What is left of a group: the leader, only others, or nothing. Zombies are nothing."""
    leader = _stat(record.pid)
    if leader is not None and leader.start_time != record.start_time:
        return Presence.GONE  # a pid is not given away while it still names a group
    if leader is not None and leader.state not in _DEAD_STATES:
        return Presence.RUNNING
    return Presence.LEADERLESS if members_of(record.pid) else Presence.GONE


def members_of(group: int) -> tuple[int, ...]:
    """Living processes of a process group."""
    if not _exists(group):
        return ()
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    stats = ((pid, _stat(pid)) for pid in pids)
    return tuple(
        pid
        for pid, stat in stats
        if stat is not None and stat.group == group and stat.state not in _DEAD_STATES
    )


def terminate_leader(record: GroupRecord) -> None:
    """Ask the leader, and it alone, to finish and end its group.

    vLLM's workers end at a SIGTERM of their own and break the requests that the server was told to
    let finish, so the group must not get one.
    """
    if presence_of(record) is Presence.RUNNING:
        with suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGTERM)


def kill_group(record: GroupRecord) -> None:
    """End all of a group now, if any of it is left."""
    if presence_of(record) is not Presence.GONE:
        with suppress(ProcessLookupError):
            os.killpg(record.pid, signal.SIGKILL)


def start_time_of(pid: int) -> int:
    """When a living process started, in clock ticks since boot. Raises OSError if it is gone."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return stat.start_time


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    group: int
    start_time: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name in parentheses may hold anything, blanks and parentheses too
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(fields[0], int(fields[2]), int(fields[19]))


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
