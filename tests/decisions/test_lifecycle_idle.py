"""Workers that are to run without being sent anything, without a process or a clock."""

import math
from dataclasses import replace

import pytest

from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import PoolPower, ProcessRole, Task, WorkerState
from inference.contract.vitals import Applied, Vitals, WorkerGauges
from inference.decisions.adoption import adopt
from inference.decisions.lifecycle import (
    FAILED_PROBES,
    Act,
    Presence,
    Sighting,
    Step,
    Worker,
    WorkerSpec,
    make_spec,
)
from inference.decisions.release import Heard, is_released
from tests.decisions.workers import ALIVE, GONE, GOOD, NOW, POOL, only, plan, spec, worker

CORDONED = replace(POOL, cordoned=(0,))
LEFT = frozenset({"pool_a-0"})


def idle(ordinal: int = 0, digest: str = "old") -> WorkerSpec:
    return spec(ordinal, digest, CORDONED)


def draining(**fields: object) -> Worker:
    begun = only(plan([idle()], [worker(WorkerState.READY)])).worker
    return replace(begun, drain_generation=7, **fields)  # type: ignore[arg-type]


def drained() -> Worker:
    return only(plan([idle()], [draining()], released=LEFT)).worker


@pytest.mark.parametrize("pool", [CORDONED, replace(POOL, power=PoolPower.DRAINED)])
def test_a_worker_that_is_to_be_idle_drains_for_as_long_as_it_takes_and_runs_on(
    pool: object,
) -> None:
    specs = [spec(pool=pool)]  # type: ignore[arg-type]
    step = only(plan(specs, [worker(WorkerState.READY)]))
    assert (step.act, step.worker.state) == (Act.NONE, WorkerState.DRAINING)
    assert step.worker.patience_s == math.inf
    assert plan(specs, [step.worker], now=NOW + 99_999) == ()
    left = only(plan(specs, [step.worker], now=NOW + 5, released=LEFT))
    assert (left.act, left.worker.state) == (Act.NONE, WorkerState.DRAINED)
    assert plan(specs, [left.worker], now=NOW + 99_999) == ()


def test_an_idle_worker_serves_again_once_it_may_and_is_well() -> None:
    for one in (draining(), drained()):
        assert plan([spec()], [one], ALIVE) == ()
        back = only(plan([spec()], [one], GOOD, now=NOW + 9)).worker
        assert (back.state, back.ready_at) == (WorkerState.READY, NOW + 9)
        assert (back.drain_generation, back.patience_s) == (None, 0.0)


def test_only_the_cordoned_worker_of_a_pool_is_idle() -> None:
    specs = [idle(0), idle(1)]
    step = only(plan(specs, [worker(WorkerState.READY, n) for n in (0, 1)]))
    assert (step.worker.id, step.worker.state) == ("pool_a-0", WorkerState.DRAINING)


def test_an_idle_worker_that_dies_is_started_again_and_is_idle_again() -> None:
    dead = only(plan([idle()], [drained()], GONE)).worker
    assert dead.state is WorkerState.BACKING_OFF
    begun = only(plan([idle()], [dead], GONE, now=NOW + 1))
    assert (begun.act, begun.worker.state) == (Act.START, WorkerState.STARTING)
    proved = only(plan([idle()], [begun.worker], GOOD, now=NOW + 2)).worker
    assert (proved.state, proved.ready_at) == (WorkerState.DRAINING, NOW + 2)
    assert proved.drain_generation is None


def test_an_idle_worker_that_fails_its_probes_says_so_and_comes_back_idle() -> None:
    sick = Sighting(Presence.RUNNING, True, FAILED_PROBES, "no answer within 5 s")
    out = only(plan([idle()], [drained()], sick)).worker
    assert (out.state, out.detail) == (WorkerState.FAILED, "no answer within 5 s")
    back = only(plan([idle()], [out], GOOD, now=NOW + 5)).worker
    assert (back.state, back.patience_s) == (WorkerState.DRAINING, math.inf)


def test_a_stop_gives_an_idle_worker_that_still_drains_its_time_from_then_on() -> None:
    leaving = only(plan([], [draining()], now=NOW + 1_000)).worker
    assert (leaving.state, leaving.patience_s) == (WorkerState.DRAINING, 30)
    assert (leaving.changed_at, leaving.drain_generation) == (NOW + 1_000, 7)
    assert plan([], [leaving], now=NOW + 1_029) == ()
    assert only(plan([], [leaving], now=NOW + 1_001, released=LEFT)).act is Act.TERMINATE


def test_a_drained_worker_that_is_to_end_ends_as_soon_as_nobody_is_there() -> None:
    leaving = only(plan([], [drained()])).worker
    assert (leaving.state, leaving.drain_generation) == (WorkerState.DRAINING, 7)
    assert only(plan([], [leaving], released=LEFT)).act is Act.TERMINATE


def test_a_worker_that_leaves_and_is_wanted_idle_stays() -> None:
    leaving = only(plan([], [worker(WorkerState.READY)])).worker
    kept = only(plan([idle()], [leaving]))
    assert kept == Step(replace(leaving, patience_s=math.inf))


def test_an_idle_worker_holds_up_no_replacement_of_the_others_and_is_replaced_itself() -> None:
    ready = worker(WorkerState.READY, 1)
    steps = plan([idle(0, "new"), spec(1, "new")], [drained(), ready])
    assert [(one.worker.id, one.worker.state) for one in steps] == [
        ("pool_a-0", WorkerState.DRAINING)
    ]
    renewed = replace(drained(), digest="new")
    step = only(plan([idle(0, "new"), spec(1, "new")], [renewed, ready]))
    assert (step.worker.id, step.worker.state) == ("pool_a-1", WorkerState.DRAINING)


def test_a_server_that_is_not_ours_is_idle_from_the_start_and_back_at_once() -> None:
    begun = only(plan([idle()], [], owns_processes=False)).worker
    assert begun.state is WorkerState.DRAINING
    left = only(plan([idle()], [begun], owns_processes=False, released=LEFT)).worker
    assert left.state is WorkerState.DRAINED
    back = only(plan([spec()], [left], owns_processes=False)).worker
    assert back.state is WorkerState.READY


def test_a_restart_of_one_worker_is_a_digest_of_its_own() -> None:
    pool = replace(POOL, worker_restarts={"1": 2})
    made = [make_spec(pool, ordinal, task=Task.GENERATE, digest="d") for ordinal in range(3)]
    assert [one.digest for one in made] == ["d", "d+2", "d"]
    assert [one.id for one in made] == ["pool_a-0", "pool_a-1", "pool_a-2"]


ENTRY = WorkerEntry("pool_a-0", "pool_a", "http://127.0.0.1:8501/v1", WorkerState.DRAINED, 500.0)


def test_an_adopted_worker_stays_drained() -> None:
    adopted = adopt(worker(WorkerState.STARTING), ENTRY, NOW)
    assert (adopted.state, adopted.changed_at) == (WorkerState.DRAINED, 500.0)
    assert plan([idle()], [adopted], ALIVE, now=NOW + 999) == ()


def test_an_adopted_drained_worker_holds_up_no_restart_of_the_others() -> None:
    adopted = adopt(worker(WorkerState.STARTING), ENTRY, NOW)
    restarted = make_spec(
        replace(CORDONED, worker_restarts={"1": 1}), 1, task=Task.GENERATE, digest="old"
    )
    step = only(plan([idle(), restarted], [adopted, worker(WorkerState.READY, 1)]))
    assert (step.worker.id, step.worker.state) == ("pool_a-1", WorkerState.DRAINING)


def test_an_adopted_worker_that_drains_to_be_kept_has_no_deadline_though_it_is_not_seen_well() -> (
    None
):
    adopted = adopt(worker(WorkerState.STARTING), replace(ENTRY, state=WorkerState.DRAINING), NOW)
    kept = only(plan([idle()], [adopted], ALIVE))
    assert kept == Step(replace(adopted, patience_s=math.inf))
    assert plan([idle()], [kept.worker], ALIVE, now=NOW + 9_999) == ()


def test_an_adopted_worker_that_was_draining_has_all_its_time_and_must_prove_itself() -> None:
    entry = replace(ENTRY, state=WorkerState.DRAINING)
    adopted = adopt(worker(WorkerState.STARTING), entry, NOW)
    assert (adopted.state, adopted.patience_s) == (WorkerState.DRAINING, 30)
    assert plan([], [adopted], ALIVE, now=NOW + 29) == ()
    assert plan([spec()], [adopted], ALIVE, now=NOW + 1) == ()
    assert only(plan([spec()], [adopted], GOOD)).worker.state is WorkerState.READY


def gateway(generation: int, inflight: int = 0) -> Vitals:
    return Vitals(
        role=ProcessRole.GATEWAY,
        gateway="gw",
        process="gw/0",
        pid=1,
        started_at=0,
        written_at=NOW,
        applied=Applied(),
        directory_generation=generation,
        inflight={"pool_a-0": inflight},
    )


def leader(**gauges: object) -> Vitals:
    measured = replace(
        WorkerGauges(worker_id="pool_a-0", pool_id="pool_a", at=NOW, running=0, waiting=0),
        **gauges,  # type: ignore[arg-type]
    )
    return replace(gateway(0), role=ProcessRole.POOLS, is_leader=True, workers=(measured,))


@pytest.mark.parametrize(
    ("gauges", "released"),
    [
        ({}, True),
        ({"running": 1}, False),
        ({"waiting": 1}, False),
        ({"waiting": None}, True),
        ({"running": None}, False),
        ({"at": NOW - 1}, False),
        ({"worker_id": "pool_a-1"}, False),
    ],
)
def test_for_a_gateway_that_fell_silent_the_workers_own_count_decides(
    gauges: dict[str, object], released: bool
) -> None:
    silent = Heard([gateway(7), leader(**gauges)], frozenset({"gw-2/0"}))
    assert is_released(draining(), silent) is released
    assert is_released(draining(), replace(silent, silent=frozenset())) is True


def test_where_no_gateway_is_heard_the_workers_own_count_decides() -> None:
    assert is_released(draining(), Heard([leader()])) is True
    assert is_released(draining(), Heard([leader(running=1)])) is False
    assert is_released(draining(), Heard([])) is False


def test_a_count_of_nothing_does_not_overrule_a_gateway_that_lives() -> None:
    assert is_released(draining(), Heard([gateway(7, 1), leader()], frozenset({"x/0"}))) is False
