"""What a soak says of memory: that it grew, and that nobody can tell."""

import pytest

from benchmarks.soak_memory import MUST_BE_JUDGED, Memory

MB = 1_000_000


def memory_of(*roles: str, lived_s: float = 400.0, last_mb: float = 100.0) -> Memory:
    """A process of each role, sampled every five seconds."""
    memory = Memory()
    for pid, role in enumerate(roles):
        ages = [float(age_s) for age_s in range(0, int(lived_s) + 1, 5)]
        sizes = [int((100 if age_s < lived_s / 2 else last_mb) * MB) for age_s in ages]
        memory.samples[role, pid] = list(zip(ages, sizes, strict=True))
    return memory


def test_processes_that_stay_as_they_are_are_no_fault() -> None:
    assert memory_of(*MUST_BE_JUDGED).faults(30) == []


def test_one_that_grew_is_named_with_its_size() -> None:
    (fault,) = memory_of("feed", last_mb=106).faults(5)
    assert fault == "the feed (0) grew by 6.0% to 106.0 MB in 400 s"


@pytest.mark.parametrize("role", MUST_BE_JUDGED)
def test_a_role_of_which_nobody_can_tell_is_a_fault_of_a_soak_that_was_long_enough(
    role: str,
) -> None:
    others = [one for one in MUST_BE_JUDGED if one != role]
    memory = memory_of(*others)
    memory.samples.update(memory_of(*others, role, lived_s=299).samples | memory.samples)
    (fault,) = memory.faults(8)
    assert fault == f"no {role} was seen for long enough to judge its memory"
    assert memory.faults(7.9) == []
