"""What the variants that a request got change of its plan, and who stands in for whom."""

from dataclasses import replace

import pytest

from inference.contract.kinds import Endpoint, ExperimentUnit, PoolPower
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    MatchRecord,
    RuleRecord,
    TargetRecord,
    VariantRecord,
)
from inference.decisions.arms import (
    cache_part_of,
    cache_policy_of,
    exposures_of,
    parameters_of,
)
from inference.decisions.endpoints import OFFERS
from inference.decisions.explain import Case, explain
from inference.decisions.facts import RequestFacts
from inference.decisions.fleet_view import WorkerView, fleet_view
from inference.decisions.groundwork import Groundwork
from inference.decisions.plan import Plan, Refusal, RefusalCode, plan_request
from inference.decisions.record import decision_record
from tests.decisions.tried import EXPERIMENT, NOW, experiment, with_experiments
from tests.inference.gateway.rig import (
    TOKEN,
    configuration,
    key_record,
    pool_record,
    route_record,
)

KEY = key_record(TOKEN)
POOLS = tuple(pool_record(name, f"http://127.0.0.1:{place}/v1") for place, name in enumerate("abx"))
ROUTE = route_record("a", "b")
FACTS = RequestFacts("m", prompt_tokens_max=100, output_tokens_requested=10, end_user="ann")


def names() -> dict[str, str]:
    """An end user of each variant."""
    found: dict[str, str] = {}
    for number in range(20):
        plan = planned(EXPERIMENT, facts=replace(FACTS, end_user=f"user {number}"))
        variant = plan.assignments[0].variant
        assert variant is not None
        found.setdefault(variant.id, f"user {number}")
    return found


def configured(*experiments: ExperimentRecord, **changes: object) -> ConfigSnapshot:
    routes = (replace(ROUTE, **changes),)  # type: ignore[arg-type]
    return with_experiments(configuration(*POOLS, routes=routes), *experiments)


def planned(
    *experiments: ExperimentRecord, facts: RequestFacts = FACTS, u: float = 0.0, **route: object
) -> Plan:
    snapshot = configured(*experiments, **route)
    plan = plan_request(snapshot, KEY, request=facts, now=NOW, u=u)
    assert isinstance(plan, Plan)
    return plan


def of_arm(arm: str, *experiments: ExperimentRecord, **more: object) -> Plan:
    return planned(*experiments, facts=replace(FACTS, end_user=names()[arm]), **more)  # type: ignore[arg-type]


def targets(plan: Plan) -> list[tuple[str, bool]]:
    return [(one.target.id, one.stands_in) for one in plan.targets]


def test_a_variant_has_its_targets_and_then_the_controls() -> None:
    assert targets(of_arm("var_a", EXPERIMENT)) == [("tgt_a", False), ("tgt_b", False)]
    plan = of_arm("var_b", EXPERIMENT)
    assert targets(plan) == [("tgt_x", False), ("tgt_a", True), ("tgt_b", True)]
    assert [one.target.tier for one in plan.targets] == [0, 1, 1]
    assert [one.fallbacks for one in plan.targets] == [0, 1, 1]


def test_the_control_falls_back_to_nobody() -> None:
    own = VariantRecord("var_a", "control", 5_000, (TargetRecord("tgt_x", "pool_x", 1),))
    usual = VariantRecord("var_b", "as on the route", 5_000)
    record = replace(EXPERIMENT, variants=(own, usual))
    assert targets(of_arm("var_a", record)) == [("tgt_x", False)]
    assert targets(of_arm("var_b", record)) == [
        *(("tgt_a", False), ("tgt_b", False)),
        ("tgt_x", True),
    ]


def test_the_usual_targets_are_those_of_the_rule_that_matched() -> None:
    rule = RuleRecord("rule_1", "all", MatchRecord(), (TargetRecord("tgt_r", "pool_b", 1),))
    control = of_arm("var_a", EXPERIMENT, rules=(rule,))
    assert (targets(control), control.rule_id) == ([("tgt_r", False)], "rule_1")
    other = of_arm("var_b", EXPERIMENT, rules=(rule,))
    assert targets(other) == [("tgt_x", False), ("tgt_r", True)]


def test_a_variant_whose_pool_does_not_run_is_served_by_its_control() -> None:
    stopped = (*POOLS[:2], replace(POOLS[2], power=PoolPower.STOPPED))
    snapshot = with_experiments(configuration(*stopped, routes=(ROUTE,)), EXPERIMENT)
    facts = replace(FACTS, end_user=names()["var_b"])
    plan = plan_request(snapshot, KEY, request=facts, now=NOW, u=0.0)
    assert isinstance(plan, Plan)
    assert targets(plan) == [("tgt_a", True), ("tgt_b", True)]
    assert plan.assignments[0].variant is EXPERIMENT.variants[1]


def test_who_is_refused_a_plan_has_been_assigned_all_the_same() -> None:
    stopped = [replace(pool, power=PoolPower.STOPPED) for pool in POOLS]
    snapshot = with_experiments(configuration(*stopped, routes=(ROUTE,)), EXPERIMENT)
    refusal = plan_request(snapshot, KEY, request=FACTS, now=NOW, u=0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.NO_CAPACITY
    (exposure,) = exposures_of(refusal.assignments, is_served=False)
    assert exposure.served_variant_id is None


@pytest.mark.parametrize(
    "record",
    [
        replace(EXPERIMENT, is_running=False),
        replace(EXPERIMENT, ends_at=NOW),
        replace(EXPERIMENT, allocation_bp=0),
        replace(EXPERIMENT, when=MatchRecord(tags=("eu",))),
        replace(EXPERIMENT, unit=ExperimentUnit.SESSION),
        replace(EXPERIMENT, route_id="rt_x"),
    ],
    ids=["stopped", "over", "not allocated", "others' requests", "no session", "elsewhere"],
)
def test_an_experiment_that_a_request_takes_no_part_in_changes_nothing(
    record: ExperimentRecord,
) -> None:
    without = planned()
    assert replace(planned(record), assignments=()) == without


def test_a_target_asked_for_may_be_a_variants_and_is_no_part_of_the_experiment() -> None:
    plan = planned(EXPERIMENT, facts=replace(FACTS, target_id="tgt_x"))
    assert targets(plan) == [("tgt_x", False)]
    assert exposures_of(plan.assignments, is_served=True) == ()


def test_a_name_more_of_a_route_leads_to_the_same_arm() -> None:
    """C149"""
    for number in range(20):
        facts = replace(FACTS, end_user=f"user {number}")
        arms = [
            planned(EXPERIMENT, facts=replace(facts, model=name), aliases=("latest",)).assignments
            for name in ("m", "latest")
        ]
        assert arms[0] == arms[1]


def test_headers_that_an_experiment_looks_at_are_read() -> None:
    record = replace(EXPERIMENT, when=MatchRecord(headers=(("x-region", "eu"),)))
    way = Groundwork(configured(record), OFFERS, NOW).way(KEY, "m")
    assert way is not None
    assert way.looked_at == {"x-region"}


def test_plans_are_the_same_with_a_groundwork_and_without() -> None:
    snapshot = configured(EXPERIMENT)
    ground = Groundwork(snapshot, OFFERS, NOW)
    for number in range(40):
        facts = replace(FACTS, end_user=f"user {number % 10}")
        asked = {"request": facts, "now": NOW, "u": number / 40, "offers": OFFERS}
        plain = plan_request(snapshot, KEY, **asked)  # type: ignore[arg-type]
        assert plan_request(snapshot, KEY, ground=ground, **asked) == plain  # type: ignore[arg-type]


def test_an_endpoint_that_only_the_control_answers_is_served_by_it() -> None:
    pools = (*POOLS[:2], replace(POOLS[2], endpoints=(Endpoint.COMPLETIONS,)))
    snapshot = with_experiments(configuration(*pools, routes=(ROUTE,)), EXPERIMENT)
    facts = replace(FACTS, end_user=names()["var_b"])
    plan = plan_request(snapshot, KEY, request=facts, now=NOW, u=0.0, offers=OFFERS)
    assert isinstance(plan, Plan)
    assert [one.stands_in for one in plan.targets] == [True, True]


def of_two_layers() -> tuple[ExperimentRecord, ExperimentRecord]:
    """One that changes targets and a parameter, and one of another layer for another parameter."""
    control, other = EXPERIMENT.variants
    first = replace(
        EXPERIMENT,
        variants=(
            replace(control, parameters={"top_p": "0.5"}),
            replace(other, parameters={"top_p": "1"}, cache_policy_id="cch_a"),
        ),
    )
    warm = VariantRecord("var_w", "warm", 10_000, parameters={"temperature": "0.9"})
    return first, replace(EXPERIMENT, id="exp_b", layer="else", salt="s2", variants=(warm,))


def test_parameters_are_those_of_who_serves() -> None:
    assignments = of_arm("var_b", *of_two_layers()).assignments
    own = parameters_of(assignments, is_stood_in=False)
    assert own == {"top_p": "1", "temperature": "0.9"}
    stood_in = parameters_of(assignments, is_stood_in=True)
    assert stood_in == {"top_p": "0.5", "temperature": "0.9"}
    served = exposures_of(assignments, is_served=True, is_stood_in=True)
    assert [(one.variant_id, one.served_variant_id) for one in served] == [
        ("var_b", "var_a"),
        ("var_w", "var_w"),
    ]


def test_a_cache_policy_is_the_variants_and_parts_never_cross() -> None:
    usual = replace(ROUTE, cache_policy_id="cch_r")
    plans = [of_arm(arm, *of_two_layers()) for arm in ("var_a", "var_b")]
    assert [cache_policy_of(usual, one.assignments) for one in plans] == ["cch_r", "cch_a"]
    parts = [cache_part_of(one.assignments) for one in plans]
    assert [[name[:5] for name in part.split("/")] for part in parts] == [
        ["var_a", "var_w"],
        ["var_b", "var_w"],
    ]
    assert cache_part_of(planned().assignments) == ""
    assert cache_part_of(of_arm("var_b", EXPERIMENT).assignments) == "var_b"


def test_a_variant_with_other_parameters_has_another_part_of_caches() -> None:
    first, _ = of_two_layers()
    control, other = first.variants
    changed = replace(first, variants=(control, replace(other, parameters={"top_p": "0.9"})))
    parts = {cache_part_of(of_arm("var_b", one).assignments) for one in (first, changed)}
    assert len(parts) == 2


def test_the_decision_record_tells_what_decided() -> None:
    plan = of_arm("var_b", *of_two_layers())
    first, second = decision_record(plan, ())["experiments"]  # type: ignore[misc]
    assert first["variant"] == "var_b"
    assert 0.5 <= first["draw"] < 1.0
    assert first["parameters"] == {"top_p": "1"}
    assert (first["unit"], first["phase"], len(first["unit_id"])) == ("user", 1, 16)
    assert second["experiment"] == "exp_b"
    (nobody,) = decision_record(planned(EXPERIMENT, facts=replace(FACTS, end_user=None)), ())[
        "experiments"
    ]  # type: ignore[misc]
    assert nobody == {"experiment": "exp_a", "phase": 1, "unit": "user", "why_not": "no_unit"}
    assert "experiments" not in decision_record(planned(), ())


def explained(record: ExperimentRecord, end_user: str) -> dict[str, float]:
    """How often a request goes to each target that it may come to."""
    workers = [WorkerView(f"pool_{name}-0", f"pool_{name}") for name in "abx"]
    case = Case(
        snapshot=configured(record),
        identity=KEY,
        facts=replace(FACTS, end_user=end_user),
        fleet=fleet_view(workers, now_s=1.0),
        now=NOW,
        offers=OFFERS,
    )
    return {one.target.id: one.share for one in explain(case).targets}


def test_explain_has_the_targets_of_the_arm_and_of_others_by_chance() -> None:
    assert explained(EXPERIMENT, names()["var_b"])["tgt_x"] == 1.0
    shares = explained(experiment(unit=ExperimentUnit.REQUEST), "ann")
    assert shares["tgt_x"] == pytest.approx(0.5, abs=0.08)
    assert sum(shares.values()) == pytest.approx(1.0)
