"""What makes experiments unfit to run, each by itself and beside one another."""

from dataclasses import replace

import pytest

from inference.contract.kinds import ExperimentMode, ExperimentUnit
from inference.contract.snapshot import (
    CachePolicyRecord,
    ExperimentRecord,
    MatchRecord,
    TargetRecord,
    VariantRecord,
)
from inference.decisions.validation import sections_to_check
from tests.decisions.test_validation import ROUTE, found

POLICIES = (
    CachePolicyRecord("cch_a", "org_a", "answers"),
    CachePolicyRecord("cch_b", "org_b", "answers"),
)
CONTROL = VariantRecord("var_a", "control", 5_000)
OTHER = VariantRecord(
    "var_b",
    "small",
    5_000,
    targets=(TargetRecord("tgt_b", "pool_p", 1),),
    parameters={"temperature": "0"},
    cache_policy_id="cch_a",
)
EXPERIMENT = ExperimentRecord(
    "exp_a",
    "org_a",
    "rt_a",
    "a smaller model",
    "s-1",
    ExperimentUnit.USER,
    1,
    (CONTROL, OTHER),
    10_000,
    "answers",
    0,
    5_000,
)
SECOND = replace(EXPERIMENT, id="exp_b", name="second", layer_from_bp=5_000, layer_to_bp=10_000)
HOLDOUT = (VariantRecord("var_h", "held out", 10_000),)


def of_experiments(*experiments: ExperimentRecord) -> list[tuple[str, str, str]]:
    """Record, field and code of every problem."""
    rows = found(experiments=experiments, caches=POLICIES)
    assert {row[0] for row in rows} <= {"experiments"}
    return [row[1:] for row in rows]


def of_one(**changes: object) -> list[tuple[str, str]]:
    one = replace(EXPERIMENT, **changes)  # type: ignore[arg-type]
    return [row[1:] for row in of_experiments(one)]


def of_variant(**changes: object) -> list[tuple[str, str]]:
    other = replace(OTHER, **changes)  # type: ignore[arg-type]
    return of_one(variants=(CONTROL, other))


def test_experiments_as_they_are_made_are_sound() -> None:
    holdout = replace(EXPERIMENT, id="exp_h", name="held out", variants=HOLDOUT, layer="else")
    assert of_experiments(EXPERIMENT, SECOND, holdout) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"organisation_id": "org_x", "variants": HOLDOUT}, ("organisation_id", "unknown")),
        ({"name": " "}, ("name", "invalid")),
        ({"salt": ""}, ("salt", "invalid")),
        ({"route_id": "rt_x"}, ("route_id", "unknown")),
        ({"phase": 0}, ("phase", "out_of_range")),
        ({"allocation_bp": 10_001}, ("allocation_bp", "out_of_range")),
        ({"layer": "Two words"}, ("layer", "invalid")),
        ({"layer_from_bp": -1}, ("layer_from_bp", "out_of_range")),
        ({"layer_to_bp": 10_001}, ("layer_to_bp", "out_of_range")),
        ({"layer_to_bp": 0}, ("layer_to_bp", "invalid")),
        ({"ramp": ((1.0, 10_001),)}, ("ramp.0.1", "out_of_range")),
        ({"ramp": ((1.0, 10), (1.0, 20))}, ("ramp.1.0", "invalid")),
        ({"ramp": ((1.0, 20), (2.0, 10))}, ("ramp.1.1", "invalid")),
        ({"ramp": tuple((float(n), n) for n in range(51))}, ("ramp", "out_of_range")),
        ({"when": MatchRecord(tags=("two words",))}, ("when.tags.0", "invalid")),
        ({"mode": ExperimentMode.SHADOW}, ("mode", "not_allowed")),
        ({"mode": ExperimentMode.BANDIT}, ("unit", "invalid")),
        ({"variants": ()}, ("variants", "required")),
        ({"variants": (CONTROL,)}, ("variants", "invalid")),
        ({"variants": (replace(CONTROL, share_bp=10_001),)}, ("variants", "invalid")),
        (
            {
                "variants": tuple(
                    VariantRecord(f"v{n}", f"{n}", (n < 10) * 1_000) for n in range(11)
                )
            },
            ("variants", "out_of_range"),
        ),
    ],
)
def test_what_an_experiment_may_not_be(
    changes: dict[str, object], problem: tuple[str, str]
) -> None:
    assert problem in of_one(**changes)
    assert len(of_one(**changes)) <= 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": ""}, ("name", "invalid")),
        ({"targets": (TargetRecord("tgt_b", "pool_x", 1),)}, ("targets.0.pool_id", "unknown")),
        ({"targets": (TargetRecord("tgt_b", "pool_b", 1),)}, ("targets.0.pool_id", "foreign")),
        ({"targets": (TargetRecord("tgt_b", "pool_s", 0),)}, ("targets", "required")),
        ({"targets": (TargetRecord("tgt_1", "pool_s", 1),)}, ("targets.0.id", "duplicate")),
        ({"parameters": {"model": '"m"'}}, ("parameters.model", "not_allowed")),
        ({"parameters": {"stream": "true"}}, ("parameters.stream", "not_allowed")),
        ({"parameters": {"messages": "[]"}}, ("parameters.messages", "not_allowed")),
        ({"parameters": {"n": "2"}}, ("parameters.n", "not_allowed")),
        ({"parameters": {"top p": "1"}}, ("parameters.top p", "invalid")),
        ({"parameters": {"top_p": "one"}}, ("parameters.top_p", "invalid")),
        ({"parameters": {"top_p": "[" * 4_096}}, ("parameters.top_p", "invalid")),
        ({"parameters": {"top_p": "1" * 4_097}}, ("parameters.top_p", "out_of_range")),
        ({"parameters": {f"p{n}": "1" for n in range(21)}}, ("parameters", "out_of_range")),
        ({"cache_policy_id": "cch_x"}, ("cache_policy_id", "unknown")),
        ({"cache_policy_id": "cch_b"}, ("cache_policy_id", "foreign")),
        ({"prompt_version_id": "prv_x"}, ("prompt_version_id", "unknown")),
    ],
)
def test_what_a_variant_may_not_be(changes: dict[str, object], problem: tuple[str, str]) -> None:
    field, code = problem
    assert of_variant(**changes) == [(f"variants.1.{field}", code)]


def test_shares_are_within_what_there_is_and_make_a_whole() -> None:
    shares = (replace(CONTROL, share_bp=-1), replace(OTHER, share_bp=10_001))
    assert of_one(variants=shares) == [
        ("variants.0.share_bp", "out_of_range"),
        ("variants.1.share_bp", "out_of_range"),
    ]


def test_variants_of_an_experiment_have_ids_and_names_of_their_own() -> None:
    assert of_one(variants=(CONTROL, CONTROL)) == [
        ("variants.0.id", "duplicate"),
        ("variants.0.name", "duplicate"),
        ("variants.1.id", "duplicate"),
        ("variants.1.name", "duplicate"),
    ]


def test_an_organisation_has_a_name_once() -> None:
    again = replace(SECOND, name=EXPERIMENT.name)
    stranger = replace(EXPERIMENT, id="exp_s", organisation_id="org_b", variants=HOLDOUT)
    assert of_experiments(EXPERIMENT, again, stranger) == [
        ("exp_a", "name", "duplicate"),
        ("exp_b", "name", "duplicate"),
        ("exp_s", "route_id", "foreign"),
    ]


def test_parts_of_a_layer_belong_to_one_experiment_that_runs() -> None:
    early = replace(SECOND, layer_from_bp=4_999)
    assert of_experiments(EXPERIMENT, early) == [
        ("exp_a", "layer_from_bp", "overlap"),
        ("exp_b", "layer_from_bp", "overlap"),
    ]
    assert of_experiments(EXPERIMENT, replace(early, is_running=False)) == []


def test_a_part_inside_another_is_found_whatever_stands_between() -> None:
    whole = replace(EXPERIMENT, layer_to_bp=10_000)
    inside = replace(SECOND, layer_from_bp=1_000, layer_to_bp=2_000)
    last = replace(SECOND, id="exp_c", name="third", layer_from_bp=9_000)
    fields = {row[0] for row in of_experiments(whole, inside, last)}
    assert fields == {"exp_a", "exp_b", "exp_c"}


def test_a_layer_has_one_unit() -> None:
    by_key = replace(SECOND, unit=ExperimentUnit.KEY)
    assert of_experiments(EXPERIMENT, by_key) == [
        ("exp_a", "unit", "overlap"),
        ("exp_b", "unit", "overlap"),
    ]


def test_layers_of_one_route_change_different_things() -> None:
    apart = replace(SECOND, layer="else", variants=(replace(CONTROL, share_bp=10_000),))
    assert of_experiments(EXPERIMENT, apart) == []
    same = replace(
        apart, variants=(replace(CONTROL, share_bp=10_000, parameters=OTHER.parameters),)
    )
    assert of_experiments(EXPERIMENT, same) == [
        ("exp_a", "layer", "overlap"),
        ("exp_b", "layer", "overlap"),
    ]


def test_a_route_has_so_many_experiments_that_run() -> None:
    many = [
        replace(
            EXPERIMENT,
            id=f"exp_{number}",
            name=f"{number}",
            layer=f"layer-{number}",
            variants=HOLDOUT,
        )
        for number in range(11)
    ]
    assert {row[1:] for row in of_experiments(*many)} == {("route_id", "out_of_range")}
    assert of_experiments(*many[:10]) == []


@pytest.mark.parametrize("changed", ["pools", "routes", "caches", "organisations", "experiments"])
def test_a_change_of_what_they_refer_to_has_them_checked(changed: str) -> None:
    assert "experiments" in sections_to_check([changed], ["experiments", "models"])


def test_a_target_of_the_route_is_none_of_a_variant() -> None:
    moved = replace(ROUTE, targets=(TargetRecord("tgt_b", "pool_s", 1),))
    rows = found(experiments=(EXPERIMENT,), caches=POLICIES, routes=(moved,))
    assert rows == [("experiments", "exp_a", "variants.1.targets.0.id", "duplicate")]
