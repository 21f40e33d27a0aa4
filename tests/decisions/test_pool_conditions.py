"""How a pool is told to be, by what its supervisor says."""

from dataclasses import replace

import pytest

from controlplane.decisions.pool_conditions import Condition, ConditionKind, Wanted, condition_of
from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import WorkerState

READY, STARTING, FAILED = WorkerState.READY, WorkerState.STARTING, WorkerState.FAILED
BACKING_OFF, DRAINING = WorkerState.BACKING_OFF, WorkerState.DRAINING
DRAINED = WorkerState.DRAINED
PROCESS = Wanted("small", "process", "running", replicas=2, addresses=0)
STATIC = Wanted("far", "static", "running", replicas=1, addresses=2)


def entries(*states: WorkerState, detail: str | None = None) -> list[WorkerEntry]:
    return [
        WorkerEntry(f"pool_1-{place}", "pool_1", "http://127.0.0.1:1/v1", state, 0.0, detail=detail)
        for place, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("states", "kind", "ready", "reason"),
    [
        ((READY, READY), ConditionKind.READY, 2, ""),
        ((READY, READY, DRAINING), ConditionKind.READY, 2, ""),
        ((READY, STARTING), ConditionKind.DEGRADED, 1, "small/1 starting"),
        ((READY,), ConditionKind.DEGRADED, 1, "1 not started yet"),
        ((STARTING, FAILED), ConditionKind.STARTING, 0, "small/1 failed"),
        ((FAILED, BACKING_OFF), ConditionKind.DOWN, 0, "small/0 failed"),
        ((), ConditionKind.STARTING, 0, "2 not started yet"),
    ],
)
def test_a_pool_of_ours_is_as_its_workers_are_and_says_why(
    states: tuple[WorkerState, ...], kind: ConditionKind, ready: int, reason: str
) -> None:
    found = condition_of(PROCESS, entries(*states), has_leader=True)
    assert found == Condition(kind, 2, ready, reason)


def test_a_worker_s_own_words_are_part_of_the_reason() -> None:
    found = condition_of(PROCESS, entries(READY, FAILED, detail="out of memory"), has_leader=True)
    assert found.reason == "small/1 failed: out of memory"


def test_without_a_leader_nothing_starts_and_that_is_said() -> None:
    assert condition_of(PROCESS, [], has_leader=False) == Condition(
        ConditionKind.DOWN, 2, 0, "no supervisor leads, so nothing starts"
    )


def test_an_address_is_ready_until_its_check_fails() -> None:
    checked = condition_of(STATIC, entries(READY, READY), has_leader=True)
    assert checked == Condition(ConditionKind.READY, 2, 2)
    assert condition_of(STATIC, entries(READY, FAILED), has_leader=True) == Condition(
        ConditionKind.DEGRADED, 2, 1, "far/1 failed"
    )
    assert condition_of(STATIC, entries(FAILED, FAILED), has_leader=True).kind is ConditionKind.DOWN
    left = condition_of(STATIC, entries(READY, READY), has_leader=False)
    assert left == Condition(ConditionKind.READY, 2, 2, "not checked: no supervisor leads")


@pytest.mark.parametrize(
    ("has_leader", "reason"),
    [
        (True, "gateways send to it meanwhile"),
        (False, "no supervisor leads; gateways send to it meanwhile"),
    ],
)
def test_addresses_that_nobody_looked_at_yet_are_said_to_be_unchecked_and_not_to_be_ready(
    has_leader: bool, reason: str
) -> None:
    found = condition_of(STATIC, [], has_leader=has_leader)
    assert found == Condition(ConditionKind.NOT_CHECKED_YET, 2, None, reason)


def test_of_addresses_only_those_that_were_looked_at_count_as_ready() -> None:
    assert condition_of(STATIC, entries(READY), has_leader=True) == Condition(
        ConditionKind.READY, 2, 1, "1 of 2 not checked yet"
    )
    # the other one may serve
    assert condition_of(STATIC, entries(FAILED), has_leader=True) == Condition(
        ConditionKind.DEGRADED, 2, 0, "far/0 failed"
    )


def test_an_unreadable_directory_is_unknown_and_never_nothing_ready() -> None:
    assert condition_of(PROCESS, None, has_leader=False) == Condition(
        ConditionKind.UNKNOWN, 2, None, "the state store is not answering"
    )


def test_a_stopped_pool_is_stopped_and_tells_who_is_still_leaving() -> None:
    stopped = Wanted("small", "process", "stopped", replicas=2, addresses=0)
    assert condition_of(stopped, [], has_leader=True) == Condition(ConditionKind.STOPPED, 0, 0)
    assert condition_of(stopped, entries(DRAINING), has_leader=True).reason == (
        "1 still ending requests"
    )
    empty = Wanted("small", "process", "running", replicas=0, addresses=0)
    assert condition_of(empty, [], has_leader=True).reason == "no replicas are wanted"


@pytest.mark.parametrize(
    ("wanted", "states", "told"),
    [
        (
            replace(PROCESS, power="drained"),
            (READY, DRAINING),
            Condition(ConditionKind.DRAINING, 2, 1, "0 of 2 drained"),
        ),
        (
            replace(PROCESS, power="drained"),
            (DRAINED, DRAINING),
            Condition(ConditionKind.DRAINING, 2, 0, "1 of 2 drained"),
        ),
        (
            replace(PROCESS, power="drained"),
            (DRAINED, DRAINED),
            Condition(ConditionKind.DRAINED, 2, 0, ""),
        ),
        (
            replace(PROCESS, power="drained"),
            (DRAINED, FAILED),
            Condition(ConditionKind.DRAINED, 2, 0, "small/1 failed"),
        ),
        (
            replace(STATIC, power="drained"),
            (DRAINED,),
            Condition(ConditionKind.DRAINING, 2, 0, "1 of 2 drained"),
        ),
        (
            replace(PROCESS, cordoned=[1]),
            (READY, DRAINED),
            Condition(ConditionKind.READY, 2, 1, "1 of 2 drained by hand"),
        ),
        (
            replace(STATIC, cordoned=[1]),
            (READY, DRAINED),
            Condition(ConditionKind.READY, 2, 1, "1 of 2 drained by hand"),
        ),
        (
            replace(PROCESS, cordoned=[1]),
            (FAILED, DRAINED),
            Condition(ConditionKind.DOWN, 2, 0, "small/0 failed"),
        ),
        (
            replace(PROCESS, cordoned=[0, 1, 7]),
            (DRAINED, DRAINED),
            Condition(ConditionKind.DRAINED, 2, 0, ""),
        ),
    ],
)
def test_what_is_drained_on_purpose_is_no_trouble_and_told_until_it_is_done(
    wanted: Wanted, states: tuple[WorkerState, ...], told: Condition
) -> None:
    assert condition_of(wanted, entries(*states), has_leader=True) == told
