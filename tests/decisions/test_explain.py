"""What an explanation tells beside the decision: shares, standbys, limits, waits and steps."""

from dataclasses import replace

import pytest

from inference.contract.kinds import (
    BreakerState,
    DegradationStep,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    PriorityClass,
    Strategy,
    WorkerState,
)
from inference.contract.snapshot import LimitRecord, RouteRecord, TargetRecord
from inference.decisions.breaker import Breaker
from inference.decisions.endpoints import OFFERS
from inference.decisions.explain import Case, Standby, explain
from inference.decisions.facts import RequestFacts
from inference.decisions.fleet_view import FleetView, WorkerView, fleet_view
from inference.decisions.plan import Refusal, RefusalCode
from tests.decisions.fleets import KEY, configured, pool

FACTS = RequestFacts("m", prompt_tokens_max=400, output_tokens_requested=100, prompt_tokens=100)
TARGETS = (TargetRecord("tgt_a", "pool_a", 3), TargetRecord("tgt_b", "pool_b", 1))
ROUTE = RouteRecord("rt_m", "org_a", "m", TARGETS, Strategy.WEIGHTED)
POOLS = (pool("a", 2), pool("b", 2))


def workers(**changes: WorkerView) -> FleetView:
    """Two idle ones a pool; `a0=…` has another in its place."""
    found = [
        changes.get(f"{name}{place}", WorkerView(f"pool_{name}-{place}", f"pool_{name}"))
        for name in "ab"
        for place in range(2)
    ]
    return fleet_view(found, now_s=10.0)


def case(route: RouteRecord = ROUTE, fleet: FleetView | None = None, **more: object) -> Case:
    snapshot = configured(POOLS, route, limits=more.pop("limits", ()))  # type: ignore[arg-type]
    given: dict[str, object] = {"identity": KEY, "facts": FACTS, "now": 1e9, "offers": OFFERS}
    return Case(snapshot=snapshot, fleet=fleet or workers(), **(given | more))  # type: ignore[arg-type]


def test_shares_are_those_of_all_chances() -> None:
    found = explain(case()).targets
    assert [one.share for one in found] == [0.75, 0.25]
    shares = [worker.share for one in found for worker in one.workers]
    assert shares == pytest.approx([0.375, 0.375, 0.125, 0.125], abs=0.01)


def test_workers_that_cannot_be_chosen_say_why() -> None:
    fleet = workers(
        a0=WorkerView("pool_a-0", "pool_a", WorkerState.STARTING),
        a1=WorkerView("pool_a-1", "pool_a", inflight=2, slots=2),
        b0=WorkerView("pool_b-0", "pool_b", breaker=Breaker(BreakerState.OPEN, 11.0, 1)),
        b1=WorkerView("pool_b-1", "pool_b", aside_until_s=11.0),
    )
    found = explain(case(fleet=fleet))
    standbys = {one.worker.id: one.standby for target in found.targets for one in target.workers}
    assert standbys == {
        "pool_a-0": Standby.NOT_READY,
        "pool_a-1": Standby.FULL,
        "pool_b-0": Standby.BREAKER_OPEN,
        "pool_b-1": Standby.SET_ASIDE,
    }
    assert (found.choice, found.waits, found.unserved) == (None, True, 1.0)


def test_a_full_target_is_passed_over_for_one_with_room() -> None:
    full = {
        f"a{place}": WorkerView(f"pool_a-{place}", "pool_a", inflight=2, slots=2)
        for place in range(2)
    }
    found = explain(case(fleet=workers(**full)))
    assert found.choice is not None
    assert found.choice.room.target.id == "tgt_b"
    assert [one.share for one in found.targets] == [0.0, 1.0]


def test_limits_that_bear_on_it_say_what_they_want() -> None:
    limit = LimitRecord(
        *("lim_1", "org_a", "tokens", LimitSubject.TEAM, LimitUnit.TOTAL_TOKENS, 10_000),
        subject_id="team_a",
        window=LimitWindow.MINUTE,
        enforcement=Enforcement.STRICT,
    )
    others = replace(limit, id="lim_2", subject_id="team_b")
    (found,) = explain(case(limits=(limit, others))).limits
    assert (found.bearing.limit.id, found.bearing.subject) == ("lim_1", "team_a")
    assert (found.stake.floor, found.stake.take) == (500, 500)


def test_a_limit_that_is_short_refuses_and_the_one_that_lasts_longest_is_told() -> None:
    day = LimitRecord(
        *("lim_d", "org_a", "day", LimitSubject.KEY, LimitUnit.REQUESTS, 10),
        subject_id=KEY.id,
        window=LimitWindow.DAY,
    )
    minute = replace(day, id="lim_m", window=LimitWindow.MINUTE)
    parallel = replace(day, id="lim_p", unit=LimitUnit.PARALLEL, window=None)
    limits = (parallel, minute, day)
    assert explain(case(limits=limits)).refused_by is None
    none_left = {(one.id, KEY.id): 0 for one in limits}
    found = explain(case(limits=limits, left=none_left))
    assert found.refused_by is not None
    assert found.refused_by.bearing.limit.id == "lim_d"
    assert (found.choice, found.targets, found.waits) == (None, (), False)
    assert found.record is not None
    assert found.record["limits"] == {"kept": ["lim_d", "lim_m", "lim_p"], "refused": "lim_d"}
    # a request that may use more than there ever is
    tokens = replace(day, unit=LimitUnit.TOTAL_TOKENS, amount=499, enforcement=Enforcement.STRICT)
    assert explain(case(limits=(tokens,))).refused_by is not None
    assert explain(case(limits=(replace(tokens, amount=500),))).refused_by is None


def test_steps_in_force_at_its_route_are_taken() -> None:
    steps = (DegradationStep.SHED_BATCH,)
    route = replace(ROUTE, degradation=steps)
    batch = replace(FACTS, priority=PriorityClass.BATCH)
    found = explain(case(route, facts=batch, steps={"rt_m": 1}))
    assert (found.is_shed, found.degraded, found.choice) == (True, steps, None)
    assert found.record is not None
    assert (found.record["degraded"], found.record["attempts"]) == (["shed_batch"], [])
    assert explain(case(route, facts=batch)).is_shed is False


def test_a_refusal_is_the_plans() -> None:
    found = explain(case(facts=replace(FACTS, model="gone")))
    assert isinstance(found.decided, Refusal)
    assert found.decided.code is RefusalCode.MODEL_NOT_FOUND
    assert (found.route, found.record, found.targets) == (None, None, ())
