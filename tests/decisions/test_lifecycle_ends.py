"""How workers end, are replaced one by one, and are adopted, without a process or a clock."""

from dataclasses import replace

import pytest

from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import ProcessRole, WorkerState
from inference.contract.vitals import Applied, Vitals
from inference.decisions.adoption import adopt, entry_of
from inference.decisions.lifecycle import (
    KILL_GRACE_S,
    Act,
    Authority,
    Presence,
    Sighting,
    Step,
    Worker,
    WorkerSpec,
    set_back,
)
from inference.decisions.release import Heard, is_released
from tests.decisions.workers import ALIVE, GONE, GOOD, NOW, POOL, only, plan, spec, worker


def test_a_worker_no_longer_wanted_drains_until_the_gateways_have_left_it() -> None:
    draining = only(plan([], [worker(WorkerState.READY)])).worker
    assert (draining.state, draining.patience_s) == (WorkerState.DRAINING, 30)
    assert plan([], [draining], now=NOW + 29.9) == ()
    told = only(plan([], [draining], now=NOW + 3, released=frozenset({"pool_a-0"})))
    assert told == Step(replace(draining, told_at=NOW + 3), Act.TERMINATE)
    assert plan([], [told.worker], now=NOW + 30 + KILL_GRACE_S - 0.1) == ()
    assert only(plan([], [told.worker], now=NOW + 30 + KILL_GRACE_S)).act is Act.KILL
    assert only(plan([], [told.worker], GONE, now=NOW + 4)).act is Act.FORGET


def test_a_drain_that_nobody_acknowledges_ends_at_its_deadline() -> None:
    draining = only(plan([], [worker(WorkerState.READY)])).worker
    assert only(plan([], [draining], now=NOW + 30)).act is Act.TERMINATE


@pytest.mark.parametrize("state", [WorkerState.STARTING, WorkerState.FAILED])
def test_a_worker_that_never_served_is_ended_without_waiting(state: WorkerState) -> None:
    step = only(plan([], [worker(state)], ALIVE))
    assert (step.act, step.worker.state) == (Act.TERMINATE, WorkerState.DRAINING)
    killed = only(plan([], [step.worker], ALIVE, now=NOW + KILL_GRACE_S))
    assert killed.act is Act.KILL


def test_a_worker_that_waits_for_its_restart_is_just_forgotten() -> None:
    waiting = set_back(worker(WorkerState.READY), "died", NOW)
    assert only(plan([], [waiting], GONE)).act is Act.FORGET


def test_what_a_drained_leader_left_is_killed() -> None:
    draining = only(plan([], [worker(WorkerState.READY)])).worker
    assert only(plan([], [draining], Sighting(Presence.LEADERLESS))).act is Act.KILL


@pytest.mark.parametrize(("seen", "specs"), [(GOOD, []), (GONE, []), (GONE, [spec(digest="new")])])
@pytest.mark.parametrize("told_at", [None, NOW])
def test_a_caretaker_neither_ends_what_drains_nor_starts_another_in_its_place(
    seen: Sighting, specs: list[WorkerSpec], told_at: float | None
) -> None:
    draining = worker(WorkerState.DRAINING, changed_at=NOW, patience_s=30.0, told_at=told_at)
    late = NOW + 30 + KILL_GRACE_S
    steps = plan(specs, [draining], seen, now=late, authority=Authority.CARETAKER)
    assert [(one.act, one.worker) for one in steps] == []
    assert only(plan(specs, [draining], seen, now=late)).act is not Act.NONE


def test_a_drain_is_called_off_while_the_engine_has_not_been_told() -> None:
    draining = only(plan([], [worker(WorkerState.READY)])).worker
    back = only(plan([spec()], [replace(draining, drain_generation=7)], now=NOW + 5))
    assert (back.act, back.worker.state) == (Act.NONE, WorkerState.READY)
    assert back.worker.drain_generation is None
    told = replace(draining, told_at=NOW + 1)
    assert plan([spec()], [told], now=NOW + 5) == ()
    assert only(plan([spec()], [told], GONE, now=NOW + 5)).act is Act.START


def test_a_changed_spec_drains_the_worker_and_starts_it_anew_with_a_clean_record() -> None:
    ready = worker(WorkerState.READY, restarts=4, failures=2)
    draining = only(plan([spec(digest="new")], [ready])).worker
    assert draining.state is WorkerState.DRAINING
    step = only(plan([spec(digest="new")], [draining], GONE, now=NOW + 5))
    assert (step.act, step.worker.digest) == (Act.START, "new")
    assert (step.worker.restarts, step.worker.failures) == (0, 0)


def test_a_changed_spec_reaches_a_waiting_worker_without_its_back_off() -> None:
    waiting = set_back(worker(WorkerState.READY, failures=9), "died", NOW)
    assert only(plan([spec(digest="new")], [waiting], GONE)).act is Act.START


def test_replicas_take_a_changed_spec_one_after_another() -> None:
    specs = [spec(ordinal, "new") for ordinal in range(3)]
    old = [worker(WorkerState.READY, ordinal) for ordinal in range(3)]
    first = only(plan(specs, old))
    assert (first.worker.id, first.worker.state) == ("pool_a-0", WorkerState.DRAINING)
    assert plan(specs, [first.worker, *old[1:]]) == ()
    starting = worker(WorkerState.STARTING, 0, digest="new", started_at=NOW)
    assert plan(specs, [starting, *old[1:]], w0=ALIVE) == ()
    ready = worker(WorkerState.READY, 0, digest="new")
    second = only(plan(specs, [ready, *old[1:]]))
    assert (second.worker.id, second.worker.state) == ("pool_a-1", WorkerState.DRAINING)


def test_a_spec_that_never_gets_ready_leaves_the_other_replicas_serving() -> None:
    specs = [spec(ordinal, "new") for ordinal in range(2)]
    broken = set_back(worker(WorkerState.STARTING, 0, digest="new"), "bad argument", NOW)
    assert plan(specs, [broken, worker(WorkerState.READY, 1)], w0=GONE) == ()


def test_an_outdated_replica_that_dies_while_it_waits_comes_back_on_the_new_spec() -> None:
    specs = [spec(ordinal, "new") for ordinal in range(2)]
    starting = worker(WorkerState.STARTING, 0, digest="new", started_at=NOW)
    dead = only(plan(specs, [starting, worker(WorkerState.READY, 1)], w0=ALIVE, w1=GONE)).worker
    assert dead.state is WorkerState.BACKING_OFF
    step = only(plan(specs, [starting, dead], w0=ALIVE, w1=GONE))
    assert (step.act, step.worker.id, step.worker.digest) == (Act.START, "pool_a-1", "new")


def test_fewer_replicas_drain_the_highest_and_leave_the_rest_alone() -> None:
    step = only(plan([spec(0)], [worker(WorkerState.READY, 0), worker(WorkerState.READY, 1)]))
    assert (step.worker.id, step.worker.state) == ("pool_a-1", WorkerState.DRAINING)


def test_a_changed_drain_time_counts_without_a_restart() -> None:
    patient = replace(POOL, drain_timeout_s=300)
    step = only(plan([spec(pool=patient)], [worker(WorkerState.READY)]))
    assert step == Step(worker(WorkerState.READY, drain_timeout_s=300))


ENTRY = WorkerEntry(
    id="pool_a-0",
    pool_id="pool_a",
    base_url="http://127.0.0.1:8501/v1",
    state=WorkerState.READY,
    changed_at=500.0,
    uses_derived_key=True,
    restarts=3,
)


def found() -> Worker:
    return worker(WorkerState.STARTING, changed_at=0.0, started_at=None)


def test_an_adopted_worker_that_served_goes_on_serving() -> None:
    adopted = adopt(found(), ENTRY, NOW)
    assert (adopted.state, adopted.changed_at, adopted.restarts) == (WorkerState.READY, 500.0, 3)
    assert entry_of(adopted, uses_derived_key=True) == ENTRY
    assert plan([spec()], [adopted], ALIVE) == ()


@pytest.mark.parametrize(
    "prior",
    [
        None,
        replace(ENTRY, state=WorkerState.STARTING),
        replace(ENTRY, base_url="http://127.0.0.1:9999/v1"),
    ],
)
def test_any_other_adopted_worker_must_prove_itself_in_a_full_start_time(
    prior: WorkerEntry | None,
) -> None:
    adopted = adopt(found(), prior, NOW)
    assert (adopted.state, adopted.started_at) == (WorkerState.STARTING, NOW)
    assert plan([spec()], [adopted], ALIVE, now=NOW + 599) == ()


def gateway(generation: int | None, inflight: int = 0, **fields: object) -> Vitals:
    record = Vitals(
        role=ProcessRole.GATEWAY,
        gateway="gw",
        process="gw-1",
        pid=1,
        started_at=0,
        written_at=NOW,
        applied=Applied(),
        directory_generation=generation,
        inflight={"pool_a-0": inflight, "pool_a-1": 5},
    )
    return replace(record, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vitals", "released"),
    [
        ([], False),
        ([gateway(None, role=ProcessRole.POOLS)], False),
        ([gateway(7), gateway(8)], True),
        ([gateway(7), gateway(6)], False),
        ([gateway(7), gateway(None)], False),
        ([gateway(7, inflight=1)], False),
        ([gateway(7), gateway(None, role=ProcessRole.POOLS)], True),
    ],
)
def test_a_draining_worker_is_released_once_every_gateway_knows_and_has_nothing_there(
    vitals: list[Vitals], released: bool
) -> None:
    draining = worker(WorkerState.DRAINING, drain_generation=7)
    assert is_released(draining, Heard(vitals)) is released


@pytest.mark.parametrize(
    ("token", "generation", "released"),
    [(3, 500, False), (4, 6, False), (4, 7, True), (5, 1, True), (None, 7, True)],
)
def test_a_directory_of_an_earlier_leader_acknowledges_nothing(
    token: int | None, generation: int, released: bool
) -> None:
    draining = worker(WorkerState.DRAINING, drain_generation=7, drain_token=4)
    heard = Heard([gateway(generation, directory_token=token)])
    assert is_released(draining, heard) is released


def test_nobody_can_have_left_before_anybody_was_told() -> None:
    assert is_released(worker(WorkerState.DRAINING), Heard([])) is False
