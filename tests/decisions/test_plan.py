"""Which route and targets a request gets."""

from dataclasses import replace
from typing import Any

import pytest

from inference.contract.events import PriceUsed
from inference.contract.kinds import (
    Endpoint,
    PoolPower,
    PriorityClass,
    SwitchSubject,
    TaskClass,
)
from inference.contract.snapshot import (
    MatchRecord,
    ModelRecord,
    OrganisationRecord,
    PriceRecord,
    RouteRecord,
    RuleRecord,
    ScheduleRecord,
    SwitchRecord,
    TargetRecord,
)
from inference.decisions.endpoints import EVERYTHING
from inference.decisions.groundwork import Groundwork
from inference.decisions.plan import (
    LeftOut,
    LeftOutReason,
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


URL = "http://127.0.0.1:1/v1"


def in_tiers(*tiers: str) -> tuple[TargetRecord, ...]:
    """Targets of pools of these names, a word a tier; weights fall steeply inside each."""
    return tuple(
        TargetRecord(f"tgt_{name}", f"pool_{name}", 10 ** (3 - place), tier=tier)
        for tier, names in enumerate(tiers)
        for place, name in enumerate(names)
    )


def plan_over(
    names: str, *, request: RequestFacts = FACTS, u: float = 0.0, **changes: object
) -> Plan | Refusal:
    """What is decided of a route over pools of these letters, each of a model of its own."""
    pools = [pool_record(name, URL, model_id=f"mdl_{name}") for name in names]
    route = route_record(*names, **changes)
    return plan_request(configuration(*pools, routes=(route,)), KEY, request=request, now=NOW, u=u)


def test_a_route_goes_by_its_aliases_too_for_those_who_may_use_it() -> None:
    pool = pool_record("a", URL)
    snapshot = configuration(pool, routes=(route_record("a", aliases=("gpt", "llm")),))
    asked = replace(FACTS, model="llm")
    plan = plan_request(snapshot, KEY, request=asked, now=NOW, u=0.0)
    assert isinstance(plan, Plan)
    assert plan.route.name == "m"
    hidden = replace(KEY, route_names=("llm",))  # keys name routes, not aliases
    refused = plan_request(snapshot, hidden, request=asked, now=NOW, u=0.0)
    assert refused == Refusal(RefusalCode.MODEL_NOT_FOUND)


def test_the_rule_that_fits_decides_the_targets_and_is_told() -> None:
    rules = (
        RuleRecord("r1", "code", MatchRecord(tasks=(TaskClass.CODE,)), in_tiers("b")),
        RuleRecord("r2", "big", MatchRecord(prompt_tokens_min=50), in_tiers("c", "a")),
    )

    def decided(**facts: object) -> tuple[list[str], str | None]:
        plan = plan_over("abc", request=replace(FACTS, **facts), targets=in_tiers("a"), rules=rules)
        assert isinstance(plan, Plan)
        return targets(plan), plan.rule_id

    assert decided() == (["tgt_a"], None)
    assert decided(task=TaskClass.CODE, prompt_tokens=99) == (["tgt_b"], "r1")
    assert decided(prompt_tokens=50) == (["tgt_c", "tgt_a"], "r2")


def test_a_rule_whose_targets_are_gone_does_not_fall_back_to_the_routes_own() -> None:
    rules = (RuleRecord("r1", "all", MatchRecord(), in_tiers("x")),)
    refused = plan_over("a", rules=rules)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.rule_id) == (RefusalCode.NO_CAPACITY, "r1")


def test_schedules_are_read_in_the_organisations_zone() -> None:
    night = MatchRecord(schedule=ScheduleRecord(from_minute=0, to_minute=60))
    route = route_record("a", rules=(RuleRecord("r1", "night", night, in_tiers("a")),))

    def rule_at(zone: str, hour_utc: int) -> str | None:
        organisation = OrganisationRecord("org_a", "Water", time_zone=zone)
        snapshot = configuration(
            pool_record("a", URL), routes=(route,), organisations=(organisation,)
        )
        midnight = 1_764_547_200.0  # of the first of December 2025, UTC
        at = midnight + 3_600 * hour_utc
        plan = plan_request(snapshot, KEY, request=FACTS, now=at, u=0.0)
        assert isinstance(plan, Plan)
        return plan.rule_id

    assert (rule_at("UTC", 0), rule_at("UTC", 15)) == ("r1", None)
    assert (rule_at("Asia/Tokyo", 0), rule_at("Asia/Tokyo", 15)) == (None, "r1")


def test_lower_tiers_come_first_and_weights_decide_inside_one() -> None:
    tiers = in_tiers("ab", "cd")
    orders = set()
    for step in range(100):
        plan = plan_over("abcd", u=step / 100, targets=tiers)
        assert isinstance(plan, Plan)
        orders.add("".join(name[-1] for name in targets(plan)))
        assert [one.fallbacks for one in plan.targets] == [0, 0, 1, 1]
    assert orders >= {"abcd", "bacd"}
    assert {order[:2] for order in orders} == {"ab", "ba"}


def test_a_weight_of_zero_is_in_no_tier() -> None:
    tiers = (*in_tiers("a"), replace(in_tiers("", "b")[0], weight=0), *in_tiers("", "", "c"))
    plan = plan_over("abc", targets=tiers)
    assert isinstance(plan, Plan)
    assert [(one.target.id, one.fallbacks) for one in plan.targets] == [("tgt_a", 0), ("tgt_c", 1)]


def test_a_target_that_is_asked_for_is_the_only_one_whatever_its_weight() -> None:
    tiers = (*in_tiers("a"), replace(in_tiers("", "b")[0], weight=0))
    rules = (RuleRecord("r1", "all", MatchRecord(), in_tiers("c")),)
    for name in "abc":
        request = replace(FACTS, target_id=f"tgt_{name}")
        plan = plan_over("abc", request=request, targets=tiers, rules=rules)
        assert isinstance(plan, Plan)
        assert (targets(plan), plan.rule_id) == ([f"tgt_{name}"], None)
    refused = plan_over("abc", request=replace(FACTS, target_id="tgt_x"), targets=tiers)
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.TARGET_NOT_FOUND


def by_context(contexts: dict[str, int | None], request: RequestFacts, *tiers: str) -> Plan:
    """The plan over models that take so many tokens, by the letter of their pools."""
    models = tuple(
        ModelRecord(f"mdl_{name}", "org_a", name, max_context_tokens=size)
        for name, size in contexts.items()
    )
    pools = [pool_record(name, URL, model_id=f"mdl_{name}") for name in contexts]
    route = route_record("a", targets=in_tiers(*tiers))
    snapshot = configuration(*pools, routes=(route,), models=models)
    plan = plan_request(snapshot, KEY, request=request, now=NOW, u=0.0)
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ({"a": 100, "b": 1_000}, ["tgt_b"]),
        ({"a": 110, "b": 1_000}, ["tgt_a", "tgt_b"]),
        ({"a": 109, "b": None}, ["tgt_b"]),
        # estimates err: if none fits, the engines decide
        ({"a": 50, "b": 100}, ["tgt_a", "tgt_b"]),
        ({"a": 50}, ["tgt_a"]),
    ],
)
def test_what_a_request_does_not_fit_is_left_out_if_it_fits_another(
    contexts: dict[str, int | None], expected: list[str]
) -> None:
    request = replace(FACTS, prompt_tokens=100)  # and ten are to be answered
    plan = by_context(contexts, request, *contexts)
    assert targets(plan) == expected
    left_out = [f"tgt_{name}" for name in contexts if f"tgt_{name}" not in expected]
    assert list(plan.left_out) == [
        LeftOut(name, LeftOutReason.CONTEXT_TOO_SMALL) for name in left_out
    ]


def test_of_many_prompts_each_has_a_context_of_its_own() -> None:
    request = replace(FACTS, prompt_tokens=1_000, prompts=10, output_tokens_requested=None)
    assert targets(by_context({"a": 100, "b": 1_000}, request, "a", "b")) == ["tgt_a", "tgt_b"]


def test_an_engine_that_was_started_with_less_takes_less() -> None:
    small = pool_record("a", URL, engine_arguments={"max_model_len": 64})
    snapshot = configuration(small, pool_record("b", URL))
    request = replace(FACTS, prompt_tokens=100)
    plan = plan_request(snapshot, KEY, request=request, now=NOW, u=0.0)
    assert isinstance(plan, Plan)
    assert targets(plan) == ["tgt_b"]


def test_requests_belong_together_by_session_else_end_user_else_key() -> None:
    found = []
    for said in ({"session": "s", "end_user": "u"}, {"end_user": "u"}, {}):
        plan = plan_over("a", request=replace(FACTS, **said))
        assert isinstance(plan, Plan)
        found.append(plan.affinity)
    assert found == ["s", "u", KEY.id]


def test_a_plan_says_what_the_request_counts_as() -> None:
    plan = plan_over("a", request=replace(FACTS, priority=PriorityClass.BATCH, tags=("x",)))
    assert isinstance(plan, Plan)
    assert (plan.standing.priority, plan.standing.tags) == (PriorityClass.BATCH, ("x",))


@pytest.mark.parametrize("u", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("is_thrown", [False, True])
def test_groundwork_that_was_used_before_changes_no_plan(u: float, is_thrown: bool) -> None:
    small = RouteRecord("rt_s", "org_a", "small", (TargetRecord("tgt_s", "pool_a", 1),))
    two = (TargetRecord("tgt_a", "pool_a", 1), TargetRecord("tgt_b", "pool_b", 2, tier=1))
    when = MatchRecord(prompt_tokens_min=50)
    rule = RuleRecord("rul_a", "long", when, (TargetRecord("tgt_c", "pool_b", 1),))
    route = RouteRecord("rt_m", "org_a", "m", two, aliases=("n",), rules=(rule,))
    pools = tuple(pool_record(name, "http://127.0.0.1:1/v1") for name in "ab")
    snapshot = configuration(*pools, routes=(small, route))
    if is_thrown:
        switch = SwitchRecord("swi_a", "org_a", SwitchSubject.POOL, "pool_a", expires_at=NOW + 10)
        thrown = {("org_a", SwitchSubject.POOL, "pool_a"): switch}
        snapshot = replace(snapshot, switches={"swi_a": switch}, thrown=thrown)
    ground = Groundwork(snapshot, EVERYTHING, NOW)
    changes: list[dict[str, Any]] = [
        {},
        {"model": "n", "tags": ("a",), "priority": PriorityClass.BATCH},
        {"model": "small", "session": "s"},
        {"model": "nowhere"},
        {"prompt_tokens": 100},
        {"target_id": "tgt_c"},
        {"target_id": "tgt_x"},
        {"endpoint": Endpoint.EMBEDDINGS},
    ]
    for now in (NOW, NOW + 20, NOW):
        for change in changes:
            request = replace(FACTS, **change)
            plain = plan_request(snapshot, KEY, request=request, now=now, u=u)
            assert (
                plan_request(snapshot, KEY, request=request, now=now, u=u, ground=ground) == plain
            )
