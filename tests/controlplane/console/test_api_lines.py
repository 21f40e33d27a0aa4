"""What "View API request" shows is a call that answers what the page shows."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import Organisation, Role
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.budgets import create_budget
from controlplane.services.channels import create_channel
from controlplane.services.deliveries import send_test
from controlplane.services.keys import create_key
from controlplane.services.limits import create_limit
from controlplane.services.models import create_model, update_model
from controlplane.services.organisations import create_organisation, update_organisation
from controlplane.services.pools import create_pool
from controlplane.services.prices import create_price
from controlplane.services.users import create_service_account, create_user, grant_role
from tests.controlplane.console.conftest import PASSWORD

pytestmark = pytest.mark.slow

LISTS = (
    *("/models/", "/models/?sort=-name", "/keys/", "/keys/?sort=-name&state=live", "/prices/"),
    *("/organisations/", "/teams/?sort=-name", "/projects/", "/audit/", "/audit/?sort=at"),
    *("/snapshots/", "/snapshots/?sort=version", "/users/", "/users/bindings/"),
    *("/users/service-accounts/", "/pools/", "/routes/", "/limits/", "/limits/?sort=-name"),
    *("/alerts/rules/", "/alerts/channels/?sort=-name", "/alerts/deliveries/"),
    *("/budgets/", "/budgets/?sort=-name&period=day"),
)
UNORDERED = ("/prices/", "/users/")
"""The API has no order of these but that of their making."""


def called(text: str) -> str:
    """The address in a page's API call."""
    found = re.search(r"curl .*?http://testserver(/api/v1/[^'<\s]*)", unescape(text), re.DOTALL)
    assert found is not None
    return found[1]


def ids_on(text: str, path: str) -> list[str]:
    """The ids of a list's rows, as its table links them."""
    table = text[text.index("<tbody") : text.index("</tbody")]
    if path.startswith("/users/bindings/"):
        return re.findall(r'href="/users/bindings/([^/"]+)/delete/', table)
    found = re.findall(rf'href="{path.partition("?")[0]}([^/"?]+)/', table)
    return list(dict.fromkeys(found))


@pytest.fixture
def home(actor: Actor, db: None) -> Organisation:
    """An organisation with two of most nouns."""
    home = create_organisation(actor, name="North")
    for name in ("b-model", "a-model"):
        model = create_model(actor, organisation=home, name=name)
        create_price(actor, model=model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=1)
        create_key(actor, organisation=home, name=f"key of {name}")
        create_service_account(actor, organisation=home, name=f"account of {name}")
        channel = {"name": name, "kind": "email", "recipients": ["ops@example.com"]}
        send_test(actor, channel_id=create_channel(actor, organisation=home, **channel).pk)
        rule = {"name": name, "kind": "pool_down", "scope": "pool"}
        create_alert_rule(actor, organisation=home, **rule)
        create_limit(actor, organisation=home, name=name, subject="key", unit="parallel", amount=1)
        budget = {"scopes": [{"subject": "key"}], "amount_nanousd": 1, "period": "day"}
        create_budget(actor, organisation=home, name=name, **budget)
    return home


@pytest.fixture
def sign_in(
    home: Organisation, actor: Actor, collected_files: None, state_store: object
) -> Callable[[str], Client]:
    def make(kind: str) -> Client:
        is_root = kind == "platform"
        user = create_user(actor, username="mira", password=PASSWORD, is_platform_admin=is_root)
        other = create_organisation(actor, name="South")
        create_model(actor, organisation=other, name="southern")
        stranger = create_user(actor, username="southerner", password=PASSWORD)
        grant_role(actor, subject=stranger, organisation=other, role=Role.VIEWER)
        for organisation in (home, other) if kind == "two" else (home,):
            grant_role(actor, subject=user, organisation=organisation, role=Role.ADMIN)
        client = Client()
        client.force_login(user)
        return client

    return make


def read(client: Client, path: str, home: Organisation) -> str:
    join = "&" if "?" in path else "?"
    response = client.get(f"{path}{join}organisation={home.pk}")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(
    "kind",
    ["one", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("two", "platform"))],
)
def test_the_call_of_a_list_answers_its_rows_in_their_order(
    kind: str, sign_in: Callable[[str], Client], home: Organisation
) -> None:
    client = sign_in(kind)
    wrong: dict[str, Any] = {}
    for path in LISTS:
        text = read(client, path, home)
        answer = client.get(called(text))
        document = json.loads(answer.content)
        key = "version" if path.startswith("/snapshots/") else "id"
        told = [str(row[key]) for row in document.get("results", ())]
        shown = ids_on(text, path) if "<tbody" in text else []
        if path.startswith(UNORDERED):
            told, shown = sorted(told), sorted(shown)
        if answer.status_code != 200 or told != shown:
            wrong[path] = (called(text), answer.status_code, told, shown)
    assert wrong == {}


def test_times_are_told_with_the_zone_they_were_given_in(
    sign_in: Callable[[str], Client], home: Organisation, actor: Actor
) -> None:
    update_organisation(actor, organisation_id=home.pk, changes={"time_zone": "Asia/Kolkata"})
    client = sign_in("one")
    # in the zone this is an hour ago; taken for UTC it would be hours ahead
    since = timezone.now() - timedelta(hours=1) + timedelta(hours=5, minutes=30)
    for path in ("/audit/", "/snapshots/"):
        text = read(client, f"{path}?from={since:%Y-%m-%dT%H:%M}", home)
        answer = json.loads(client.get(called(text)).content)
        assert len(answer["results"]) == len(ids_on(text, path)) > 0


@pytest.mark.parametrize("kind", ["one", "two"])
def test_the_call_of_one_object_answers_it(
    kind: str, sign_in: Callable[[str], Client], home: Organisation
) -> None:
    client = sign_in(kind)
    key, account = home.keys.first(), home.service_accounts.first()
    user = home.role_bindings.get(user__username="mira").user
    paths: Mapping[str, str] = {
        f"/organisations/{home.pk}/": home.pk,
        f"/keys/{key.pk}/": key.pk,
        f"/users/{user.pk}/": str(user.pk),
        f"/users/service-accounts/{account.pk}/": account.pk,
    }
    for path, pk in paths.items():
        answer = client.get(called(read(client, path, home)))
        assert (answer.status_code, str(answer.json()["id"])) == (200, pk)


def test_the_call_of_each_tab_answers_what_the_tab_shows(
    sign_in: Callable[[str], Client], home: Organisation, actor: Actor
) -> None:
    client = sign_in("two")
    pool = create_pool(
        actor,
        organisation=home,
        name="small",
        model="a-model",
        provisioner="process",
        model_source="smollm2",
        replicas=2,
    )
    path = f"/pools/{pool.pk}/"
    calls = {
        tab: called(read(client, f"{path}{tab}", home))
        for tab in ("?window=6h", "?tab=replicas", "?tab=logs&worker=1", "?tab=activity")
    }
    live = client.get(calls["?window=6h"]).json()
    assert (live["pool_id"], live["organisation_id"], live["bucket_s"]) == (pool.pk, home.pk, 300)
    usual = read(client, path, home)
    (shown,) = re.findall(r'data-query="[^"]*window=(\w+)', usual)
    assert f"window={shown}" in called(usual)
    assert client.get(calls["?tab=replicas"]).json()["id"] == pool.pk
    assert calls["?tab=logs&worker=1"] == f"/api/v1/pools/{pool.pk}/logs/?worker=1"
    assert client.get(calls["?tab=logs&worker=1"]).status_code == 200
    (made,) = client.get(calls["?tab=activity"]).json()["results"]
    assert (made["noun"], made["object_id"], made["action"]) == ("pools", pool.pk, "create")


def test_the_call_of_an_activity_tab_answers_its_changes_newest_first(
    sign_in: Callable[[str], Client], home: Organisation, actor: Actor
) -> None:
    client = sign_in("one")
    model = home.models.get(name="a-model")
    update_model(actor, model_id=model.pk, changes={"max_context_tokens": 8_192})
    account = home.service_accounts.first()
    assert account is not None
    for path, actions in (
        (f"/models/{model.pk}/", ["update", "create"]),
        (f"/users/service-accounts/{account.pk}/", ["create"]),
    ):
        text = read(client, f"{path}?tab=activity", home)
        answer = client.get(called(text)).json()["results"]
        assert [row["action"] for row in answer] == actions
        assert [f"/audit/{row['id']}/" in text for row in answer] == [True] * len(actions)


def test_the_call_of_a_version_answers_the_difference_it_shows(
    sign_in: Callable[[str], Client], home: Organisation, actor: Actor
) -> None:
    client = sign_in("one")
    versions = json.loads(client.get("/api/v1/snapshots/?ordering=id").content)["results"]
    first, second = (row["version"] for row in versions[:2])
    answer = client.get(called(read(client, f"/snapshots/{second}/", home))).json()
    assert (answer["version"], answer["to"]) == (first, second)
    assert client.get(called(read(client, f"/snapshots/{first}/", home))).status_code == 200
