"""The overview and the live document over HTTP: who gets what, and what a first run shows."""

import html
import re
from datetime import UTC
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from redis import Redis

from controlplane.models import Organisation, Role, User
from controlplane.selectors.access import get_access_of_user
from controlplane.services.actors import Actor
from controlplane.services.bindings import revoke_role
from controlplane.services.models import create_model
from controlplane.services.organisations import create_organisation
from controlplane.services.pools import create_pool
from controlplane.services.prices import create_price
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.teams import create_team
from controlplane.services.users import (
    create_service_account,
    create_user,
    grant_role,
    issue_token,
    set_password,
)
from dashboards.changes import changes_of
from dashboards.kinds import Page
from dashboards.registry import panels_of
from tests.dashboards.living import LivingFleet

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

QUERIES = 16
PASSWORD = "a-long-enough-passphrase-4"


@pytest.fixture
def organisation(actor: Actor, state_store: Redis) -> Organisation:
    return create_organisation(actor, name="Nordhavn", time_zone="Europe/Copenhagen")


@pytest.fixture
def user(actor: Actor, organisation: Organisation) -> User:
    made = create_user(actor, username="mira", password=PASSWORD)
    grant_role(actor, subject=made, organisation=organisation, role=Role.VIEWER)
    return made


@pytest.fixture
def reader(client: Client, user: User, collected_files: None) -> Client:
    client.force_login(user)
    return client


def pool_of(actor: Actor, organisation: Organisation, name: str) -> Any:
    return create_pool(
        actor,
        organisation=organisation,
        name=name,
        model="gpt-x",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )


def test_signing_in_leads_to_the_overview() -> None:
    assert (reverse("home"), reverse("overview")) == ("/", "/")


def test_a_stranger_is_sent_to_the_sign_in_and_a_script_is_told(
    client: Client, collected_files: None
) -> None:
    assert client.get("/")["Location"] == "/accounts/login/?next=/"
    answer = client.get("/live/overview/")
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")


def test_a_first_run_shows_what_to_do_next(
    reader: Client, actor: Actor, organisation: Organisation
) -> None:
    page = reader.get("/").content.decode()
    assert "no request has come through a gateway yet" in page
    assert page.count(">To do<") == 5
    pool_of(actor, organisation, "mine")
    page = reader.get("/").content.decode()
    assert (page.count(">Done<"), page.count(">To do<")) == (2, 3)


def test_charts_load_their_library_and_no_other_page_does(reader: Client) -> None:
    assert "vendor/plotly" in reader.get("/").content.decode()
    assert "vendor/plotly" not in reader.get("/requests/").content.decode()


def test_the_document_has_every_panel_and_tells_no_data_from_zero(
    reader: Client, actor: Actor, organisation: Organisation
) -> None:
    pool = pool_of(actor, organisation, "mine")
    LivingFleet(None, organisation.pk, [pool.pk]).remember(60)
    query = {"organisation": organisation.pk, "window": "5m"}
    answer = reader.get("/live/overview/", query)
    assert answer["Cache-Control"] == "private, no-store"
    document = answer.json()
    assert set(document["panels"]) == {panel.kind for panel in panels_of(Page.OVERVIEW)}
    assert (document["bucket_s"], document["zone"]) == (5, "Europe/Copenhagen")
    assert len(document["at"]) == len(document["covered"]) == 60
    first = document["panels"]["tokens"]["figure"]["data"][0]["y"]
    assert first[0] is None
    assert any(value for value in first)
    assert [one["name"] for one in document["pools"]] == ["mine"]
    one = reader.get("/live/pool/", query | {"pool": pool.pk}).json()
    assert set(one["panels"]) == {panel.kind for panel in panels_of(Page.POOL)}
    labels = [trace["name"] for trace in one["panels"]["memory"]["figure"]["data"]]
    assert labels == ["mine-0", "mine-1"]


def test_a_route_has_a_document_and_a_tab_of_its_own(
    reader: Client, actor: Actor, organisation: Organisation
) -> None:
    pools = [pool_of(actor, organisation, name) for name in ("mine", "other")]
    targets = [TargetChoice(pools[0], 1)]
    route = create_route(actor, organisation=organisation, name="chat", targets=targets)
    LivingFleet(None, organisation.pk, [pools[0].pk], route_id=route.pk).remember(60)
    query = {"organisation": organisation.pk, "window": "5m"}
    document = reader.get("/live/route/", query | {"route": route.pk}).json()
    assert set(document["panels"]) == {panel.kind for panel in panels_of(Page.ROUTE)}
    (stack,) = document["panels"]["requests"]["figure"]["data"]
    assert stack["name"] == "mine"
    assert any(value for value in stack["y"])
    tab = reader.get(f"/routes/{route.pk}/", {"tab": "live", "window": "1h"})
    page = tab.content.decode()
    assert f'data-live-page="route" data-query="organisation={organisation.pk}' in page
    assert f"/api/v1/live/?route={route.pk}&amp;window=1h" in page
    here = f"organisation={organisation.pk}"
    links = links_of(tab)
    assert links["errors"] == f"/requests/?failed=true&route={route.pk}&last=1h&{here}"
    assert links["cost"] == f"/usage/?measure=cost&range=24h&group_by=route&{here}"
    assert [reader.get(url).status_code for url in links.values()] == [200] * len(links)
    assert reader.get("/live/route/", query | {"route": pools[0].pk}).status_code == 404
    refused = reader.get("/live/route/", query | {"pool": pools[0].pk})
    assert list(refused.json()["fields"]) == ["pool"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"organisation": "org_0123456789abcdefghjkmnpqrs"}, 404, "not_found"),
        ({"organisation": ""}, 404, "not_found"),
        ({"window": "3m"}, 400, "invalid"),
        ({"until": "yesterday"}, 400, "invalid"),
        ({"until": "2026-11-30T12:00:00"}, 400, "invalid"),
        ({"windw": "1h"}, 400, "invalid"),
        ({"pool": "mine"}, 400, "invalid"),
    ],
)
def test_a_document_of_nothing_is_refused(
    reader: Client, organisation: Organisation, change: dict[str, str], status: int, code: str
) -> None:
    query = {"organisation": organisation.pk, "window": "5m"} | change
    answer = reader.get("/live/overview/", query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_another_organisations_figures_and_pools_are_not_found(
    reader: Client, actor: Actor, organisation: Organisation
) -> None:
    theirs = create_organisation(actor, name="Sydhavn")
    pool = pool_of(actor, theirs, "secret-pool")
    for page, query in (
        ("overview", {"organisation": theirs.pk}),
        ("pool", {"organisation": theirs.pk, "pool": pool.pk}),
        ("pool", {"organisation": organisation.pk, "pool": pool.pk}),
    ):
        answer = reader.get(f"/live/{page}/", query)
        assert answer.status_code == 404
        assert "secret-pool" not in answer.content.decode()


def test_a_role_in_a_team_alone_reads_no_live_figures(
    client: Client, actor: Actor, organisation: Organisation, collected_files: None
) -> None:
    team = create_team(actor, organisation=organisation, name="Search")
    user = create_user(actor, username="ines", password=PASSWORD)
    grant_role(actor, subject=user, organisation=organisation, team=team, role=Role.ADMIN)
    client.force_login(user)
    answer = client.get("/live/overview/", {"organisation": organisation.pk})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    page = client.get("/").content.decode()
    assert "are for roles of the whole organisation" in page
    assert "data-live-page" not in page
    targets = [TargetChoice(pool_of(actor, organisation, "mine"), 1)]
    route = create_route(actor, organisation=organisation, name="chat", targets=targets)
    page = client.get(f"/routes/{route.pk}/", {"tab": "live"}).content.decode()
    assert "data-live-page" not in page
    assert "tab=live" not in page


def test_changes_are_told_newest_first_in_words(
    reader: Client, actor: Actor, organisation: Organisation, user: User
) -> None:
    pool_of(actor, organisation, "mine")
    changes = changes_of(get_access_of_user(user), organisation.pk, UTC)
    assert changes[0].title == "Pool mine created"
    assert changes[0].detail == "tests"


def test_changes_of_people_and_prices_are_told_by_names(
    actor: Actor, organisation: Organisation, user: User
) -> None:
    team = create_team(actor, organisation=organisation, name="Search")
    account = create_service_account(actor, organisation=organisation, name="demo-automation")
    issue_token(actor, service_account=account)
    binding = grant_role(
        actor, subject=account, organisation=organisation, team=team, role=Role.ADMIN
    )
    revoke_role(actor, binding_id=binding.pk)
    model = create_model(actor, organisation=organisation, name="gpt-x")
    create_price(actor, model=model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=2)
    access = get_access_of_user(user)
    assert [one.title for one in changes_of(access, organisation.pk, UTC)] == [
        "Price of gpt-x created",
        "Model gpt-x created",
        "Role admin taken from demo-automation in team Search",
        "Role admin granted to demo-automation in team Search",
        "Token of demo-automation created",
    ]
    grant_role(actor, subject=user, organisation=organisation, role=Role.OPERATOR)
    set_password(actor, user_id=user.pk, password=PASSWORD + "!")
    newest = [one.title for one in changes_of(access, organisation.pk, UTC)]
    assert newest[:2] == ["Password of mira set", "Role operator granted to mira"]


def test_each_tile_leads_to_where_its_figure_comes_from(
    reader: Client, actor: Actor, organisation: Organisation
) -> None:
    pool = pool_of(actor, organisation, "mine")
    here = f"organisation={organisation.pk}"
    until = {"until": "2026-11-30T12:00:00Z"}
    of_all = links_of(reader.get("/", {"window": "5m"}))
    assert of_all == {
        **dict.fromkeys(("requests", "first_token", "output_token"), f"/requests/?last=15m&{here}"),
        "errors": f"/requests/?failed=true&last=15m&{here}",
        **dict.fromkeys(("tokens_in", "tokens_out"), f"/usage/?measure=tokens&range=24h&{here}"),
        **dict.fromkeys(("running", "waiting", "kv_cache", "utilisation"), f"/pools/?{here}"),
        "cost": f"/usage/?measure=cost&range=24h&{here}",
        "month": f"/usage/?measure=cost&range=mtd&{here}",
        **dict.fromkeys(("cache_hits", "saved"), f"/caches/savings/?{here}"),
    }
    of_one = links_of(reader.get(f"/pools/{pool.pk}/", {"window": "1h"}))
    assert of_one["errors"] == f"/requests/?failed=true&pool={pool.pk}&last=1h&{here}"
    assert of_one["cost"] == f"/usage/?measure=cost&range=24h&group_by=pool&{here}"
    assert of_one["kv_cache"] == f"/pools/{pool.pk}/?tab=replicas&{here}"
    of_then = links_of(reader.get("/", {"window": "5m"} | until))
    assert of_then["requests"] == (
        "/requests/?from=2026-11-30T11%3A55%3A00%2B00%3A00&to=2026-11-30T12%3A00%3A00%2B00%3A00"
        f"&{here}"
    )
    for url in {*of_all.values(), *of_one.values(), *of_then.values()}:
        answer = reader.get(url)
        assert answer.status_code == 200
        assert "errorlist" not in answer.content.decode()


def links_of(answer: HttpResponse) -> dict[str, str]:
    """Where each tile of a page leads, by its name."""
    found = re.findall(r'href="([^"]*)" data-tile="([a-z_]+)"', answer.content.decode())
    return {name: html.unescape(url) for url, name in found}


def test_more_pools_take_no_more_queries(
    reader: Client, actor: Actor, organisation: Organisation, django_assert_num_queries: Any
) -> None:
    query = {"organisation": organisation.pk, "window": "5m"}
    pool_of(actor, organisation, "one")
    reader.get("/live/overview/", query)
    with django_assert_num_queries(QUERIES):
        reader.get("/live/overview/", query)
    for number in range(5):
        pool_of(actor, organisation, f"more-{number}")
    with django_assert_num_queries(QUERIES):
        reader.get("/live/overview/", query)
