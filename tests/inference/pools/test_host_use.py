"""CPU and memory of real process groups, by the kernel's own count."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from inference.contract.kinds import Task
from inference.pools.groups import GroupRecord, start_time_of
from inference.pools.host_use import HostUse
from tests.inference.clocks import HandClock

pytestmark = pytest.mark.slow

# The leader burns a given CPU time with a child beside it, says so, and waits.
LEADER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
held = bytearray(64 << 20)
for line in sys.stdin:
    end = time.process_time() + float(line)
    while time.process_time() < end:
        pass
    print("burnt", flush=True)
child.communicate(b"\\n")
"""
HELD_BYTES = 64 << 20


class Burner:
    """A group of two processes that spends CPU on demand."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.record = record_of(self.process.pid)
        self.burn(0.0)

    def burn(self, seconds: float) -> None:
        """Spend so much CPU time and return."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "burnt\n"

    def end(self) -> None:
        self.process.communicate("")


def record_of(pid: int) -> GroupRecord:
    return GroupRecord(
        name="worker-pool_a-0",
        pid=pid,
        start_time=start_time_of(pid),
        spec_digest="d",
        kind="worker",
        worker_id="pool_a-0",
        pool_id="pool_a",
        port=1,
        served_model_name="smol",
        task=Task.GENERATE,
        drain_timeout_s=1,
    )


@pytest.fixture
def burner() -> Iterator[Burner]:
    made = Burner()
    yield made
    made.end()


def test_cpu_is_the_share_of_all_cpus_between_two_looks(burner: Burner) -> None:
    clock = HandClock()
    host = HostUse(stopwatch=clock, cpus=4)
    assert host.look([burner.record])["pool_a-0"].cpu is None
    burner.burn(0.3)
    clock.move(1.0)
    use = host.look([burner.record])["pool_a-0"]
    assert use.cpu == pytest.approx(100 * 0.3 / 4, rel=0.2)
    clock.move(1.0)
    assert host.look([burner.record])["pool_a-0"].cpu == pytest.approx(0, abs=1)


def test_memory_is_resident_and_of_the_whole_group(burner: Burner) -> None:
    use = HostUse(stopwatch=time.monotonic).look([burner.record])["pool_a-0"]
    assert len(use.pids) == 2
    assert burner.process.pid in use.pids
    assert HELD_BYTES < use.memory_bytes < HELD_BYTES + (256 << 20)


def test_two_looks_at_one_moment_say_nothing_of_cpu(burner: Burner) -> None:
    host = HostUse(stopwatch=HandClock())
    host.look([burner.record])
    assert host.look([burner.record])["pool_a-0"].cpu is None


def test_a_group_that_was_not_looked_at_meanwhile_begins_anew(burner: Burner) -> None:
    clock = HandClock()
    host = HostUse(stopwatch=clock)
    host.look([burner.record])
    host.look([])
    clock.move(1.0)
    assert host.look([burner.record])["pool_a-0"].cpu is None


def gone(record: GroupRecord) -> GroupRecord:
    """A group number nobody has."""
    return replace(record, pid=2**22 + 1)


def reused(record: GroupRecord) -> GroupRecord:
    """The group of a leader that had this pid before."""
    return replace(record, start_time=record.start_time - 1)


@pytest.mark.parametrize("other", [gone, reused])
def test_nothing_is_said_of_a_group_that_is_gone_or_another_s(
    burner: Burner, other: Callable[[GroupRecord], GroupRecord]
) -> None:
    assert HostUse(stopwatch=time.monotonic).look([other(burner.record)]) == {}


def test_a_group_whose_leader_ended_is_still_measured() -> None:
    command = "import os, sys, subprocess; subprocess.Popen([sys.executable, '-c', 'input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", f"{command}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        record = record_of(leader.pid)
        os.kill(leader.pid, 9)
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        use = HostUse(stopwatch=time.monotonic).look([record])["pool_a-0"]
        assert len(use.pids) == 1
        assert leader.pid not in use.pids
        os.killpg(leader.pid, 9)
