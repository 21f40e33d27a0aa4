"""Facts as data, and what a request counts as."""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass, TaskClass
from inference.contract.snapshot import KeyRecord
from inference.decisions.facts import (
    RequestFacts,
    Standing,
    facts_from_record,
    facts_record,
    standing_of,
)
from tests.inference.gateway.rig import route_record

KEY = KeyRecord("k", "org_a", "team_a", "proj_a", ())
ROUTE = route_record("a", default_task=TaskClass.EXTRACTION)
FACTS = RequestFacts("m", prompt_tokens_max=10)


@given(st.from_type(RequestFacts))
def test_facts_come_back_as_they_were_stored(facts: RequestFacts) -> None:
    assert facts_from_record(json.loads(json.dumps(facts_record(facts)))) == facts


def test_what_was_not_said_takes_no_room() -> None:
    assert facts_record(FACTS) == {"model": "m", "prompt_tokens_max": 10}


def test_what_is_no_record_of_facts_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        facts_from_record({"model": "m", "prompt_tokens_max": "many"})


@pytest.mark.parametrize(
    ("own", "asked", "becomes"),
    [
        (PriorityClass.DEFAULT, None, PriorityClass.DEFAULT),
        (PriorityClass.DEFAULT, PriorityClass.BATCH, PriorityClass.BATCH),
        (PriorityClass.DEFAULT, PriorityClass.INTERACTIVE, PriorityClass.DEFAULT),
        (PriorityClass.BATCH, PriorityClass.DEFAULT, PriorityClass.BATCH),
        (PriorityClass.INTERACTIVE, PriorityClass.INTERACTIVE, PriorityClass.INTERACTIVE),
    ],
)
def test_nobody_is_more_urgent_than_their_key(
    own: PriorityClass, asked: PriorityClass | None, becomes: PriorityClass
) -> None:
    key = replace(KEY, priority=own)
    assert standing_of(replace(FACTS, priority=asked), key, ROUTE).priority is becomes


def test_the_task_is_the_callers_else_the_keys_else_the_routes() -> None:
    key = replace(KEY, default_task=TaskClass.CODE)
    said = replace(FACTS, task=TaskClass.CREATIVE)
    found = [
        standing_of(said, key, ROUTE).task,
        standing_of(FACTS, key, ROUTE).task,
        standing_of(FACTS, KEY, ROUTE).task,
        standing_of(FACTS, KEY, None).task,
    ]
    assert found == [
        TaskClass.CREATIVE,
        TaskClass.CODE,
        TaskClass.EXTRACTION,
        TaskClass.DEFAULT,
    ]


def test_tags_are_the_keys_and_the_callers_each_once() -> None:
    key = replace(KEY, tags=("web", "beta"))
    assert standing_of(replace(FACTS, tags=("new", "web")), key, ROUTE) == Standing(
        ("web", "beta", "new"), PriorityClass.DEFAULT, TaskClass.EXTRACTION
    )
