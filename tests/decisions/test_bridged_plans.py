"""Where a request goes whose dialect only some of its route's targets speak."""

from dataclasses import replace

import pytest

from inference.contract.kinds import Backend, Endpoint, PoolPower, Provisioner
from inference.contract.snapshot import ConfigSnapshot, PoolRecord, RouteRecord
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import Tried, rooms_for
from inference.decisions.endpoints import OFFERS
from inference.decisions.facts import facts_from_record, facts_record
from inference.decisions.plan import (
    LeftOut,
    LeftOutReason,
    Plan,
    Refusal,
    RefusalCode,
    RequestFacts,
    plan_request,
)
from inference.decisions.validation import problems_in
from tests.decisions.candidates import Candidate
from tests.inference.gateway.rig import (
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)

ADDRESS = "http://127.0.0.1:9000/v1"
MESSAGE = RequestFacts("m", prompt_tokens_max=1, endpoint=Endpoint.MESSAGES)


def pools(**changes: object) -> tuple[PoolRecord, PoolRecord, PoolRecord]:
    """`a` and `c` speak chat, `b` all dialects."""
    return (
        pool_record("a", ADDRESS, backend=Backend.OPENAI),
        pool_record("b", ADDRESS, **changes),
        pool_record("c", ADDRESS, endpoints=(Endpoint.CHAT,)),
    )


def decided(snapshot: ConfigSnapshot, facts: RequestFacts = MESSAGE) -> Plan | Refusal:
    return plan_request(snapshot, key_record(TOKEN), request=facts, now=0.0, u=0.0, offers=OFFERS)


def planned(snapshot: ConfigSnapshot, facts: RequestFacts = MESSAGE) -> Plan:
    plan = decided(snapshot, facts)
    assert isinstance(plan, Plan)
    return plan


def places(plan: Plan) -> list[tuple[str, Endpoint | None]]:
    return [(one.pool.name, one.bridge) for one in plan.targets]


def tiered(*tiers: int) -> RouteRecord:
    route = route_record("a", "b", "c")
    targets = zip(route.targets, tiers, strict=True)
    return replace(route, targets=tuple(replace(one, tier=tier) for one, tier in targets))


def test_those_that_speak_the_dialect_come_first_in_their_tier() -> None:
    snapshot = configuration(*pools())
    assert places(planned(snapshot)) == [("b", None), ("a", Endpoint.CHAT), ("c", Endpoint.CHAT)]
    chat = replace(MESSAGE, endpoint=Endpoint.CHAT)
    assert places(planned(snapshot, chat)) == [("a", None), ("b", None), ("c", None)]
    lower = configuration(*pools(), routes=(tiered(0, 1, 1),))
    assert places(planned(lower)) == [("a", Endpoint.CHAT), ("b", None), ("c", Endpoint.CHAT)]


def left(plan: Plan, free: str, tried: tuple[Tried, ...] = ()) -> list[str]:
    """The workers among which the next attempt is placed, if these pools have one."""
    rooms = rooms_for(
        plan,
        [
            Capacity((Candidate(f"{one.pool.name}0"),) if one.pool.name in free else ())
            for one in plan.targets
        ],
        tried=tried,
    )
    return [worker.id for room in rooms for worker in room.workers]


def test_others_are_asked_once_none_of_those_is_left() -> None:
    plan = planned(configuration(*pools()))
    assert left(plan, "abc") == ["b0"]
    assert left(plan, "ac") == ["a0", "c0"]
    assert left(plan, "abc", (Tried("tgt_b", "b0", may_repeat=True),)) == ["a0", "c0"]


def test_what_has_no_other_words_is_left_to_those_that_need_none() -> None:
    facts = replace(MESSAGE, is_bridgeable=False)
    plan = planned(configuration(*pools()), facts)
    assert places(plan) == [("b", None)]
    assert plan.left_out == (
        LeftOut("tgt_a", LeftOutReason.NOT_BRIDGEABLE),
        LeftOut("tgt_c", LeftOutReason.NOT_BRIDGEABLE),
    )
    assert facts_from_record(facts_record(facts)) == facts
    assert facts_from_record(facts_record(MESSAGE)) == MESSAGE


@pytest.mark.parametrize(
    ("endpoints", "is_bridgeable", "code"),
    [
        ((Endpoint.CHAT,), False, RefusalCode.NOT_BRIDGEABLE),
        ((Endpoint.EMBEDDINGS,), False, RefusalCode.WRONG_ENDPOINT),
        ((Endpoint.EMBEDDINGS,), True, RefusalCode.WRONG_ENDPOINT),
    ],
)
def test_without_any_it_is_refused(
    endpoints: tuple[Endpoint, ...], is_bridgeable: bool, code: RefusalCode
) -> None:
    snapshot = configuration(pool_record("a", ADDRESS, endpoints=endpoints))
    refusal = decided(snapshot, replace(MESSAGE, is_bridgeable=is_bridgeable))
    assert isinstance(refusal, Refusal)
    assert refusal.code is code


def test_a_pool_that_stands_still_is_left_out_for_that() -> None:
    refusal = decided(
        configuration(*pools(power=PoolPower.STOPPED)), replace(MESSAGE, is_bridgeable=False)
    )
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.NO_CAPACITY


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"endpoints": (Endpoint.CHAT, Endpoint.RERANK)}, "endpoints.1", "not_allowed"),
        ({"endpoints": (Endpoint.CHAT, Endpoint.CHAT)}, "endpoints.1", "duplicate"),
        (
            {
                "endpoints": (Endpoint.CHAT,),
                "provisioner": Provisioner.PROCESS,
                "backend": Backend.VLLM,
                "model_source": "m",
                "addresses": (),
                "credential": None,
            },
            "endpoints",
            "not_allowed",
        ),
    ],
)
def test_endpoints_that_cannot_be_are_a_problem_at_their_place(
    changes: dict[str, object], field: str, code: str
) -> None:
    pool = replace(pool_record("a", ADDRESS, backend=Backend.OPENAI), **changes)
    found = [(one.field, one.code) for one in problems_in(configuration(pool)) if one.record_id]
    assert (field, code) in found
    is_first = {"endpoints": (Endpoint.CHAT,)}
    assert problems_in(configuration(pool_record("a", ADDRESS, **is_first))) == ()
