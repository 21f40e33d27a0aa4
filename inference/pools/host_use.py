"""What process groups take of their host: CPU and memory by /proc.

Belongs to a thread: a look at a host of a thousand processes takes some 20 ms.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inference.pools.groups import GroupRecord

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DEAD_STATES = (b"Z", b"X")


@dataclass(frozen=True, slots=True)
class GroupUse:
    """`cpu` is in per cent of all CPUs of the host, None at the first look at a group.

    `memory_bytes` is resident memory (RSS) summed over its processes, so what they share counts
    once a process. `pids` are its living processes.
    """

    cpu: float | None
    memory_bytes: int
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    group: int
    start_time: int
    cpu_ticks: int
    memory_bytes: int


@dataclass(slots=True)
class _Look:
    """What was seen of a group: CPU time by (pid, start time) of its processes."""

    at_s: float
    ticks: dict[tuple[int, int], int] = field(default_factory=dict)


class HostUse:
    """Looks at process groups again and again. `stopwatch` gives seconds; CPU is taken between
    two looks, so a process that ended in between takes the last of its time with it.
    """

    def __init__(self, *, stopwatch: Callable[[], float], cpus: int | None = None) -> None:
        self._stopwatch = stopwatch
        self._cpus = cpus or os.cpu_count() or 1
        self._looks: dict[tuple[int, int], _Look] = {}

    def look(self, groups: Sequence[GroupRecord]) -> Mapping[str, GroupUse]:
        """Measure these groups, by worker id; one of which nothing is left is left out."""
        if not groups:
            self._looks = {}
            return {}
        now_s = self._stopwatch()
        members: dict[int, list[_Process]] = {record.pid: [] for record in groups}
        for process in _processes():
            if process.group in members:
                members[process.group].append(process)
        before, self._looks = self._looks, {}
        uses = {}
        for record in groups:
            processes = members[record.pid]
            if processes and not _is_strangers(record, processes):
                key = (record.pid, record.start_time)
                uses[record.worker_id] = self._use(key, processes, before.get(key), now_s)
        return uses

    def _use(
        self,
        key: tuple[int, int],
        processes: Sequence[_Process],
        before: _Look | None,
        now_s: float,
    ) -> GroupUse:
        ticks = {(one.pid, one.start_time): one.cpu_ticks for one in processes}
        self._looks[key] = _Look(now_s, ticks)
        return GroupUse(
            cpu=None if before is None else self._share(ticks, before, now_s),
            memory_bytes=sum(one.memory_bytes for one in processes),
            pids=tuple(one.pid for one in processes),
        )

    def _share(
        self, ticks: Mapping[tuple[int, int], int], before: _Look, now_s: float
    ) -> float | None:
        passed_s = now_s - before.at_s
        if passed_s <= 0:
            return None
        spent = sum(count - before.ticks.get(process, 0) for process, count in ticks.items())
        share = 100.0 * spent / _TICKS_PER_S / passed_s / self._cpus
        return min(max(share, 0.0), 100.0)


def _is_strangers(record: GroupRecord, processes: Sequence[_Process]) -> bool:
    """Whether the group's number belongs to somebody else by now."""
    return any(one.pid == record.pid and one.start_time != record.start_time for one in processes)


def _processes() -> Iterator[_Process]:
    for name in os.listdir(_PROC):
        if name.isdigit():
            process = _process(int(name))
            if process is not None:
                yield process


def _process(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:
        return None
    # the name in parentheses may hold anything, blanks and parentheses too
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 22 or fields[0] in _DEAD_STATES:
        return None
    return _Process(
        pid=pid,
        group=int(fields[2]),
        start_time=int(fields[19]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )
