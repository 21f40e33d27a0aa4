"""The pages of routes: shares configured and measured, and what a change of weights moves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.decisions.live import FINE_S, bucket_of_time
from controlplane.models import AuditEntry, LivePeak, Pool, Role, Route, UsageMinute
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from controlplane.services.projects import create_project
from controlplane.services.routes import TargetChoice, create_route, update_route
from controlplane.services.users import create_user, grant_role
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.flows import Flow, words_of

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def pools(operator: Reader, actor: Actor) -> list[Pool]:
    return [
        create_pool(
            actor,
            organisation=operator.organisation,
            name=name,
            model=model,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port}/v1"],
        )
        for name, model, port in (("llama", "llama-70b", 9101), ("qwen", "qwen3-32b", 9102))
    ]


@pytest.fixture
def route(operator: Reader, pools: list[Pool], actor: Actor) -> Route:
    targets = [TargetChoice(pools[0], 80), TargetChoice(pools[1], 20)]
    return create_route(
        actor,
        organisation=operator.organisation,
        name="chat-default",
        targets=targets,
        strategy="weighted",
    )


def book(reader: Reader, route: Route, pool: Pool, project_id: str, requests: int) -> None:
    """Roll-ups of the last quarter of an hour, as the recorder writes them."""
    UsageMinute(
        organisation_id=reader.organisation.pk,
        minute=timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=15),
        route_id=route.pk,
        pool_id=pool.pk,
        model_id=pool.model_id,
        project_id=project_id,
        requests=requests,
        attempts=requests,
    ).save(force_insert=True)


def test_the_list_tells_shares_by_weight_and_as_measured(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    assert "no requests" in words_of(operator.page("/routes/"))
    book(operator, route, pools[0], "proj_1", 3)
    book(operator, route, pools[1], "proj_1", 1)
    words = words_of(operator.page("/routes/"))
    assert "llama 80.0 %, qwen 20.0 %" in words
    assert "75.0 / 25.0 %" in words


def test_more_routes_take_no_more_queries(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    with CaptureQueriesContext(connection) as few:
        operator.page("/routes/")
    for number in range(10):
        targets = [TargetChoice(pools[0], 1)]
        create_route(actor, organisation=operator.organisation, name=f"r-{number}", targets=targets)
    with CaptureQueriesContext(connection) as many:
        operator.page("/routes/")
    assert len(many) == len(few)


def test_the_page_of_one_draws_its_flow_and_compares_shares(
    operator: Reader, route: Route, pools: list[Pool]
) -> None:
    book(operator, route, pools[0], "proj_1", 3)
    page = operator.page(f"/routes/{route.pk}/")
    assert page.count("<path class=") == 2
    words = words_of(page)
    assert "llama llama-70b 80 80.0 % no data 100.0 %" in words
    assert "qwen qwen3-32b 20 20.0 % no data 0.0 %" in words
    assert "3 attempts of the last 24 h" in words


def test_the_page_says_that_a_route_serves_less_well_and_since_when(
    operator: Reader, route: Route, actor: Actor
) -> None:
    steps = {"degradation": ["trim_batch", "shed_batch"]}
    update_route(actor, route_id=route.pk, changes=steps)
    assert "serves less well" not in operator.page(f"/routes/{route.pk}/")
    now = timezone.now()
    at = bucket_of_time(now.timestamp(), FINE_S)
    shared = {"resolution_s": FINE_S, "kind": "steps", "subject_id": route.pk, "value": 1}
    LivePeak(**shared, at=at, since=now - timedelta(minutes=3)).save(force_insert=True)
    words = words_of(operator.page(f"/routes/{route.pk}/"))
    assert "it serves less well since" in words
    assert "by trim batch. Steps are given back" in words


def test_a_change_of_weights_is_reviewed_with_what_it_moves(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    team = operator.organisation.teams.get()
    project = create_project(
        actor, organisation=operator.organisation, team=team, name="support-chat"
    )
    book(operator, route, pools[0], project.pk, 1_200)
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("review", **{"targets__0__weight": "60", "targets__1__weight": "40"})
    words = flow.words
    assert "Weight, llama 80 (80.0 %) 60 (60.0 %)" in words
    assert "Weight, qwen 20 (20.0 %) 40 (40.0 %)" in words
    assert "~20.0 % of this route's traffic" in words
    assert "1,200 in the last 24 h" in words
    assert "support-chat" in words
    assert "llama 80.0 % to 60.0 %" in words
    assert "Now, measured over 1,200 attempts of the last hour" in words
    assert "serve different models: llama-70b, qwen3-32b" in words
    assert '{"targets": [{"pool": "llama", "weight": 60}, {"pool": "qwen", "weight": 40}]}' in words
    flow.send("save")
    assert "Give a reason. It is kept in the audit log." in flow.words
    flow.send("save", reason="qwen has room")
    assert flow.response.status_code == 302
    assert [one.weight for one in Route.objects.get().targets.all()] == [60, 40]
    entry = AuditEntry.objects.filter(noun="routes").order_by("-id")[0]
    assert (entry.reason, entry.via) == ("qwen has room", "console")
    page = words_of(operator.page(f"/audit/{entry.pk}/"))
    assert "Target llama weight 80 weight 60" in page
    again = Flow(operator.client, f"/routes/{route.pk}/edit/?restore={entry.pk}")
    again.send("review")
    assert "Weight, llama 60 (60.0 %) 80 (80.0 %)" in again.words


def test_targets_are_added_and_refused_at_their_row(
    operator: Reader, route: Route, pools: list[Pool]
) -> None:
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("add")
    assert 'name="targets-2-pool"' in flow.page
    flow.send("review", **{"targets__2__pool": pools[0].pk, "targets__2__weight": "1"})
    assert "The route has a pool twice." in flow.words
    flow.send("review", **{"targets__2__pool": pools[0].pk, "targets__2__weight": "many"})
    assert "Target 3: give a whole weight from 0 to 1,000,000." in flow.words
    emptied = {"targets__2__pool": "", "targets__2__weight": "", "targets__1__pool": ""}
    flow.send("review", **emptied, targets__1__weight="")
    assert "Weight, qwen 20 (20.0 %) 1" not in flow.words
    assert "Weight, llama 80 (80.0 %) 80 (100.0 %)" in flow.words
    flow.send("edit")
    flow.send("review", **{"targets__0__weight": "0"})
    assert "An enabled route needs a target with a weight above 0." in flow.words


def test_a_route_is_made_from_its_form(operator: Reader, pools: list[Pool]) -> None:
    flow = Flow(operator.client, "/routes/new/")
    flow.send("save", name="chat", **{"targets__0__pool": pools[1].pk})
    made = Route.objects.get()
    assert flow.response.headers["Location"].startswith(f"/routes/{made.pk}/?applied=")
    assert (made.first_byte_timeout_ms, made.is_enabled) == (120_000, True)


def test_weights_changed_by_two_people_are_shown_three_ways(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    theirs = [TargetChoice(pools[0], 50), TargetChoice(pools[1], 50)]
    update_route(actor, route_id=route.pk, changes={"targets": theirs})
    flow.send("review", **{"targets__0__weight": "90"})
    assert flow.response.status_code == 412
    assert "both changed it" in flow.words
    flow.send("review")
    assert "Weight, llama 50 (50.0 %) 90 (81.8 %)" in flow.words


def test_another_organisations_pool_is_no_target(
    operator: Reader, route: Route, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    other = make_reader("otto", Role.ADMIN)
    foreign: Any = create_pool(
        actor,
        organisation=other.organisation,
        name="theirs",
        model="m",
        provisioner="static",
        addresses=["http://127.0.0.1:9103/v1"],
    )
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    assert foreign.pk not in flow.page
    flow.send("review", **{"targets__0__pool": foreign.pk})
    assert "There is no pool of this name or id." in flow.words
    assert "theirs" not in flow.words


def test_a_role_in_a_project_is_told_no_attempts_for_they_are_everybodys(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    organisation = operator.organisation
    project = organisation.projects.get(is_default=True)
    book(operator, route, pools[0], project.pk, 4_321)
    assert "4,321" in operator.page(f"/routes/{route.pk}/")
    assert "100.0 / 0.0 %" in operator.page("/routes/")
    user = create_user(actor, username="paul", password=PASSWORD)
    grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER, project=project)
    client = Client()
    client.force_login(user)
    narrow = Reader(client, organisation)
    page = narrow.page(f"/routes/{route.pk}/")
    assert "4,321" not in page
    assert "attempts are shown to roles of the whole organisation" in page
    assert "attempts are shown" not in operator.page(f"/routes/{route.pk}/")
    listed = narrow.page("/routes/")
    assert "100.0 / 0.0 %" not in listed
    assert "no requests" not in listed


def test_another_strategy_is_reviewed_with_what_it_means_and_needs_a_reason(
    operator: Reader, route: Route
) -> None:
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("review", strategy="least_work")
    assert "Strategy weighted least work" in flow.words
    assert "goes to the worker with the shortest wait, whichever target it is of" in flow.words
    flow.send("save")
    assert "Give a reason." in flow.words
    flow.send("save", reason="even load")
    assert flow.response.status_code == 302
    assert Route.objects.get().strategy == "least_work"
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("review", targets__0__weight="60", targets__1__weight="40")
    assert "~20.0 % of what comes while workers are equally free" in flow.words
    assert "weights decide among equally free workers" in words_of(
        operator.page(f"/routes/{route.pk}/")
    )


def test_a_new_route_begins_with_least_work(operator: Reader, pools: list[Pool]) -> None:
    flow = Flow(operator.client, "/routes/new/")
    new = {"targets__0__pool": pools[0].pk, "targets__0__weight": "1"}
    flow.send("save", name="new", **new)
    assert flow.response.status_code == 302
    assert Route.objects.get(name="new").strategy == "least_work"


def test_a_target_has_time_outs_of_its_own_until_they_are_emptied(
    operator: Reader, route: Route, pools: list[Pool]
) -> None:
    path = f"/routes/{route.pk}/edit/"
    flow = Flow(operator.client, path)
    flow.send("review", targets__1__connect_timeout_ms="0")
    assert "Target 2: connecting takes whole ms from 1 to 86,400,000, or nothing." in flow.words
    flow.send("review", targets__1__connect_timeout_ms="500")
    assert "Connecting, qwen the route's 500 ms" in flow.words
    sent = '{"pool": "llama", "weight": 80}, {"pool": "qwen", "weight": 20, "connect_timeout_ms": 5'
    assert sent in flow.words
    flow.send("save", reason="near")
    assert flow.response.status_code == 302
    own = route.targets.get(pool=pools[1])
    assert (own.connect_timeout_ms, own.total_timeout_ms) == (500, None)
    assert "qwen Connecting 500 ms qwen3-32b" in words_of(operator.page(f"/routes/{route.pk}/"))
    told = AuditEntry.objects.order_by("-id")[0].after["targets"]
    assert [one.get("connect_timeout_ms") for one in told] == [None, 500]
    flow = Flow(operator.client, path)
    flow.send("review", targets__1__connect_timeout_ms="")
    assert "Connecting, qwen 500 ms the route's" in flow.words
    assert '"connect_timeout_ms": null' in flow.words
    flow.send("save", reason="as before")
    assert route.targets.get(pool=pools[1]).connect_timeout_ms is None


def test_comments_in_silent_streams_are_reviewed_with_what_they_cost(
    operator: Reader, route: Route
) -> None:
    path = f"/routes/{route.pk}/edit/"
    page = words_of(operator.page(f"/routes/{route.pk}/"))
    assert "Silence before a comment 15 s, once the answer has begun" in page
    flow = Flow(operator.client, path)
    flow.send("review", keep_alive_ms="999")
    assert "greater than or equal to 1000" in flow.words
    flow.send("review", keep_alive_ms="20000")
    assert "Silence before a comment not set 20,000 ms" in flow.words
    assert "After 20,000 ms without a word from the worker the answer begins" in flow.words
    flow.send("save")
    assert Route.objects.get().keep_alive_ms == 20_000
    assert "Silence before a comment 20,000 ms" in words_of(operator.page(f"/routes/{route.pk}/"))
    flow = Flow(operator.client, path)
    flow.send("review", keep_alive_ms="")
    assert "nothing is sent, so that another target can be tried" in flow.words
    flow.send("save")
    assert Route.objects.get().keep_alive_ms is None
