"""Which route and targets a request gets."""

from dataclasses import replace

import pytest

from inference.contract.events import PriceUsed
from inference.contract.kinds import PoolPower
from inference.contract.snapshot import PriceRecord
from inference.decisions.plan import (
    Plan,
    Refusal,
    RefusalCode,
    RequestFacts,
    is_visible,
    plan_request,
)
from tests.inference.gateway.rig import (
    PRICE,
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)

KEY = key_record(TOKEN)
FACTS = RequestFacts("m", prompt_tokens_max=100, output_tokens_requested=10)
NOW = 1_764_500_000.0


def planned(*names: str, u: float = 0.0, attempts: int = 2) -> Plan:
    """The plan for a route over pools of these names, in this order."""
    pools = [pool_record(name, "http://127.0.0.1:1/v1") for name in names]
    snapshot = configuration(*pools, routes=(route_record(*names, max_attempts=attempts),))
    plan = plan_request(snapshot, KEY, request=FACTS, now=NOW, u=u)
    assert isinstance(plan, Plan)
    return plan


def targets(plan: Plan) -> list[str]:
    return [one.target.id for one in plan.targets]


def test_a_plan_says_where_to_go_and_what_it_costs_at_most() -> None:
    plan = planned("a", "b")
    assert targets(plan) == ["tgt_a", "tgt_b"]
    assert (plan.prompt_tokens_max, plan.output_tokens_max) == (100, 10)
    assert plan.targets[0].price == PriceUsed("prc_a", 10**12, 2 * 10**12)
    assert plan.cost_max_nanousd == 120_000_000
    assert (plan.at, plan.u) == (NOW, 0.0)


def test_the_same_inputs_give_the_same_plan() -> None:
    assert planned("a", "b", "c", u=0.9999) == planned("a", "b", "c", u=0.9999)
    assert targets(planned("a", "b", "c", u=0.9999)) != targets(planned("a", "b", "c"))


def test_the_routes_default_bounds_an_output_nobody_bounded() -> None:
    snapshot = configuration(
        pool_record("a", "http://127.0.0.1:1/v1"),
        routes=(route_record("a", default_max_output_tokens=300),),
    )
    request = RequestFacts("m", prompt_tokens_max=1, answers=2)
    plan = plan_request(snapshot, KEY, request=request, now=NOW, u=0.0)
    assert isinstance(plan, Plan)
    assert plan.output_tokens_max == 600


def test_the_dearest_target_bounds_the_cost_and_an_unpriced_one_makes_it_unknown() -> None:
    cheap = pool_record("a", "http://127.0.0.1:1/v1")
    dear = pool_record("b", "http://127.0.0.1:1/v1", model_id="mdl_b")
    tenfold = replace(PRICE, id="prc_b", model_id="mdl_b", output_nanousd_per_mtok=20 * 10**12)

    def most(*prices: PriceRecord) -> int | None:
        snapshot = configuration(cheap, dear, prices=prices)
        plan = plan_request(snapshot, KEY, request=FACTS, now=NOW, u=0.0)
        assert isinstance(plan, Plan)
        return plan.cost_max_nanousd

    assert most(PRICE, tenfold) == 300_000_000
    assert most(PRICE) is None


@pytest.mark.parametrize(
    ("key", "is_seen"),
    [
        (KEY, True),
        (replace(KEY, route_names=("m",)), True),
        (replace(KEY, route_names=("other",)), False),
        (replace(KEY, route_names=()), False),
        (replace(KEY, organisation_id="org_b"), False),
    ],
)
def test_a_key_sees_the_routes_it_may_use(key: object, is_seen: bool) -> None:
    assert is_visible(route_record("a"), key) is is_seen  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["nope", "M", ""])
def test_an_unknown_model_and_a_hidden_one_are_refused_alike(name: str) -> None:
    snapshot = configuration(pool_record("a", "http://127.0.0.1:1/v1"))
    hidden = replace(KEY, route_names=("other",))
    refusal = Refusal(RefusalCode.MODEL_NOT_FOUND)
    unknown = plan_request(snapshot, KEY, request=replace(FACTS, model=name), now=NOW, u=0.0)
    assert unknown == plan_request(snapshot, hidden, request=FACTS, now=NOW, u=0.0) == refusal


def test_a_disabled_route_is_not_found() -> None:
    snapshot = configuration(
        pool_record("a", "http://127.0.0.1:1/v1"), routes=(route_record("a", is_enabled=False),)
    )
    refusal = plan_request(snapshot, KEY, request=FACTS, now=NOW, u=0.0)
    assert refusal == Refusal(RefusalCode.MODEL_NOT_FOUND)


@pytest.mark.parametrize(
    ("weights", "power"),
    [
        ((0,), PoolPower.RUNNING),
        ((1,), PoolPower.STOPPED),
        ((1,), PoolPower.DRAINED),
    ],
)
def test_a_known_route_without_a_usable_target_has_no_capacity(
    weights: tuple[int, ...], power: PoolPower
) -> None:
    route = route_record("a", weights=weights)
    pool = pool_record("a", "http://127.0.0.1:1/v1", power=power)
    refusal = plan_request(configuration(pool, routes=(route,)), KEY, request=FACTS, now=NOW, u=0.0)
    assert refusal == Refusal(RefusalCode.NO_CAPACITY, route)
