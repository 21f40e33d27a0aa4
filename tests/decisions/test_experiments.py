"""Who takes part in an experiment and gets which variant: evenly, for good, and independently."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from inference.contract.kinds import ExperimentUnit, TaskClass
from inference.contract.snapshot import MatchRecord
from inference.decisions.experiments import (
    Assignment,
    Unexposed,
    allocation_at,
    assign,
    draw_of,
    exposure_of,
    place_of,
    unit_digest,
    variant_at,
)
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.rules import Circumstances
from tests.decisions.tried import EXPERIMENT, NOW, arms_of, experiment, units
from tests.inference.gateway.rig import DEBUG_TOKEN, TOKEN, key_record

KEY = key_record(TOKEN)
OTHER_KEY = key_record(DEBUG_TOKEN)
MANY = 10_000
CRITICAL = {1: 10.83, 2: 13.82, 9: 27.88, 99: 148.23}
"""The chi-squared that chance exceeds once in a thousand times, by degrees of freedom."""


def chi_squared(found: Counter[object], expected: dict[object, float]) -> float:
    return sum((found[one] - most) ** 2 / most for one, most in expected.items())


def case(facts: RequestFacts | None = None, *, key: object = KEY, at: float = NOW) -> Circumstances:
    facts = facts or RequestFacts("m", 10, end_user="ann", session="s1")
    standing = standing_of(facts, KEY, None)
    return Circumstances(facts, standing, key, at)  # type: ignore[arg-type]


def one(record: object = EXPERIMENT, *, u: float = 0.5, **more: object) -> Assignment:
    return assign((record,), case(**more), u)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", [(5_000, 5_000), (9_000, 1_000), (3_334, 3_333, 3_333)])
def test_variants_get_their_shares(shares: tuple[int, ...]) -> None:
    arms = arms_of(experiment(*shares), units(MANY))
    assert len(arms) == MANY
    expected: dict[object, float] = {f"var_{n}": MANY * s / 10_000 for n, s in enumerate(shares)}
    assert chi_squared(Counter(arms.values()), expected) < CRITICAL[len(shares) - 1]


def tenth(draws: Iterable[float]) -> Counter[object]:
    return Counter(int(draw * 10) for draw in draws)


def test_places_and_draws_are_even_everywhere() -> None:
    even: dict[object, float] = dict.fromkeys(range(10), MANY / 10)
    assert chi_squared(tenth(place_of("answers", one) for one in units(MANY)), even) < CRITICAL[9]
    assert chi_squared(tenth(draw_of("salt", one) for one in units(MANY)), even) < CRITICAL[9]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda unit: draw_of("salt-1", unit), lambda unit: draw_of("salt-2", unit)),
        (lambda unit: place_of("answers", unit), lambda unit: place_of("prompts", unit)),
        (lambda unit: place_of("same", unit), lambda unit: draw_of("same", unit)),
    ],
    ids=["experiments", "layers", "a layer and an experiment called the same"],
)
def test_they_know_nothing_of_each_other(first: object, second: object) -> None:
    pairs: Counter[object] = Counter(
        (int(first(unit) * 10), int(second(unit) * 10))  # type: ignore[operator]
        for unit in units(MANY)
    )
    even: dict[object, float] = {(a, b): MANY / 100 for a in range(10) for b in range(10)}
    assert chi_squared(pairs, even) < CRITICAL[99]


def test_what_a_unit_gets_is_the_same_in_all_releases() -> None:
    """A change of these moves everybody who takes part in anything."""
    assert unit_digest("org_a", ExperimentUnit.USER, "ann") == "158e4c9592a97ba5"
    assert place_of("answers", "0123456789abcdef") == 0.5377210608424884
    assert draw_of("salt-1", "0123456789abcdef") == 0.35403156812921677


def test_a_draw_at_the_end_of_a_share_is_the_next_ones() -> None:
    record = experiment(2_500, 0, 7_500)
    draws = (0.0, 0.2499999, 0.25, 0.9999999999999999)
    assert [variant_at(record, draw).id for draw in draws] == ["var_0", "var_0", "var_2", "var_2"]


def test_growing_the_allocation_moves_nobody() -> None:
    those = units(2_000)
    few = arms_of(experiment(allocation_bp=2_000), those)
    more = arms_of(experiment(allocation_bp=6_000), those)
    everybody = arms_of(experiment(), those)
    assert 300 < len(few) < 500
    assert few.items() < more.items() < everybody.items()
    assert len(everybody) == len(those)


def test_parts_of_a_layer_have_nobody_in_common_and_leave_a_holdout() -> None:
    those = units(4_000)
    first = arms_of(experiment(layer_to_bp=4_500), those)
    second = arms_of(experiment(layer_from_bp=4_500, layer_to_bp=9_000, salt="s2"), those)
    assert not first.keys() & second.keys()
    held_out = len(those) - len(first) - len(second)
    assert abs(held_out - 400) < 4 * 19  # four standard deviations


def test_an_allocation_is_of_the_experiments_own_part() -> None:
    those = units(4_000)
    half = arms_of(experiment(layer_from_bp=5_000, allocation_bp=5_000), those)
    assert set(half) == {one for one in those if 0.5 <= place_of("answers", one) < 0.75}


def test_a_ramp_grows_by_its_steps_and_moves_nobody() -> None:
    record = experiment(allocation_bp=0, ramp=((NOW, 1_000), (NOW + 60, 10_000)))
    assert [allocation_at(record, NOW + after) for after in (-1, 0, 59, 60, 1e9)] == [
        *(0, 1_000, 1_000, 10_000, 10_000)
    ]
    those = units(1_000)
    steps = [arms_of(record, those, NOW + after) for after in (-1, 0, 60)]
    assert steps[0] == {}
    assert steps[1].items() < steps[2].items()
    assert len(steps[2]) == len(those)


def test_another_phase_or_name_moves_nobody_and_another_salt_half() -> None:
    those = units(1_000)
    arms = arms_of(EXPERIMENT, those)
    assert arms_of(replace(EXPERIMENT, phase=2, name="new", id="exp_b"), those) == arms
    moved = arms_of(replace(EXPERIMENT, salt="salt-2"), those)
    assert 400 < sum(moved[unit] != arm for unit, arm in arms.items()) < 600


def test_units_are_what_the_experiment_says() -> None:
    ids = {unit: one(replace(EXPERIMENT, unit=unit)).unit_id for unit in ExperimentUnit}
    assert ids[ExperimentUnit.USER] == unit_digest("org_a", ExperimentUnit.USER, "ann")
    assert ids[ExperimentUnit.SESSION] == unit_digest("org_a", ExperimentUnit.SESSION, "s1")
    assert ids[ExperimentUnit.KEY] == unit_digest("org_a", ExperimentUnit.KEY, KEY.id)
    assert len(set(ids.values())) == 4


def test_a_user_has_one_arm_by_any_key_and_a_key_one_by_any_user() -> None:
    """C143"""
    by_key = replace(EXPERIMENT, unit=ExperimentUnit.KEY)
    for name in ("ann", "bob", "cid"):
        facts = RequestFacts("m", 10, end_user=name)
        assert one(facts=facts) == one(facts=facts, key=OTHER_KEY)
        assert one(by_key, facts=facts) == one(by_key, facts=RequestFacts("m", 10))
    assert one(by_key).unit_id != one(by_key, key=OTHER_KEY).unit_id


def test_requests_are_told_apart_by_their_chance_which_says_nothing_of_the_arm() -> None:
    record = replace(EXPERIMENT, unit=ExperimentUnit.REQUEST)
    assert one(record, u=0.25) == one(record, u=0.25)
    pairs: Counter[object] = Counter()
    for number in range(4_000):
        u = number / 4_000
        found = one(record, u=u).variant
        assert found is not None
        pairs[int(u * 10), found.id] += 1
    even: dict[object, float] = {(n, arm): 200.0 for n in range(10) for arm in ("var_a", "var_b")}
    assert chi_squared(pairs, even) < 43.82  # of 19 degrees of freedom


@pytest.mark.parametrize(
    ("changes", "facts", "why"),
    [
        ({}, RequestFacts("m", 10), Unexposed.NO_UNIT),
        ({"unit": ExperimentUnit.SESSION}, RequestFacts("m", 10), Unexposed.NO_UNIT),
        ({}, RequestFacts("m", 10, end_user="ann", target_id="t"), Unexposed.TARGET_ASKED_FOR),
        ({"ends_at": NOW}, None, Unexposed.OVER),
        ({"when": MatchRecord(tags=("eu",))}, None, Unexposed.OTHER_REQUESTS),
        ({"allocation_bp": 0}, None, Unexposed.NOT_ALLOCATED),
    ],
)
def test_who_takes_no_part_is_told_why(
    changes: dict[str, object], facts: RequestFacts | None, why: Unexposed
) -> None:
    found = one(replace(EXPERIMENT, **changes), facts=facts)  # type: ignore[arg-type]
    assert (found.variant, found.why_not, found.draw) == (None, why, None)
    assert exposure_of(found, None) is None


def test_a_unit_of_another_part_is_told_where_it_stands() -> None:
    place = one().place
    assert place is not None
    edge = int(place * 10_000)
    for first, end in ((edge + 1, 10_000), (0, edge)):
        found = one(replace(EXPERIMENT, layer_from_bp=first, layer_to_bp=end))
        assert (found.why_not, found.place) == (Unexposed.OTHER_PART, place)
    assert one(replace(EXPERIMENT, layer_from_bp=edge, layer_to_bp=edge + 1)).variant is not None


def test_targeting_is_by_the_conditions_that_rules_have() -> None:
    record = replace(EXPERIMENT, when=MatchRecord(tags=("eu",), tasks=(TaskClass.CODE,)))
    facts = RequestFacts("m", 10, end_user="ann", tags=("eu",), task=TaskClass.CODE)
    assert one(record, facts=facts).variant is not None
    assert one(record, facts=replace(facts, tags=())).why_not is Unexposed.OTHER_REQUESTS


def test_an_exposure_says_what_was_assigned_and_how_likely_that_was() -> None:
    found = one(experiment(9_000, 1_000, phase=3))
    assert found.variant is not None
    exposure = exposure_of(found, "var_0")
    assert exposure is not None
    assert (exposure.experiment_id, exposure.phase, exposure.unit_id) == (
        *("exp_a", 3),
        found.unit_id,
    )
    assert exposure.probability == {"var_0": 0.9, "var_1": 0.1}[found.variant.id]
    assert exposure.served_variant_id == "var_0"
