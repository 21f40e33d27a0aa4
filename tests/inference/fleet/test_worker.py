"""What is under way at a worker: counted on the way in, taken back exactly once."""

import random

import pytest

from inference.contract.kinds import BreakerState, WorkerState
from inference.decisions.breaker import BreakerPolicy, Verdict
from inference.decisions.queueing import Crowd
from inference.fleet.breakers import WorkerBreaker
from inference.fleet.worker import USUAL_PREFILL_RATE, Address, Worker
from inference.workers.connections import Connections

POLICY = BreakerPolicy(failure_percent=50, min_requests=1, open_s=5.0)


def breaker() -> WorkerBreaker:
    return WorkerBreaker(POLICY, chance=lambda: 0.0, changed=lambda _breaker, _before, _after: None)


@pytest.fixture
def worker() -> Worker:
    origin = Connections(is_forbidden=lambda _ip, _port: False).origin_of("http://127.0.0.1:1/v1")
    address = Address("http://127.0.0.1:1/v1", origin, {}, b"")
    return Worker("w0", "p", address, WorkerState.READY, breaker=breaker())


def under_way(worker: Worker) -> tuple[int, int]:
    return worker.inflight, worker.prefill_tokens


def test_the_prompt_is_taken_back_at_the_first_token_and_the_rest_at_the_end(
    worker: Worker,
) -> None:
    lease = worker.lease(700)
    assert under_way(worker) == (1, 700)
    lease.note_content(1.0)
    assert under_way(worker) == (1, 0)
    lease.note_content(2.0)
    lease.release(Verdict.GOOD)
    lease.release(Verdict.GOOD)
    lease.note_content(3.0)
    assert under_way(worker) == (0, 0)


def test_an_end_without_a_first_token_takes_both_back(worker: Worker) -> None:
    lease = worker.lease(700)
    lease.release()
    assert under_way(worker) == (0, 0)


def test_no_order_of_ends_brings_a_count_below_zero(worker: Worker) -> None:
    chance = random.Random(7)
    leases = [worker.lease(chance.randrange(2_000)) for _ in range(50)]
    steps = [step for lease in leases for step in (lease.release, lease.release)]
    steps += [lambda lease=lease: lease.note_content(1.0) for lease in leases]  # type: ignore[misc]
    chance.shuffle(steps)
    for step in steps:
        step()
        assert worker.inflight >= 0
        assert worker.prefill_tokens >= 0
    assert under_way(worker) == (0, 0)


def test_the_prefill_rate_is_learned_with_what_was_queued_before(worker: Worker) -> None:
    worker.peers_prefill_tokens = 2_000
    worker.lease(1_000, now_s=0.0)
    for _ in range(80):
        lease = worker.lease(1_000, now_s=0.0)
        lease.note_content(4.0)
        lease.release(Verdict.GOOD)
    assert worker.prefill_rate == pytest.approx(1_000.0)


def test_short_prompts_teach_nothing_of_the_prefill_rate(worker: Worker) -> None:
    worker.lease(511, now_s=0.0).note_content(9.0)
    assert worker.prefill_rate == USUAL_PREFILL_RATE


def test_no_one_prompt_changes_a_rate_by_more_than_a_third(worker: Worker) -> None:
    worker.lease(1_000, now_s=5.0).note_content(5.0)
    assert worker.prefill_rate == pytest.approx(USUAL_PREFILL_RATE * 4**0.2)
    worker.lease(1_000, now_s=5.0).note_content(900.0)
    assert worker.prefill_rate == pytest.approx(USUAL_PREFILL_RATE)


@pytest.mark.parametrize(("took_s", "expected"), [(0.0, 1_000_000.0), (9_000.0, 10.0)])
def test_a_rate_stays_within_reason(worker: Worker, took_s: float, expected: float) -> None:
    for _ in range(40):
        worker.lease(1_000, now_s=5.0).note_content(5.0 + took_s)
    assert worker.prefill_rate == expected


def test_a_prompt_of_unknown_length_teaches_nothing(worker: Worker) -> None:
    worker.lease(5_000, now_s=0.0, teaches=False).note_content(9.0)
    assert worker.prefill_rate == USUAL_PREFILL_RATE


def test_a_request_of_a_former_life_teaches_the_next_one_nothing(worker: Worker) -> None:
    lease = worker.lease(5_000, now_s=0.0)
    worker.begin_life("again", salt=5, breaker=breaker())
    lease.note_content(9.0)
    lease.release(aside_s=5.0)
    assert worker.prefill_rate == USUAL_PREFILL_RATE
    assert worker.breaker.aside_until == 0.0
    assert under_way(worker) == (0, 0)


def test_a_worker_that_says_not_now_is_set_aside_until_its_longest_wish_is_over(
    worker: Worker,
) -> None:
    worker.lease(now_s=10.0).release(Verdict.WORKING, now_s=11.0, aside_s=7.0)
    worker.lease(now_s=10.0).release(Verdict.WORKING, now_s=12.0, aside_s=1.0)
    assert worker.breaker.aside_until == 18.0


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_to_what_was_sent_since_takes_it_back_and_no_older_one(
    worker: Worker, is_stream: bool
) -> None:
    older = worker.lease(now_s=9.0)
    worker.lease(now_s=10.0).release(Verdict.WORKING, now_s=10.0, aside_s=7.0)
    older.note_content(11.0)
    older.release(Verdict.GOOD, now_s=11.0)
    assert worker.breaker.aside_until == 17.0
    newer = worker.lease(now_s=12.0)
    if is_stream:
        newer.note_content(13.0)
    else:
        newer.release(Verdict.GOOD, now_s=13.0)
    assert worker.breaker.aside_until == 0.0


def test_a_new_life_forgets_what_was_learned_but_not_what_is_under_way(worker: Worker) -> None:
    former = worker.breaker
    first = worker.lease(1_000, now_s=0.0)
    first.note_content(4.0)
    first.release(Verdict.GOOD)
    lease = worker.lease(10)
    worker.begin_life("again", salt=5, breaker=breaker())
    assert (worker.prefill_rate, worker.salt) == (USUAL_PREFILL_RATE, 5)
    assert under_way(worker) == (1, 10)
    lease.release(Verdict.BAD)
    # what the former life did is not held against the new one
    assert former.value.state is BreakerState.OPEN
    assert worker.breaker.value.state is BreakerState.CLOSED
    assert under_way(worker) == (0, 0)


def test_the_attempt_a_breaker_lets_through_is_its_trial(worker: Worker) -> None:
    worker.lease(now_s=0.0).release(Verdict.BAD, now_s=0.0)
    assert not worker.lease(now_s=1.0).is_trial  # in a panic
    trial = worker.lease(now_s=5.0)
    assert trial.is_trial
    assert not worker.lease(now_s=5.0).is_trial
    trial.release(Verdict.GOOD, now_s=6.0)
    assert worker.breaker.value.state is BreakerState.CLOSED


def test_the_time_to_the_first_token_is_learned_once_a_stream(worker: Worker) -> None:
    lease = worker.lease(10, now_s=100.0)
    lease.note_content(100.5)
    lease.note_content(109.0)
    assert (worker.first_token_s, worker.first_token_at_s) == (0.5, 100.5)
    worker.lease(10, now_s=200.0).note_content(200.1)
    assert worker.first_token_s == pytest.approx(0.3)
    # an answer that came whole has shown no first token
    worker.lease(10, now_s=300.0).release(Verdict.GOOD, now_s=309.0)
    assert worker.first_token_at_s == 200.1


def test_what_was_learned_of_first_tokens_is_forgotten_with_its_life(worker: Worker) -> None:
    before = worker.lease(10, now_s=100.0)
    worker.lease(10, now_s=100.0).note_content(100.5)
    worker.begin_life("next", salt=1, breaker=breaker())
    assert worker.first_token_s is None
    before.note_content(101.0)
    assert worker.first_token_s is None


def test_slots_are_shared_by_the_least_that_the_others_were_told_of_late(worker: Worker) -> None:
    worker.slots, two = 8, Crowd(2)

    def most_at(now_s: float) -> int:
        worker.tell(now_s)
        worker.share_slots(two)
        return worker.most

    assert most_at(0.0) == 4
    leases = [worker.lease() for _ in range(4)]
    assert (worker.is_full, most_at(1.0), most_at(5.0)) == (True, 4, 4)
    assert most_at(7.0) == 6  # by now everybody has heard of these four
    leases[0].release()
    worker.share_slots(two)
    assert worker.most == 6  # three, and half of five
    leases.append(worker.lease())
    assert most_at(8.0) == 6
    assert most_at(60.0) == 4  # it has said nothing for long, so others think that it has nothing
    worker.share_slots(two, is_fresh=False)
    assert worker.most == 4


def test_who_is_about_to_be_sent_counts_for_what_is_told(worker: Worker) -> None:
    worker.slots, worker.promised = 8, 4
    for now_s in (0.0, 4.0, 8.0):
        worker.tell(now_s)
    worker.share_slots(Crowd(2))
    assert worker.most == 6
