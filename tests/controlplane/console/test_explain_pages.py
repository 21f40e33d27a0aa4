"""The pages Explain and Replay, and the way to them from the review of a route."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import time

import pytest
from django.http import HttpResponse
from django.utils import timezone
from redis import Redis

from controlplane.models import Pool, Replay, Role, Route
from controlplane.services.actors import Actor
from controlplane.services.budgets import create_budget
from controlplane.services.limits import create_limit
from controlplane.services.routes import TargetChoice, update_route
from controlplane.tasks.replays import run_queued
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, inputs_of, words_of
from tests.controlplane.fleet import put_vitals, vitals
from tests.controlplane.replayed import make_route, served, when_recorded

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def ids(operator: Reader, actor: Actor) -> Mapping[str, str]:
    return make_route(actor, operator.organisation)


def replayed(operator: Reader, ids: Mapping[str, str]) -> HttpResponse:
    """Ask on the review of another strategy what it would have done."""
    flow = Flow(operator.client, f"/routes/{ids['route']}/edit/")
    flow.send("review", strategy="least_work")
    return flow.send("replay")


def test_a_request_is_explained_from_rules_to_workers(
    operator: Reader, ids: Mapping[str, str]
) -> None:
    form = inputs_of(operator.page("/explain/?model=chat"))
    assert form["model"] == "chat"
    asked = {**form, "caller": f"key:key_{ids['key']}", "prompt": "canary", "max_tokens": "50"}
    response = operator.client.post("/explain/", asked)
    assert response.status_code == 200
    words = words_of(response.content.decode())
    assert "it goes to large" in words
    assert "The route has no rules; its own targets serve." in words
    assert re.search(r"large 90\.\d %", words)
    assert "no price" in words
    assert "None bears on it." in words
    # the prompt stays in its field, and nowhere else
    assert response.content.decode().count("canary") == 1


def test_a_budget_that_refuses_is_named_with_what_it_reserves(
    operator: Reader, ids: Mapping[str, str], actor: Actor
) -> None:
    told = {"amount_nanousd": 1, "period": "hour", "scopes": [{"subject": "key"}]}
    create_budget(actor, organisation=operator.organisation, name="tiny", **told)
    words = explained(operator, ids)
    assert "Refused by a budget" in words
    assert "The budget tiny refuses what has no price." in words
    assert "$0.000000001 an hour" in words


def explained(operator: Reader, ids: Mapping[str, str], **asked: str) -> str:
    """The words of the answer to a question of the key."""
    form = inputs_of(operator.page("/explain/?model=chat"))
    answer = operator.client.post(
        "/explain/", {**form, "caller": f"key:key_{ids['key']}", "prompt": "x", **asked}
    )
    return words_of(answer.content.decode())


def test_what_degradation_and_limits_make_of_it_is_told(
    operator: Reader, ids: Mapping[str, str], actor: Actor, state_store: Redis
) -> None:
    targets = [
        TargetChoice(Pool.objects.get(pk=ids[name]), 1, tier=tier)
        for tier, name in enumerate(("large", "small"))
    ]
    changes = {"targets": targets, "degradation": ["smaller_model"]}
    update_route(actor, route_id=ids["route"], changes=changes)
    put_vitals(state_store, vitals("g/0", written_at=time(), degraded={ids["route"]: 1}))
    words = explained(operator, ids)
    assert "Served less well smaller model" in words
    assert "large left out: passed over by the step smaller model" in words
    assert "it goes to small" in words
    create_limit(
        actor,
        organisation=operator.organisation,
        name="nothing",
        subject="organisation",
        unit="requests",
        window="hour",
        amount=0,
    )
    words = explained(operator, ids)
    assert "Refused by a limit" in words
    assert "The limit nothing is 0 requests, and it wants 1." in words
    assert "nothing too small for it the whole organisation 0 requests an hour" in words


def test_the_review_of_a_route_leads_to_explain_with_the_draft(
    operator: Reader, ids: Mapping[str, str]
) -> None:
    flow = Flow(operator.client, f"/routes/{ids['route']}/edit/")
    flow.send("review", strategy="least_work")
    answer = flow.send("explain")
    assert answer.status_code == 302
    asked = inputs_of(operator.page(answer["Location"]))
    words = words_of(
        operator.client.post(
            "/explain/", {**asked, "caller": f"key:key_{ids['key']}"}
        ).content.decode()
    )
    assert "With a change of chat that is not saved." in words
    assert "strategy least_work" in words
    assert Route.objects.get(pk=ids["route"]).strategy == "weighted"


def test_a_replay_is_asked_for_on_a_review_and_told_on_its_page(
    operator: Reader, ids: Mapping[str, str]
) -> None:
    ends = served(ids, timezone.now() - timedelta(minutes=20), seed=1)
    operator.record(*ends, now=when_recorded(ends))
    answer = replayed(operator, ids)
    assert answer.status_code == 302
    assert 'hx-trigger="every 2s"' in operator.page(answer["Location"])
    replay = Replay.objects.get()
    assert replay.changes == {"strategy": "least_work"}
    assert run_queued() == replay.pk
    page = operator.page(f"/replay/{replay.pk}/")
    words = words_of(page)
    assert "every 2s" not in page
    assert "The draft is not published." in words
    assert re.search(r"p95 within 20\s?%", words)
    assert "no price" in words
    assert "Default speeds" not in words
    assert "chat" in words_of(operator.page("/replay/"))


def test_a_replay_of_no_traffic_says_that_it_is_worth_little(
    operator: Reader, ids: Mapping[str, str], state_store: Redis
) -> None:
    replayed(operator, ids)
    pk = Replay.objects.get().pk
    assert run_queued() == pk
    words = words_of(operator.page(f"/replay/{pk}/"))
    assert "Default speeds were used: too little traffic is recorded to learn from" in words
    assert "Drafted, replayed: none" in words


def test_a_viewer_of_another_organisation_finds_no_replay(
    operator: Reader, make_reader: Callable[..., Reader], ids: Mapping[str, str]
) -> None:
    other = make_reader("olaf", Role.ADMIN)
    replayed(operator, ids)
    assert other.get(f"/replay/{Replay.objects.get().pk}/").status_code == 404
