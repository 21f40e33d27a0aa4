"""Who is left for the next attempt of a request, and in which order."""

from dataclasses import replace

import pytest

from inference.contract.kinds import Strategy
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import (
    Tried,
    failure_to_tell,
    is_repeat,
    pick_worker,
    reads_prefixes,
    rooms_for,
)
from inference.decisions.plan import Plan, RequestFacts, plan_request
from inference.decisions.retries import may_retry, pause_s
from inference.decisions.routing.base import Wish
from tests.decisions.candidates import Candidate
from tests.inference.gateway.rig import (
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)

A, B = Tried("tgt_a", "a0", may_repeat=True), Tried("tgt_b", "b0", may_repeat=True)


def planned(*names: str, attempts: int = 3, strategy: Strategy = Strategy.WEIGHTED) -> Plan:
    """The plan for a route over pools of these names, in this order."""
    pools = [pool_record(name, "http://127.0.0.1:1/v1") for name in names]
    route = route_record(*names, max_attempts=attempts, strategy=strategy)
    request = RequestFacts("m", prompt_tokens_max=1)
    snapshot = configuration(*pools, routes=(route,))
    plan = plan_request(snapshot, key_record(TOKEN), request=request, now=0.0, u=0.0)
    assert isinstance(plan, Plan)
    return plan


def capacity(
    *names: str, panic: bool = False, last: bool = False, aside: str = ""
) -> Capacity[Candidate]:
    apart = tuple(Candidate(name) for name in aside.split())
    return Capacity(tuple(Candidate(name) for name in names), panic, last, apart)


def left(plan: Plan, *capacities: Capacity[Candidate], tried: tuple[Tried, ...] = ()) -> list[str]:
    """The workers the next attempt is placed among."""
    rooms = rooms_for(plan, capacities, tried=tried)
    return [worker.id for room in rooms for worker in room.workers]


def test_everybody_who_is_let_through_may_be_first() -> None:
    assert left(planned("a", "b"), capacity("a0", "a1"), capacity("b0")) == ["a0", "a1", "b0"]
    assert left(planned("a", "b"), capacity(), capacity("b0")) == ["b0"]
    assert left(planned("a", "b"), capacity(), capacity()) == []


def test_targets_not_tried_yet_come_before_other_workers_of_those_tried() -> None:
    plan = planned("a", "b")
    full = (capacity("a0", "a1"), capacity("b0"))
    assert left(plan, *full, tried=(A,)) == ["b0"]
    assert left(plan, *full, tried=(A, B)) == ["a1"]


def test_no_worker_of_several_targets_is_tried_twice() -> None:
    plan = planned("a", "b", attempts=9)
    assert left(plan, capacity("a0"), capacity("b0"), tried=(A, B)) == []
    assert left(plan, capacity("a0"), capacity(), tried=(A,)) == []


def test_a_route_has_so_many_attempts_and_no_more() -> None:
    assert left(planned("a", "b", attempts=1), capacity("a0"), capacity("b0"), tried=(A,)) == []


def test_the_only_worker_is_tried_once_more_if_that_may_help() -> None:
    plan = planned("a", attempts=9)
    assert left(plan, capacity("a0"), tried=(A,)) == ["a0"]
    assert left(plan, capacity("a0"), tried=(A, A)) == []
    assert left(plan, capacity("a0"), tried=(Tried("tgt_a", "a0", may_repeat=False),)) == []


def test_the_only_worker_is_not_tried_again_once_its_breaker_is_open() -> None:
    assert left(planned("a"), capacity("a0", panic=True, last=True), tried=(A,)) == []


def test_a_pool_whose_every_breaker_is_open_comes_last() -> None:
    plan = planned("a", "b", "c", attempts=9)
    dead = capacity("a0", panic=True, last=True)
    assert left(plan, dead, capacity("b0"), capacity()) == ["b0"]
    assert left(plan, dead, capacity("b0", "b1"), capacity(), tried=(B,)) == ["b1"]
    assert left(plan, dead, capacity("b0"), capacity(), tried=(B,)) == ["a0"]
    assert left(plan, dead, capacity(), capacity()) == ["a0"]


def test_those_set_aside_come_after_all_others_and_before_a_dead_pool() -> None:
    plan = planned("a", "b", "c", attempts=9)
    dead = capacity("c0", panic=True, last=True)
    assert left(plan, capacity(aside="a0"), capacity("b0"), dead) == ["b0"]
    assert left(plan, capacity("a1", aside="a0"), capacity("b0"), dead) == ["a1", "b0"]
    assert left(plan, capacity("a1", aside="a0"), capacity("b0"), dead, tried=(A, B)) == ["a1"]
    assert left(plan, capacity(aside="a0"), capacity(aside="b0"), dead) == ["a0", "b0"]
    assert left(plan, capacity(aside="a0"), capacity(aside="b0"), dead, tried=(A,)) == ["b0"]
    assert left(plan, capacity(aside="a0"), capacity(), dead, tried=(A,)) == ["c0"]


def test_a_repeat_is_an_attempt_at_a_worker_that_has_failed_the_same_request() -> None:
    rooms = rooms_for(planned("a"), [capacity("a0")], tried=(A,))
    assert is_repeat(rooms, (A,))
    assert not is_repeat(rooms, ())
    assert not is_repeat(rooms, (B,))
    assert not is_repeat([], (A,))


def test_a_repeat_waits_for_a_moment_that_chance_spreads() -> None:
    assert [round(pause_s(u), 6) for u in (0.0, 0.5, 0.999999)] == [0.05, 0.125, 0.2]


def test_a_panic_is_told_with_the_room() -> None:
    rooms = rooms_for(planned("a"), [capacity("a0", "a1", panic=True)], tried=())
    assert [room.is_panic for room in rooms] == [True]


@pytest.mark.parametrize(
    ("strategy", "seats", "is_read"),
    [
        (Strategy.LEAST_WORK, (("a0",), ("b0",)), True),
        (Strategy.LEAST_WORK, (("a0", "a1"), ()), True),
        (Strategy.LEAST_WORK, (("a0",), ()), False),
        (Strategy.LEAST_WORK, ((), ()), False),
        (Strategy.PREFIX_AFFINITY, (("a0",), ("b0",)), True),
        (Strategy.WEIGHTED, (("a0", "a1"), ("b0",)), False),
        (Strategy.SESSION_AFFINITY, (("a0", "a1"), ("b0",)), False),
    ],
)
def test_prompts_are_cut_up_only_where_it_makes_a_difference(
    strategy: Strategy, seats: tuple[tuple[str, ...], ...], is_read: bool
) -> None:
    plan = planned("a", "b", strategy=strategy)
    rooms = rooms_for(plan, [capacity(*names) for names in seats], tried=())
    assert reads_prefixes(plan, rooms) is is_read
    # whoever is passed over for now may be chosen next
    has_others = strategy in (Strategy.LEAST_WORK, Strategy.PREFIX_AFFINITY)
    assert reads_prefixes(plan, rooms, has_others=True) is has_others


def test_a_route_picks_by_its_strategy() -> None:
    busy, idle = Candidate("a0", inflight=1), Candidate("b0")
    capacities = [Capacity((busy,)), Capacity((idle,))]
    found = []
    for strategy in (Strategy.WEIGHTED, Strategy.LEAST_WORK):
        plan = planned("a", "b", strategy=strategy)
        choice = pick_worker(plan, rooms_for(plan, capacities, tried=()), wish=Wish(), u=0.0)
        assert choice is not None
        found.append(choice.worker.id)
    assert found == ["a0", "b0"]


@pytest.mark.parametrize(
    ("requests", "retries", "is_allowed"),
    [(0, 9, True), (0, 10, False), (1_000, 209, True), (1_000, 210, False), (4, 10, True)],
)
def test_retries_are_a_share_of_requests_and_a_few(
    requests: int, retries: int, is_allowed: bool
) -> None:
    assert may_retry(requests=requests, retries=retries, budget_percent=20) is is_allowed


def grown(*contexts: int | None) -> Plan:
    """A plan over targets a, b, … of models that take so many tokens."""
    plan = planned(*"abcdef"[: len(contexts)], attempts=9)
    targets = [
        replace(
            one,
            pool=replace(one.pool, model_id=f"mdl_{one.pool.name}"),
            max_context_tokens=context,
        )
        for one, context in zip(plan.targets, contexts, strict=True)
    ]
    return replace(plan, targets=tuple(targets))


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ((100, 50, 1_000), ["c0"]),
        ((100, 100, None), ["c0"]),
        ((None, 50, 1_000), ["b0", "c0"]),
        ((100, 50, 10), []),
    ],
)
def test_a_request_too_long_for_a_model_goes_to_those_that_take_longer_ones(
    contexts: tuple[int | None, ...], expected: list[str]
) -> None:
    plan = grown(*contexts)
    too_long = Tried("tgt_a", "a0", may_repeat=False, was_too_long=True)
    seats = [capacity("a0", "a1"), capacity("b0"), capacity("c0")]
    assert left(plan, *seats, tried=(too_long,)) == expected


def test_a_request_too_long_for_a_model_goes_to_no_other_target_of_it() -> None:
    too_long = Tried("tgt_a", "a0", may_repeat=False, was_too_long=True)
    plan = planned("a", "b", attempts=9)
    assert left(plan, capacity("a0", "a1"), capacity("b0"), tried=(too_long,)) == []


def tiered(*tiers: int, attempts: int = 9) -> Plan:
    """A plan over targets a, b, … in these tiers."""
    plan = planned(*"abcdef"[: len(tiers)], attempts=attempts)
    targets = [
        replace(one, target=replace(one.target, tier=tier))
        for one, tier in zip(plan.targets, tiers, strict=True)
    ]
    return replace(plan, targets=tuple(targets))


def test_a_higher_tier_is_for_when_none_of_the_lower_can_be_tried() -> None:
    plan = tiered(0, 0, 1, 2)
    seats = (capacity("a0"), capacity("b0", "b1"), capacity("c0"), capacity("d0"))
    assert left(plan, *seats) == ["a0", "b0", "b1"]
    assert left(plan, capacity(), capacity(), *seats[2:]) == ["c0"]
    assert left(plan, *seats, tried=(A,)) == ["b0", "b1"]
    # the rest of a target that was tried still comes before the next tier
    assert left(plan, *seats, tried=(A, B)) == ["b1"]
    all_of_b = (A, B, replace(B, worker_id="b1"))
    assert left(plan, *seats, tried=all_of_b) == ["c0"]
    assert left(plan, *seats, tried=(*all_of_b, Tried("tgt_c", "c0", may_repeat=True))) == ["d0"]


def test_a_dead_pool_comes_after_a_healthy_one_of_a_higher_tier() -> None:
    plan = tiered(0, 1, 2)
    dead = capacity("a0", panic=True, last=True)
    assert left(plan, dead, capacity("b0"), capacity("c0")) == ["b0"]
    assert left(plan, dead, capacity("b0"), capacity(), tried=(B,)) == ["a0"]
    also_dead = capacity("b0", panic=True, last=True)
    assert left(plan, dead, also_dead, capacity()) == ["a0"]


def test_those_set_aside_come_after_a_higher_tier_and_the_lower_of_them_first() -> None:
    plan = tiered(0, 1)
    assert left(plan, capacity(aside="a0"), capacity("b0")) == ["b0"]
    assert left(plan, capacity(aside="a0"), capacity(aside="b0")) == ["a0"]


def test_attempts_are_counted_over_all_tiers() -> None:
    plan = tiered(0, 1, attempts=2)
    assert left(plan, capacity("a0", "a1"), capacity("b0"), tried=(A,)) == ["a1"]
    both = (A, replace(A, worker_id="a1"))
    assert left(plan, capacity("a0", "a1"), capacity("b0"), tried=both) == []


def sized(**tokens: int | None) -> Plan:
    """The plan over pools of these names, each of a model with such a context."""
    plan = planned(*tokens, attempts=9)
    targets = (
        replace(
            one,
            max_context_tokens=tokens[one.pool.name],
            pool=replace(one.pool, model_id=f"mdl_{one.pool.name}"),
        )
        for one in plan.targets
    )
    return replace(plan, targets=tuple(targets))


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("a! b", 0),  # what befell the larger one is nothing the caller can mend
        ("a! b c", 0),
        ("a! b! c", 1),  # the largest that said so names the limit that counts
        ("a! b!", 1),
        ("a b", 1),
        ("b a!", 0),  # the larger one was only ill: the smaller one's word misleads
        ("c a! b", 2),
        ("b a! c!", 0),
        ("a a! b", 1),  # another worker of the same model would have said it too
        ("x a!", 0),  # nobody knows how much it takes
        ("a! x", 0),
    ],
)
def test_a_caller_is_told_that_its_request_is_too_long_unless_that_misleads(
    story: str, told: int
) -> None:
    """`!` said that the request is too long; the others failed in other ways."""
    plan = sized(a=100, b=1_000, c=10_000, x=None)
    tried = tuple(
        Tried(f"tgt_{one[0]}", f"{one[0]}{number}", may_repeat=True, was_too_long=one.endswith("!"))
        for number, one in enumerate(story.split())
    )
    assert failure_to_tell(plan, tried, is_out_of_retries=False) == told


def test_without_a_retry_left_the_first_failure_is_told_if_it_is_of_that_kind() -> None:
    plan = sized(a=100, b=1_000)
    too_long = replace(A, was_too_long=True)
    assert failure_to_tell(plan, (A, B), is_out_of_retries=True) == 0
    assert failure_to_tell(plan, (too_long, B), is_out_of_retries=True) == 0
    assert failure_to_tell(plan, (B, too_long), is_out_of_retries=True) == 0


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("names", [(), ("a0", "a1")])
@pytest.mark.parametrize("aside", ["", "a2 a3"])
def test_the_only_targets_room_is_that_of_one_beside_a_target_without_workers(
    names: tuple[str, ...], aside: str, last: bool
) -> None:
    only = capacity(*names, panic=True, last=last, aside=aside)
    nobody: Capacity[Candidate] = Capacity(())
    (alone,) = rooms_for(planned("a"), (only,), tried=()) or (None,)
    (beside,) = rooms_for(planned("a", "b"), (only, nobody), tried=()) or (None,)
    assert alone == beside
