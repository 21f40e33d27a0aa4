"""Process groups on record: nothing runs that a later start could not find and end.

A group is led by the process of the record and lives in its own session. The record is written
before the process runs its command, so there is no moment in which it could be lost.
"""

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

_POLL_S = 0.03
_RARELY_S = 0.2
_AFTER_LEADER_S = 1.0
_AFTER_KILL_S = 5.0
_GONE_STATES = ("Z", "X")
# Holds the new process until its record is on disk; if we die before, it reads the end and leaves.
_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@"', "headworks")

POSTGRES = "postgres"
STORE = "store"
GATEWAY = "gateway"
POOLS = "pools"
WORKER = "worker"
CONSOLE = "console"
JOBS = "jobs"
RECORDER = "recorder"
FEED = "feed"
HELPER = "helper"
TASK = "task"


@dataclass(frozen=True, slots=True)
class Account:
    """The operating-system user a process runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How one process is started. `feed` is what it reads on its standard input."""

    name: str
    kind: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    folder: Path
    account: Account | None = None
    pass_fds: tuple[int, ...] = ()
    feed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Which process group this is; `start_time`, in ticks since boot, tells reused pids apart."""

    name: str
    pid: int
    start_time: int
    spec_digest: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_time: int


def start_group(start: Start, groups: Path) -> subprocess.Popen[bytes]:
    """Start a process as the leader of a new session, recorded in `groups` before it runs.

    Raises OSError if it cannot be started; nothing is left then.
    """
    account = start.account
    with start.log.open("ab") as log:
        process = subprocess.Popen(
            (*_GATE, *start.command),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=start.folder,
            env=dict(start.environment),
            start_new_session=True,
            pass_fds=start.pass_fds,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=() if account else None,
        )
    assert process.stdin is not None
    try:
        write_record(record_of(start, process.pid), groups)
        process.stdin.write(b"go\n" + start.feed)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended before it had read all: its exit code and log say why
    except OSError:
        process.kill()
        process.wait()
        raise
    return process


def record_of(start: Start, pid: int) -> GroupRecord:
    """Describe a process that was just started."""
    stat = _read_stat(pid)
    return GroupRecord(
        name=start.name,
        pid=pid,
        start_time=stat.start_time if stat else 0,
        spec_digest=digest_of(start.command, start.environment),
        kind=start.kind,
    )


def digest_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Name a start line with its environment, without disclosing either."""
    text = json.dumps([list(command), sorted(environment.items())])
    return hashlib.sha256(text.encode()).hexdigest()


def write_record(record: GroupRecord, groups: Path) -> None:
    """Write a record so that a reader sees all of it or nothing."""
    path = groups / f"{record.name}.json"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(record), file)
    partial.replace(path)


def read_records(groups: Path) -> tuple[GroupRecord, ...]:
    """Every record that can be read, by name; keys that are not ours are ignored."""
    found = (_read_record(path) for path in sorted(groups.glob("*.json")))
    return tuple(record for record in found if record is not None)


def read_record(groups: Path, name: str) -> GroupRecord | None:
    """One record by its name, or None."""
    return _read_record(groups / f"{name}.json")


def remove_record(record: GroupRecord, groups: Path) -> None:
    """Forget a group, unless the record meanwhile names another process."""
    path = groups / f"{record.name}.json"
    if _read_record(path) == record:
        path.unlink(missing_ok=True)


def _read_record(path: Path) -> GroupRecord | None:
    try:
        raw = json.loads(path.read_bytes())
        return GroupRecord(
            name=str(raw["name"]),
            pid=int(raw["pid"]),
            start_time=int(raw["start_time"]),
            spec_digest=str(raw.get("spec_digest", "")),
            kind=str(raw["kind"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def start_time_of(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is no such process."""
    stat = _read_stat(pid)
    return stat.start_time if stat else None


def is_leader_alive(record: GroupRecord) -> bool:
    """Whether the process of the record itself still runs."""
    return _is_alive(record.pid, record.start_time)


def _is_alive(pid: int, start_time: int) -> bool:
    stat = _read_stat(pid)
    return stat is not None and stat.start_time == start_time and stat.state not in _GONE_STATES


def members_of(record: GroupRecord) -> tuple[int, ...]:
    """Every living process of the group or its session; empty if the pid is somebody else's now."""
    leader = _read_stat(record.pid)
    if record.pid <= 1 or (leader is not None and leader.start_time != record.start_time):
        return ()
    # PostgreSQL's servers leave the group for sessions of their own; their parent gives them away.
    by_parent = record.kind == POSTGRES
    return tuple(
        stat.pid
        for stat in _all_stats()
        if stat.state not in _GONE_STATES
        and (record.pid in (stat.group, stat.session) or (by_parent and stat.parent == record.pid))
    )


def _all_stats() -> Iterable[_Stat]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = _read_stat(int(entry))
            if stat is not None:
                yield stat


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, blanks and parentheses too.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_time=int(fields[19]),
    )


@dataclass(slots=True)
class _Ending:
    """One group on its way out: who was told what, and what comes next when."""

    record: GroupRecord
    signals: list[signal.Signals]
    next_at: float
    after_leader_s: float
    is_group_told: bool = False
    is_killed: bool = False
    seen: dict[int, int] = field(default_factory=dict)

    def step(self, now: float, patience_s: float) -> bool:
        """Do what is due; True once nothing of the group is left."""
        members = self._members()
        if not members:
            return True
        if self.record.pid not in members and not self.is_group_told and not self.is_killed:
            self._tell_group(members, now)
        elif now >= self.next_at:
            self._escalate(members, now, patience_s)
        return False

    def _members(self) -> tuple[int, ...]:
        """The group, and what was seen in it before and lives on outside it."""
        for pid in members_of(self.record):
            stat = _read_stat(pid)
            if stat is not None:
                self.seen[pid] = stat.start_time
        return tuple(pid for pid, start in self.seen.items() if _is_alive(pid, start))

    def _tell_group(self, members: Sequence[int], now: float) -> None:
        self.is_group_told = True
        self.signals = []
        self.next_at = now + self.after_leader_s
        _send(signal.SIGTERM, members)

    def _escalate(self, members: Sequence[int], now: float, patience_s: float) -> None:
        if self.signals:
            _send(self.signals.pop(0), (self.record.pid,))
            self.next_at = now + patience_s
        else:
            # Also on every later step: a group that forks while it is killed must lose the race.
            self.is_killed = True
            _send(signal.SIGKILL, members)


def end_groups(
    records: Sequence[GroupRecord],
    *,
    grace_s: float,
    after_leader_s: float = _AFTER_LEADER_S,
    is_hurried: Callable[[], bool] = lambda: False,
) -> tuple[GroupRecord, ...]:
    """End whole groups side by side and return those of which something is left (should be none).

    The leader is asked first and given `grace_s`; what outlives it is asked, and killed after
    `after_leader_s`.
    """
    began = now = time.monotonic()
    endings = [
        _Ending(record, _polite_signals(record.kind), now, after_leader_s) for record in records
    ]
    most_signals = max((len(ending.signals) for ending in endings), default=0)
    deadline = now + grace_s * most_signals + after_leader_s + _AFTER_KILL_S
    while True:
        now = time.monotonic()
        if is_hurried():
            _hurry(endings, now)
        endings = [ending for ending in endings if not ending.step(now, grace_s)]
        if not endings or now >= deadline:
            return tuple(ending.record for ending in endings)
        # each look reads of every process there is, which takes from those that are to end
        time.sleep(max(_POLL_S, min((now - began) / 8, _RARELY_S)))


def _hurry(endings: Iterable[_Ending], now: float) -> None:
    for ending in endings:
        ending.next_at = min(ending.next_at, now + _AFTER_LEADER_S)
        if ending.record.kind not in (POSTGRES, STORE):
            ending.signals, ending.next_at = [], now


def _polite_signals(kind: str) -> list[signal.Signals]:
    """What the leader is told, in turn. PostgreSQL: fast shutdown, then an immediate one."""
    if kind == POSTGRES:
        return [signal.SIGINT, signal.SIGQUIT]
    return [signal.SIGTERM]


def _send(what: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            continue
