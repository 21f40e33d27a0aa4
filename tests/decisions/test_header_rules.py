"""Rules that look at headers, for requests of which not all headers are known."""

from controlplane.decisions.header_rules import known_headers, unjudged_rules
from inference.contract.kinds import PriorityClass, TaskClass
from inference.contract.snapshot import MatchRecord, RouteRecord, RuleRecord
from inference.decisions.facts import RequestFacts, Standing
from inference.decisions.rules import Circumstances
from tests.decisions.fleets import KEY

NOBODY = frozenset[str]()


def rule(name: str, *, is_enabled: bool = True, **when: object) -> RuleRecord:
    return RuleRecord(name, name, MatchRecord(**when), (), is_enabled=is_enabled)  # type: ignore[arg-type]


def unjudged(
    *rules: RuleRecord,
    known: frozenset[str] = NOBODY,
    headers: tuple[tuple[str, str], ...] = (),
    tags: tuple[str, ...] = (),
    target_id: str | None = None,
) -> list[str]:
    facts = RequestFacts("m", prompt_tokens_max=9, headers=headers, target_id=target_id)
    standing = Standing(tags, PriorityClass.DEFAULT, TaskClass.DEFAULT)
    route = RouteRecord("rt", "org_a", "m", (), rules=rules)
    return [one.id for one in unjudged_rules(route, Circumstances(facts, standing, KEY, 0), known)]


TIER = (("x-tier", "gold"),)
BOTH = (*TIER, ("x-team", "search"))


def test_a_header_nobody_wrote_down_leaves_a_rule_unjudged() -> None:
    assert unjudged(rule("a", headers=TIER)) == ["a"]
    assert unjudged(rule("a", headers=TIER, tags=("blue",)), tags=("blue",)) == ["a"]


def test_what_is_known_not_to_fit_is_judged() -> None:
    assert unjudged(rule("a", headers=TIER, tags=("blue",))) == []
    assert unjudged(rule("a", headers=BOTH), known=frozenset(("x-tier",))) == []
    assert unjudged(rule("a", headers=BOTH), headers=(("x-tier", "silver"),)) == []
    assert unjudged(rule("a", is_enabled=False, headers=TIER)) == []


def test_a_header_that_was_looked_at_or_is_there_is_known() -> None:
    assert unjudged(rule("a", headers=TIER), known=frozenset(("x-tier",))) == []
    assert unjudged(rule("a", headers=TIER), headers=TIER) == []
    assert unjudged(rule("a", headers=BOTH), headers=TIER) == ["a"]


def test_a_rule_after_one_that_fits_is_never_asked_and_one_before_it_is() -> None:
    tagged, late = rule("b", tags=("blue",)), rule("c", headers=TIER)
    assert unjudged(rule("a", headers=TIER), tagged, late, tags=("blue",)) == ["a"]
    assert unjudged(rule("a", headers=TIER), tagged, late) == ["a", "c"]


def test_no_rule_is_read_for_a_target_that_was_picked() -> None:
    assert unjudged(rule("a", headers=TIER), target_id="tgt_1") == []


def test_what_was_looked_at_is_found_by_version_and_route() -> None:
    looked_at = {("01", 3): {"rt_1": frozenset(("x-tier",))}}
    found = known_headers(looked_at, lineage="01", version=3, route_id="rt_1")
    assert found == frozenset(("x-tier",))
    for lineage, version, route_id in (("01", 4, "rt_1"), ("02", 3, "rt_1"), ("01", 3, None)):
        assert not known_headers(looked_at, lineage=lineage, version=version, route_id=route_id)
