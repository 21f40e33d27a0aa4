"""Who may have how much of a worker, where there is room, and when a refused one comes back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import TargetRecord
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import Tried
from inference.decisions.plan import Plan, RequestFacts, plan_request
from inference.decisions.queueing import (
    Crowd,
    Drain,
    drain_begun,
    drain_ended,
    drain_left,
    is_more_urgent,
    is_promoted,
    retry_after_s,
    rooms_with_space,
    slots_of,
    work_of,
)
from tests.decisions.candidates import Candidate
from tests.inference.gateway.rig import (
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)


def planned(*tiers: str, attempts: int = 3, **facts: object) -> Plan:
    """The plan over pools `ab` in one tier, `c` in the next, and so on."""
    names = "".join(tiers)
    targets = tuple(
        TargetRecord(f"tgt_{name}", f"pool_{name}", 100 - names.index(name), tier=tier)
        for tier, members in enumerate(tiers)
        for name in members
    )
    route = replace(route_record("a", max_attempts=attempts), targets=targets)
    pools = [pool_record(name, "http://127.0.0.1:1/v1") for name in names]
    plan = plan_request(
        configuration(*pools, routes=(route,)),
        key_record(TOKEN),
        request=RequestFacts("m", **{"prompt_tokens_max": 100, **facts}),  # type: ignore[arg-type]
        now=0.0,
        u=0.0,
    )
    assert isinstance(plan, Plan)
    return plan


def capacity(*names: str, last: bool = False, aside: str = "") -> Capacity[Candidate]:
    """Workers of these names; a name in capitals is full."""
    made = [Candidate(name, is_full=name.isupper()) for name in (*names, *aside.split())]
    return Capacity(tuple(made[: len(names)]), last, last, tuple(made[len(names) :]))


def left(plan: Plan, *capacities: Capacity[Candidate], tried: tuple[Tried, ...] = ()) -> list[str]:
    rooms = rooms_with_space(plan, capacities, tried=tried)
    return [worker.id for room in rooms for worker in room.workers]


def test_full_workers_are_passed_over_and_a_request_waits_if_all_are_full() -> None:
    plan = planned("ab")
    assert left(plan, capacity("A", "a1"), capacity("b")) == ["a1", "b"]
    assert left(plan, capacity("A"), capacity("b")) == ["b"]
    assert left(plan, capacity("A"), capacity("B")) == []


def test_a_tier_that_is_full_hands_on_to_the_next() -> None:
    plan = planned("ab", "c")
    assert left(plan, capacity("A"), capacity("b"), capacity("c")) == ["b"]
    assert left(plan, capacity("A"), capacity("B"), capacity("c")) == ["c"]
    assert left(plan, capacity("A"), capacity("B"), capacity("C")) == []


def test_full_is_no_reason_to_ask_who_wants_to_be_left_alone_or_is_taken_for_dead() -> None:
    plan = planned("ab")
    assert left(plan, capacity("A", aside="a1"), capacity("b", last=True)) == []
    assert left(plan, capacity(aside="a1"), capacity("b", last=True)) == ["a1"]
    assert left(plan, capacity(), capacity("b", last=True)) == ["b"]


def test_a_further_attempt_prefers_new_targets_and_takes_what_has_room() -> None:
    tried = (Tried("tgt_a", "a0", may_repeat=True),)
    plan = planned("ab")
    assert left(plan, capacity("a0", "a1"), capacity("b"), tried=tried) == ["b"]
    assert left(plan, capacity("a0", "a1"), capacity("B"), tried=tried) == ["a1"]
    assert left(plan, capacity("a0", "A1"), capacity("B"), tried=tried) == []


def test_a_process_alone_has_every_slot_and_one_cut_off_an_equal_part() -> None:
    assert slots_of(8, own=0, others=None, crowd=Crowd()) == 8
    assert [slots_of(7, own=9, others=None, crowd=Crowd(2, turn)) for turn in (0, 1)] == [4, 3]
    assert slots_of(1, own=0, others=None, crowd=Crowd(3, 2)) == 1


def test_where_processes_outnumber_slots_each_may_have_one() -> None:
    assert [slots_of(2, own=0, others=2, crowd=Crowd(4, turn)) for turn in range(4)] == [1] * 4


def test_a_process_with_all_the_traffic_has_all_the_slots_within_seconds() -> None:
    own, had = 0, []
    for second in range(25):
        own = slots_of(16, own=own, others=0, crowd=Crowd(4, second))
        had.append(own)
    assert (had[0], had[4], had[10], had[-1]) == (4, 9, 13, 16)


@given(
    limit=st.integers(1, 40),
    wanted=st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), max_size=12),
    processes=st.integers(2, 4),
    ending=st.integers(0, 5),
)
def test_by_the_same_figures_all_together_never_have_more_than_there_is(
    limit: int, wanted: list[list[int]], processes: int, ending: int
) -> None:
    """Each second all say what they have and how many wait, then take what they may."""
    own = [0] * processes
    for second, demand in enumerate(wanted):
        waiting = [max(demand[one] - own[one], 0) for one in range(processes)]
        most = [
            slots_of(
                limit,
                own=own[one],
                others=sum(own) - own[one],
                crowd=Crowd(processes, one + second, _others(waiting, one)),
                pool_id="p",
            )
            for one in range(processes)
        ]
        own = [
            max(min(demand[one], most[one]), own[one] - ending) if demand[one] else 0
            for one in range(processes)
        ]
        assert sum(own) <= max(limit, processes if limit < processes else 0)


def _others(waiting: list[int], one: int) -> dict[str, int]:
    return {"p": sum(waiting) - waiting[one]}


def test_who_has_too_much_gives_it_back_while_others_wait() -> None:
    own = [12, 0, 0]
    for second in range(30):
        most = [
            slots_of(
                12,
                own=own[one],
                others=sum(own) - own[one],
                crowd=Crowd(3, one + second, {"p": 9}),
                pool_id="p",
            )
            for one in range(3)
        ]
        own = [max(most[one], own[one] - 2) for one in range(3)]
    assert own == [4, 4, 4]


def test_work_is_the_prompt_and_what_will_be_generated() -> None:
    assert work_of(planned("a", prompt_tokens=50, output_tokens_requested=10, answers=2)) == 130
    assert work_of(planned("a", prompt_tokens=50)) == 50 + 4 * 256
    assert work_of(planned("a", prompt_tokens=50, answers=0)) == 50


def test_classes_go_in_their_order() -> None:
    assert [is_more_urgent(one, PriorityClass.DEFAULT) for one in PriorityClass] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("waited_s", "served", "expected"), [(5.0, 7, True), (5.0, 8, False), (4.9, 7, False)]
)
def test_an_eighth_of_the_slots_goes_to_whoever_waited_longest(
    waited_s: float, served: int, expected: bool
) -> None:
    assert is_promoted(waited_s=waited_s, served=served) is expected


def drained(every_s: float, count: int) -> Drain:
    """A queue that one leaves `every_s`."""
    drain = drain_begun(Drain(), 0.0)
    for number in range(1, count + 1):
        drain = drain_left(drain, number * every_s)
    return drain


def test_retry_after_is_when_those_before_will_have_left() -> None:
    assert retry_after_s([drained(0.5, 20)], ahead=9, oldest_s=0.0, now=10.0) == 5
    assert retry_after_s([drained(0.5, 20)] * 2, ahead=9, oldest_s=0.0, now=10.0) == 3


def test_retry_after_grows_while_nobody_leaves_and_has_bounds() -> None:
    drain = drained(0.5, 20)
    waits = [retry_after_s([drain], ahead=9, oldest_s=0.0, now=10.0 + s) for s in (0, 20, 40, 900)]
    assert waits == sorted(waits)
    assert waits[-1] == 60
    assert retry_after_s([drain], ahead=0, oldest_s=0.0, now=10.0) == 1
    assert retry_after_s([], ahead=5, oldest_s=7.2, now=0.0) == 8


def test_time_in_which_nobody_waits_says_nothing_of_how_fast_a_queue_moves() -> None:
    drain = drain_begun(drain_ended(drained(0.5, 20), 10.0), 500.0)
    assert retry_after_s([drain], ahead=9, oldest_s=0.0, now=500.0) == 5
