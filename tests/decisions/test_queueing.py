"""Who may have how much of a worker, where there is room, and when a refused one comes back."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import TargetRecord
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import Tried
from inference.decisions.plan import Plan, RequestFacts, plan_request
from inference.decisions.queueing import (
    HEARD_S,
    TOLD_S,
    TURN_S,
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
    turn_of,
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
    assert slots_of(8, told=0, others=None, crowd=Crowd()) == 8
    assert [slots_of(7, told=9, others=None, crowd=Crowd(2, turn)) for turn in (0, 1, None)] == [
        *(4, 3),
        3,
    ]
    assert slots_of(1, told=0, others=None, crowd=Crowd(3, 2)) == 1


def test_where_processes_outnumber_slots_each_may_have_one() -> None:
    assert [slots_of(2, told=0, others=2, crowd=Crowd(4, turn)) for turn in range(4)] == [1] * 4


def test_a_process_with_all_the_traffic_has_nearly_all_the_slots_in_time() -> None:
    had = [0]
    for _ in range(5):
        had.append(slots_of(16, told=had[-1], others=0, crowd=Crowd(2, None)))
    assert had == [0, 8, 12, 14, 15, 15]


def test_turns_go_round_together_with_a_pause_between_them() -> None:
    assert [turn_of(place, 7 * TURN_S) for place in (0, 1)] == [7, 8]
    assert turn_of(0, 7 * TURN_S + HEARD_S) == 7
    assert turn_of(0, 7 * TURN_S + TURN_S / 2) is None
    assert turn_of(0, 8 * TURN_S - 0.001) is None
    assert turn_of(0, 8 * TURN_S) == 8


@dataclass
class Process:
    """A gateway process before one worker: what it has, says and hears, a second late each way."""

    place: int
    writes_s: float
    reads_s: float
    ends: list[float] = field(default_factory=list)
    most: int = 0
    others: int = 0
    told: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    is_asked: bool = False

    def heard(self, now: float, late_s: float) -> int:
        """What the others hear of it."""
        return next(count for at, count in reversed(self.told) if at <= max(now - late_s, 0.0))

    def share(self, limit: int, processes: int, now: float) -> None:
        least = min([count for at, count in self.told if at >= now - TOLD_S] + [len(self.ends)])
        least = least if now > TOLD_S else 0
        crowd = Crowd(processes, turn_of(self.place, now))
        self.most = slots_of(limit, told=least, others=self.others, crowd=crowd)


@settings(deadline=None)
@given(
    limit=st.integers(1, 20),
    processes=st.integers(2, 4),
    seed=st.integers(0, 2**32),
    late_s=st.floats(0.0, 0.3),
)
@example(limit=8, processes=4, seed=3, late_s=0.2)
def test_however_old_the_figures_are_all_together_never_have_more_than_there_is(
    limit: int, processes: int, seed: int, late_s: float
) -> None:
    """Each says once a second what it has, reads what the others said, and takes what it may.

    Who wants some at all changes by chance, and who does takes all it gets.
    """
    chance = Random(seed)
    crowd = [Process(place, chance.random(), chance.random()) for place in range(processes)]
    now = 0.0
    while now < 40.0:
        now += 0.1
        for one in crowd:
            one.ends = [end for end in one.ends if end > now]
            if chance.random() < 0.03:
                one.is_asked = not one.is_asked
        for one in crowd:
            if now >= one.writes_s:
                one.writes_s += 1.0
                one.told.append((now, len(one.ends)))
                one.share(limit, processes, now)
            if now >= one.reads_s:
                one.reads_s += 1.0
                one.others = sum(other.heard(now, late_s) for other in crowd if other is not one)
                one.share(limit, processes, now)
        for one in chance.sample(crowd, processes):
            while one.is_asked and len(one.ends) < one.most:
                one.ends.append(now + chance.uniform(0.5, 8.0))
        under_way = sum(len(one.ends) for one in crowd)
        # an idle worker keeps nobody waiting: whoever has none may have one
        assert under_way <= (limit if limit >= processes else limit + processes - 1)


def _others(waiting: list[int], one: int) -> dict[str, int]:
    return {"p": sum(waiting) - waiting[one]}


@given(
    limit=st.integers(1, 40),
    wanted=st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), max_size=12),
    processes=st.integers(2, 4),
    ending=st.integers(0, 5),
)
def test_by_the_same_figures_all_together_have_what_there_is_at_most(
    limit: int, wanted: list[list[int]], processes: int, ending: int
) -> None:
    """Each second all say what they have and how many wait, then take what they may."""
    own = [0] * processes
    for second, demand in enumerate(wanted):
        waiting = [max(demand[one] - own[one], 0) for one in range(processes)]
        most = [
            slots_of(
                limit,
                told=own[one],
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


def test_who_has_too_much_gives_it_back_while_others_wait() -> None:
    own = [12, 0, 0]
    for second in range(30):
        most = [
            slots_of(
                12,
                told=own[one],
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
