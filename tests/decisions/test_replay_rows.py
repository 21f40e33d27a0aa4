"""Which rows of the ledger a replay takes, and what it makes of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from controlplane.decisions.replays import (
    LEAST_SLICE,
    Slice,
    Unreplayable,
    caution_about,
    is_counted,
    is_same_route,
    pools_serving,
    recorded_of,
    slices_of,
)
from inference.contract.kinds import TaskClass
from inference.contract.snapshot import MatchRecord, RouteRecord, RuleRecord, TargetRecord
from inference.decisions.facts import RequestFacts, facts_record

BEGIN = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)
FACTS = RequestFacts("m", prompt_tokens_max=80, prompt_tokens=20, session="s")


def by_minute(counts: list[int]) -> dict[datetime, int]:
    return {BEGIN + timedelta(minutes=place): count for place, count in enumerate(counts)}


def row(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "event_id": "ev_1",
        "received_at": BEGIN,
        "key_id": "k1",
        "endpoint": "chat",
        "requested_model": "m",
        "outcome": "ok",
        "first_token_ms": 9.0,
        "output_tokens_max": 100,
        "pool_id": "pool_a",
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "cached_tokens": None,
        "end_user": None,
        "tags": ["blue"],
        "priority": "batch",
        "task": "code",
        "facts": facts_record(FACTS),
        "plan_u": 0.25,
    }
    return values | changes


def test_all_requests_are_taken_if_they_are_not_too_many() -> None:
    counts = by_minute([10] * 1_440)
    assert slices_of(BEGIN, BEGIN + DAY, counts, most=14_400) == (Slice(BEGIN, BEGIN + DAY),)


@pytest.mark.parametrize("most", [1_000, 5_000, 14_399])
def test_a_sample_is_of_whole_stretches_and_never_too_large(most: int) -> None:
    counts = by_minute([10] * 720 + [2] * 360 + [30] * 360)
    found = slices_of(BEGIN, BEGIN + DAY, counts, most=most)
    held = sum(
        count
        for minute, count in counts.items()
        if any(one.since < minute + timedelta(minutes=1) and minute < one.until for one in found)
    )
    assert most / 2 < held <= most
    assert all(one.until - one.since >= LEAST_SLICE for one in found)
    assert all(one.until <= other.since for one, other in pairwise(found))


def test_what_comes_while_a_stretch_warms_up_is_not_counted() -> None:
    slices = (Slice(BEGIN, BEGIN + timedelta(minutes=5)),)
    at = BEGIN.timestamp()
    assert [is_counted(at + s, slices, is_sample=True) for s in (0, 19, 20, 299)] == [
        False,
        False,
        True,
        True,
    ]
    assert is_counted(at, slices, is_sample=False)


def test_a_row_is_replayed_by_what_the_gateway_knew_of_it() -> None:
    found = recorded_of(row())
    assert not isinstance(found, Unreplayable)
    assert (found.facts, found.plan_u, found.cached_tokens) == (FACTS, 0.25, 0)


def test_a_row_of_an_earlier_release_is_replayed_by_its_columns() -> None:
    found = recorded_of(row(facts=None, plan_u=None, first_token_ms=None))
    assert not isinstance(found, Unreplayable)
    assert (found.facts.tags, found.facts.task) == (("blue",), TaskClass.CODE)
    assert (found.facts.prompt_tokens, found.plan_u, found.is_timed) == (20, None, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outcome": "refused"}, "refused: its answer is not known"),
        ({"completion_tokens": None}, "no count of tokens"),
        ({"facts": {"model": 7}}, "facts of a later release"),
    ],
)
def test_a_row_that_lacks_what_it_takes_says_what(changes: dict[str, Any], reason: str) -> None:
    assert recorded_of(row(**changes)) == Unreplayable(reason)


def test_a_route_is_the_same_whatever_its_parts_were_numbered() -> None:
    targets = (TargetRecord("tgt_1", "pool_a", 1),)
    rule = RuleRecord("rule_1", "mine", MatchRecord(tags=("blue",)), targets)
    one = RouteRecord("rt_m", "org_a", "m", targets, rules=(rule,))
    renamed = tuple(replace(target, id="tgt_2") for target in targets)
    other = replace(one, targets=renamed, rules=(replace(rule, id="rule_2", targets=renamed),))
    assert is_same_route(one, other)
    assert not is_same_route(one, replace(other, max_attempts=1))


def test_times_foretold_by_default_speeds_are_said_to_be_worth_little() -> None:
    def caution(*samples: int, serving: tuple[str, ...] = ()) -> str:
        workers = [{"pool": f"p{place}", "samples": one} for place, one in enumerate(samples)]
        return caution_about(workers, serving)

    assert caution(0, 0).startswith("Default speeds were used: too little traffic is recorded")
    assert "worth little" in caution(0, 0)
    assert caution(5, 0).startswith("Default speeds were used for 1 of the 2 workers")
    # a pool that nothing goes to is nobody's trouble
    assert caution(5, 0, serving=("p0",)) == caution(5, 5) == caution() == ""
    sides = {"current": {"split": [{"pool": "p0"}]}, "draft": {"split": [{"pool": None}]}}
    assert pools_serving(sides) == {"p0"}
