"""Resident memory of every process of an installation, over its life."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

WARM_UP_S = 120.0
WINDOW_S = 60.0
MOST_GROWTH = 0.05
# Less than this is how an allocator cuts its pages, even where it is much of a small process.
LEAST_GROWTH_BYTES = 1_000_000
JUDGED_AFTER_S = WARM_UP_S + 3 * WINDOW_S

LEAST_MINUTES = 8.0
"""A soak this long has processes of each of `MUST_BE_JUDGED` that lived long enough to tell."""

MUST_BE_JUDGED = ("gateway process", "gateway parent", "console", "state store")

_ROLES = {
    "gateway-child": "gateway process",
    "inference gateway": "gateway parent",
    "inference pools": "supervisor",
    "record_usage": "recorder",
    "run_feed": "feed",
    "celery": "jobs",
    "uvicorn": "console",
    "state.sock": "state store",
    "cache.sock": "cache store",
    "postgres -D": "database",
    "guardian": "guardian",
    "controlplane.local run": "launcher",
}


@dataclass
class Memory:
    """Samples by role and process: seconds since the process was first seen, and bytes."""

    samples: dict[tuple[str, int], list[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    first_seen: dict[int, float] = field(default_factory=dict)

    def sample(self, processes: Mapping[int, str]) -> None:
        """Take one sample of each process whose role is known."""
        now = time.monotonic()
        for pid, line in processes.items():
            role = next((role for words, role in _ROLES.items() if words in line), None)
            resident = _resident_bytes(pid)
            if role is not None and resident is not None:
                age_s = now - self.first_seen.setdefault(pid, now)
                self.samples[role, pid].append((age_s, resident))

    def faults(self, minutes: float) -> list[str]:
        """What a soak of so many minutes says against memory.

        Processes that grew by more than `MOST_GROWTH` after they had warmed up; and of a soak that
        was long enough, roles of which nobody can tell.
        """
        grown = self._grown()
        found = [
            f"the {role} ({pid}) grew by {growth:.1%} to {after / 1e6:.1f} MB in {lived_s:.0f} s"
            for role, pid, lived_s, after, growth in grown
            if growth > MOST_GROWTH and after - after / (1 + growth) > LEAST_GROWTH_BYTES
        ]
        judged = {role for role, *_ in grown}
        if minutes >= LEAST_MINUTES:
            found += [
                f"no {role} was seen for long enough to judge its memory"
                for role in MUST_BE_JUDGED
                if role not in judged
            ]
        return found

    def summary(self) -> str:
        lines = ["memory of processes that lived long enough to tell:"]
        lines += [
            f"  {role:<16} {lived_s / 60:5.1f} min  {after / 1e6:7.1f} MB  {growth:+.1%}"
            for role, _, lived_s, after, growth in self._grown()
        ]
        return "\n".join(lines)

    def _grown(self) -> list[tuple[str, int, float, int, float]]:
        found = []
        for (role, pid), samples in sorted(self.samples.items()):
            lived_s = samples[-1][0]
            if lived_s < JUDGED_AFTER_S:
                continue
            before = _median(samples, WARM_UP_S, WARM_UP_S + WINDOW_S)
            after = _median(samples, lived_s - WINDOW_S, lived_s)
            found.append((role, pid, lived_s, after, after / before - 1))
        return found


def _median(samples: Sequence[tuple[float, int]], since_s: float, until_s: float) -> int:
    """The middle of what was seen then, or the nearest to it where a harm took all that time."""
    within = [size for age_s, size in samples if since_s <= age_s <= until_s]
    if within:
        return int(median(within))
    middle_s = (since_s + until_s) / 2
    return min(samples, key=lambda sample: abs(sample[0] - middle_s))[1]


def _resident_bytes(pid: int) -> int | None:
    """Resident memory, what it shares with others included, or None if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    rows = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(rows["VmRSS"].split()[0]) * 1024 if "VmRSS" in rows else None
