"""What becomes of workers, step by step, without a process or a clock."""

from dataclasses import replace

from inference.contract.kinds import WorkerState
from inference.decisions.lifecycle import (
    FAILED_PROBES,
    LONGEST_BACKOFF_S,
    STABLE_S,
    UNHEALTHY_S,
    Act,
    Authority,
    Presence,
    Sighting,
    Step,
    Worker,
    backoff_s,
    refused,
    set_back,
)
from tests.decisions.workers import ALIVE, GONE, GOOD, NOW, only, plan, spec, worker


def test_a_wanted_worker_is_started() -> None:
    step = only(plan([spec()], []))
    assert step.act is Act.START
    assert step.worker == Worker(
        id="pool_a-0",
        pool_id="pool_a",
        digest="old",
        state=WorkerState.STARTING,
        changed_at=NOW,
        started_at=NOW,
        drain_timeout_s=30,
    )


def test_a_caretaker_starts_nothing_new_and_ends_nothing() -> None:
    outdated = worker(WorkerState.READY, digest="older")
    steps = plan([spec(0), spec(1)], [outdated], authority=Authority.CARETAKER)
    assert steps == ()
    assert plan([], [worker(WorkerState.READY)], authority=Authority.CARETAKER) == ()


def test_a_caretaker_restarts_its_own_dead_worker() -> None:
    dead = only(plan([spec()], [worker(WorkerState.READY)], GONE, authority=Authority.CARETAKER))
    assert dead.worker.state is WorkerState.BACKING_OFF
    later = plan([spec()], [dead.worker], GONE, now=NOW + 1, authority=Authority.CARETAKER)
    assert only(later).act is Act.START


def test_a_caretaker_restarts_even_a_worker_whose_spec_has_changed() -> None:
    outdated = worker(WorkerState.READY, digest="older")
    dead = only(plan([spec()], [outdated], GONE, authority=Authority.CARETAKER))
    later = plan([spec()], [dead.worker], GONE, now=NOW + 1, authority=Authority.CARETAKER)
    assert (only(later).act, only(later).worker.digest) == (Act.START, "old")


def test_a_starting_worker_shows_what_it_waits_for_and_is_ready_once_it_has_proved_itself() -> None:
    starting = worker(WorkerState.STARTING)
    waiting = only(plan([spec()], [starting], replace(ALIVE, detail="its health check: refused")))
    assert waiting == Step(replace(starting, detail="its health check: refused"))
    ready = only(plan([spec()], [waiting.worker], GOOD))
    assert ready == Step(replace(starting, state=WorkerState.READY, changed_at=NOW, ready_at=NOW))


def test_nothing_new_is_no_step() -> None:
    assert plan([spec()], [worker(WorkerState.READY)], GOOD) == ()
    assert plan([spec()], [worker(WorkerState.STARTING)], ALIVE) == ()


def test_a_start_that_takes_too_long_fails_and_is_tried_again_after_the_longest_wait() -> None:
    starting = worker(WorkerState.STARTING, started_at=NOW - 599.9)
    assert plan([spec()], [starting], ALIVE) == ()
    late = replace(starting, started_at=NOW - 600)
    step = only(plan([spec()], [late], replace(ALIVE, detail="no answer")))
    assert step.act is Act.KILL
    assert step.worker.state is WorkerState.FAILED
    assert step.worker.detail == "not ready within 600 s: no answer"
    assert step.worker.retry_at == NOW + LONGEST_BACKOFF_S
    assert plan([spec()], [step.worker], GONE, now=NOW + LONGEST_BACKOFF_S - 0.1) == ()
    again = only(plan([spec()], [step.worker], GONE, now=NOW + LONGEST_BACKOFF_S))
    assert (again.act, again.worker.state) == (Act.START, WorkerState.STARTING)
    assert again.worker.restarts == 1


def test_a_worker_that_dies_is_started_again_after_a_back_off() -> None:
    dead = only(plan([spec()], [worker(WorkerState.READY)], replace(GONE, detail="by SIGKILL")))
    assert dead.act is Act.NONE
    assert dead.worker.state is WorkerState.BACKING_OFF
    assert dead.worker.detail == "by SIGKILL"
    assert dead.worker.retry_at == NOW + 1
    assert plan([spec()], [dead.worker], GONE, now=NOW + 0.9) == ()
    step = only(plan([spec()], [dead.worker], GONE, now=NOW + 1))
    assert step.act is Act.START
    assert step.worker.restarts == 1
    assert step.worker.failures == 1
    assert step.worker.base_url == "http://127.0.0.1:8501/v1"
    assert step.worker.detail is None


def test_what_a_dead_leader_left_is_killed_before_a_restart_however_long_that_takes() -> None:
    left = Sighting(Presence.LEADERLESS)
    step = only(plan([spec()], [worker(WorkerState.READY)], left))
    assert (step.act, step.worker.state) == (Act.KILL, WorkerState.BACKING_OFF)
    later = plan([spec()], [step.worker], left, now=NOW + 60)
    assert only(later) == Step(step.worker, Act.KILL)
    assert only(plan([spec()], [step.worker], GONE, now=NOW + 60)).act is Act.START


def test_the_back_off_doubles_to_its_cap_and_starts_anew_after_a_stable_time() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3, 7, 8, 9, 10_000)] == [
        *(1, 2, 4, 64),
        *(120, 120, 120),
    ]
    shaky = worker(WorkerState.READY, failures=6, ready_at=NOW - STABLE_S + 0.1)
    assert set_back(shaky, "died", NOW).failures == 7
    stable = replace(shaky, ready_at=NOW - STABLE_S)
    assert set_back(stable, "died", NOW).failures == 1


def test_a_refused_start_backs_off_and_counts_no_restart() -> None:
    started = only(plan([spec()], [])).worker
    held = refused(started, "port 8501 is taken on 127.0.0.1", NOW)
    assert (held.state, held.detail) == (
        WorkerState.BACKING_OFF,
        "port 8501 is taken on 127.0.0.1",
    )
    again = only(plan([spec()], [held], GONE, now=NOW + 1))
    assert (again.act, again.worker.restarts, again.worker.failures) == (Act.START, 0, 1)


def test_a_ready_worker_that_fails_its_probes_is_taken_out_and_comes_back() -> None:
    ready = worker(WorkerState.READY)
    shaky = Sighting(Presence.RUNNING, True, FAILED_PROBES - 1, "no answer within 5 s")
    assert plan([spec()], [ready], shaky) == ()
    out = only(plan([spec()], [ready], replace(shaky, failed_probes=FAILED_PROBES)))
    assert out == Step(
        replace(ready, state=WorkerState.FAILED, changed_at=NOW, detail="no answer within 5 s")
    )
    back = only(plan([spec()], [out.worker], GOOD, now=NOW + 5))
    assert (back.act, back.worker.state, back.worker.detail) == (Act.NONE, WorkerState.READY, None)


def test_an_engine_that_stays_unhealthy_is_killed_and_restarted() -> None:
    out = worker(WorkerState.FAILED, changed_at=NOW - UNHEALTHY_S + 0.1)
    sick = Sighting(Presence.RUNNING, True, 9, "answered with 503")
    assert plan([spec()], [out], sick) == ()
    step = only(plan([spec()], [out], sick, now=NOW + 0.1))
    assert (step.act, step.worker.state) == (Act.KILL, WorkerState.BACKING_OFF)
    assert step.worker.detail == "answered with 503"


def test_a_server_that_is_not_ours_is_used_at_once_and_never_killed() -> None:
    begun = only(plan([spec()], [], owns_processes=False))
    assert (begun.act, begun.worker.state) == (Act.START, WorkerState.READY)
    sick = Sighting(Presence.RUNNING, True, 99, "the connection is refused")
    out = only(plan([spec()], [begun.worker], sick, owns_processes=False))
    assert (out.act, out.worker.state) == (Act.NONE, WorkerState.FAILED)
    assert plan([spec()], [out.worker], sick, now=NOW + 9_999, owns_processes=False) == ()
    back = only(plan([spec()], [out.worker], GOOD, owns_processes=False))
    assert back.worker.state is WorkerState.READY


def test_new_addresses_are_taken_all_at_once_whatever_their_siblings_do() -> None:
    known = [worker(WorkerState.FAILED, 0), *(worker(WorkerState.READY, n) for n in (1, 2))]
    steps = plan([spec(0), spec(1, "new"), spec(2, "new")], known, ALIVE, owns_processes=False)
    assert [(step.worker.id, step.act) for step in steps] == [
        ("pool_a-1", Act.START),
        ("pool_a-2", Act.START),
    ]


def test_a_servers_new_address_is_taken_at_once_and_its_end_too() -> None:
    known = worker(WorkerState.READY)
    moved = only(plan([spec(digest="new")], [known], owns_processes=False))
    assert (moved.act, moved.worker.digest, moved.worker.restarts) == (Act.START, "new", 0)
    assert only(plan([], [known], owns_processes=False)) == Step(known, Act.FORGET)
