"""Why a rule does not apply: as many reasons as there are, and none exactly if it does."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass, TaskClass, Weekday
from inference.contract.snapshot import MatchRecord, RouteRecord, RuleRecord, ScheduleRecord
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.mismatches import Mismatch, RuleState, mismatches, rule_verdicts
from inference.decisions.rules import Circumstances, fits
from tests.decisions.fleets import KEY

NOON = 1_764_590_400.0  # of a Monday, in UTC
FACTS = RequestFacts("m", prompt_tokens_max=400, prompt_tokens=100)
SOME = st.sampled_from
MATCHES = st.builds(
    MatchRecord,
    key_ids=SOME(((), ("k1",), ("k2",))),
    team_ids=SOME(((), ("team_a",), ("team_b", "team_a"))),
    project_ids=SOME(((), ("proj_b",))),
    tags=SOME(((), ("blue",), ("blue", "red"))),
    headers=SOME(((), (("x-a", "1"),), (("x-a", "1"), ("x-b", "2")))),
    aliases=SOME(((), ("m",), ("n",))),
    tasks=SOME(((), (TaskClass.CODE,))),
    priorities=SOME(((), (PriorityClass.DEFAULT,))),
    prompt_tokens_min=SOME((None, 100, 101)),
    prompt_tokens_max=SOME((None, 100, 99)),
    schedule=SOME((None, ScheduleRecord((Weekday.MONDAY,)), ScheduleRecord((), 0, 60))),
)


def case_of(facts: RequestFacts) -> Circumstances:
    return Circumstances(facts, standing_of(facts, KEY, None), KEY, NOON)


@given(
    MATCHES,
    SOME(((), ("red",), ("green", "blue"))),
    SOME(((), (("x-a", "1"),), (("x-a", "2"), ("x-b", "2")))),
)
def test_a_rule_applies_exactly_if_nothing_speaks_against_it(
    when: MatchRecord, tags: tuple[str, ...], headers: tuple[tuple[str, str], ...]
) -> None:
    case = case_of(replace(FACTS, tags=tags, headers=headers))
    assert fits(when, case) is (not list(mismatches(when, case)))


def test_every_condition_that_is_not_met_is_told_with_what_there_was() -> None:
    when = MatchRecord(
        tags=("blue",),
        headers=(("x-a", "1"),),
        prompt_tokens_min=200,
        schedule=ScheduleRecord((Weekday.SUNDAY,), 60, 90),
    )
    case = case_of(replace(FACTS, tags=("red",), headers=(("x-a", "2"),)))
    assert list(mismatches(when, case)) == [
        Mismatch("tags", ("blue",), ("red",)),
        Mismatch("header x-a", ("1",), ("2",)),
        Mismatch("prompt_tokens", ("at least 200",), ("100",)),
        Mismatch("schedule", ("sunday, 01:00 to 01:30 UTC",), ()),
    ]


def test_rules_after_the_one_that_matched_are_not_read() -> None:
    never, always = MatchRecord(key_ids=("k2",)), MatchRecord()
    rules = (
        RuleRecord("r0", "zero", always, (), is_enabled=False),
        RuleRecord("r1", "one", never, ()),
        RuleRecord("r2", "two", always, ()),
        RuleRecord("r3", "three", always, ()),
    )
    route = RouteRecord("rt_m", "org_a", "m", (), rules=rules)
    states = [one.state for one in rule_verdicts(route, case_of(FACTS))]
    assert states == [
        RuleState.DISABLED,
        RuleState.MISMATCHED,
        RuleState.MATCHED,
        RuleState.UNREAD,
    ]
    asked = case_of(replace(FACTS, target_id="tgt_a"))
    assert {one.state for one in rule_verdicts(route, asked)} == {RuleState.UNREAD}
