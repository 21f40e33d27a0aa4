"""The pages Explain and Replay, and the way to them from the review of a route."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.utils import timezone

from controlplane.models import Project, Replay, Role, Route
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.tasks.replays import run_queued
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, inputs_of, words_of
from tests.controlplane.replayed import SLOTS, served, when_recorded

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def ids(operator: Reader, actor: Actor) -> Mapping[str, str]:
    home = operator.organisation
    pools = {
        name: create_pool(
            actor,
            organisation=home,
            name=name,
            model=name,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port + place}/v1" for place in range(2)],
            worker_concurrency=SLOTS,
        )
        for port, name in ((9_000, "large"), (9_100, "small"))
    }
    targets = [TargetChoice(pools["large"], 9), TargetChoice(pools["small"], 1)]
    route = create_route(
        actor, organisation=home, name="chat", targets=targets, strategy="weighted"
    )
    project = Project.objects.filter(organisation=home).first()
    key = create_key(actor, organisation=home, project=project, name="mine").key
    return {
        **{name: pool.pk for name, pool in pools.items()},
        "route": route.pk,
        "key": key.pk.removeprefix("key_"),
        "project": "" if project is None else project.pk,
    }


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
    assert "chat" in words_of(operator.page("/replay/"))


def test_a_viewer_of_another_organisation_finds_no_replay(
    operator: Reader, make_reader: Callable[..., Reader], ids: Mapping[str, str]
) -> None:
    other = make_reader("olaf", Role.ADMIN)
    replayed(operator, ids)
    assert other.get(f"/replay/{Replay.objects.get().pk}/").status_code == 404
