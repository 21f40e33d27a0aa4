"""Replays and reviews of rules that look at headers: what can't be told is counted, not guessed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.bridge.configurations import newest_revision
from controlplane.models import Role, Route
from controlplane.services.actors import Actor
from controlplane.services.users import create_service_account, grant_role, issue_token
from controlplane.tasks.replays import run_queued
from inference.contract.events import End
from tests.controlplane.conftest import Caller
from tests.controlplane.console.conftest import Reader, make_reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.replayed import REQUESTS, make_route, served, when_recorded

__all__ = ["make_reader"]

pytestmark = pytest.mark.slow

GOLD = {"name": "x-tier", "value": "gold"}


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def ids(operator: Reader, actor: Actor) -> Mapping[str, str]:
    return make_route(actor, operator.organisation)


@pytest.fixture
def caller(operator: Reader, actor: Actor) -> Caller:
    """A program of the same organisation."""
    home = operator.organisation
    account = create_service_account(actor, organisation=home, name="program")
    grant_role(actor, subject=account, organisation=home, role=Role.OPERATOR)
    return Caller(issue_token(actor, service_account=account).text, home, "operator")


def rules(name: str, *headers: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """One rule that sends those with these headers to the small pool."""
    targets = [{"pool": "small", "weight": 1}]
    return [{"name": name, "when": {"headers": [*headers]}, "targets": targets}]


def with_headers(ends: Sequence[End], *, every: int) -> list[End]:
    """As gateways of the present version write them down: each of so many with the header."""
    revision = newest_revision()
    found = []
    for place, end in enumerate(ends):
        decision: Any = end.decision
        headers = {"headers": [["x-tier", "gold"]]} if place % every == 0 else {}
        found.append(
            replace(
                end,
                decision={**decision, "facts": {**decision["facts"], **headers}},
                origin=replace(end.origin, lineage=revision.lineage, version=revision.version),
            )
        )
    return found


def to_pool(side: Any, pool_id: str) -> int:
    return sum(one["requests"] for one in side["split"] if one["pool"] == pool_id)


def replayed(caller: Caller, changes: Mapping[str, Any]) -> Any:
    made = caller.made("/replays/", {"route": "chat", "changes": changes})
    assert run_queued() == made["id"]
    return caller.get(f"/replays/{made['id']}/").json()


def test_requests_that_cannot_be_judged_are_counted_and_told(
    operator: Reader, caller: Caller, ids: Mapping[str, str]
) -> None:
    ends = served(ids, timezone.now() - timedelta(minutes=20), seed=1)
    operator.record(*ends, now=when_recorded(ends))
    found = replayed(caller, {"rules": rules("gold", GOLD)})
    (one,) = found["report"]["unjudged"]
    assert (one["side"], one["rule"], one["headers"], one["requests"]) == (
        "draft",
        "gold",
        ["x-tier"],
        REQUESTS,
    )
    words = words_of(operator.page(f"/replay/{found['id']}/"))
    assert "600 requests couldn't be judged for rule gold of the draft" in words
    assert "it looks at the header x-tier" in words
    flow = Flow(operator.client, f"/routes/{ids['route']}/edit/")
    flow.send("rule-add")
    targets = {"rules__0__targets__0__pool": ids["small"], "rules__0__is_enabled": "on"}
    flow.send("review", rules__0__name="gold", rules__0__headers="x-tier: gold", **targets)
    assert "nothing tells what it would have taken: it looks at x-tier, which was not" in flow.words


def test_what_a_rule_of_that_time_looked_at_is_known(
    operator: Reader, caller: Caller, ids: Mapping[str, str]
) -> None:
    looking = rules("silver", {"name": "x-tier", "value": "silver"})
    assert caller.patch(f"/routes/{ids['route']}/", {"rules": looking}).status_code == 200
    drawn = served(ids, timezone.now() - timedelta(minutes=20), seed=1)
    ends = with_headers(drawn, every=4)
    operator.record(*ends, now=when_recorded(ends))
    found = replayed(caller, {"rules": [*looking, *rules("gold", GOLD)]})
    assert found["report"]["unjudged"] == []
    sides = found["report"]["route"]
    before, after = (to_pool(sides[side], ids["small"]) for side in ("current", "draft"))
    # a quarter goes to the small pool by the rule, of the rest as much as before
    assert after > before + REQUESTS // 5
    assert "couldn't be judged" not in words_of(operator.page(f"/replay/{found['id']}/"))
    flow = Flow(operator.client, f"/routes/{ids['route']}/edit/")
    flow.send("review", rules__0__headers="x-tier: gold")
    assert "would have taken 25.0 % of 600 requests of the last hour" in flow.words
    assert "couldn't be judged" not in flow.words
    assert Route.objects.get(pk=ids["route"]).rules[0]["name"] == "silver"
