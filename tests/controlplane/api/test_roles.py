"""Every endpoint by role: all read, operators write, finance prices, nobody else gets in."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

from controlplane.models import Episode, Organisation, Role
from controlplane.services.actors import Actor
from controlplane.services.users import create_user, grant_role
from tests.controlplane.conftest import POOL, ROUTE, Caller

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

LISTS = (
    *("organisations", "teams", "projects", "models", "prices", "pools", "routes", "keys"),
    *("limits", "budgets", "switches", "caches", "purges", "snapshots", "audit"),
    *("alerts", "alert-rules", "silences", "channels", "deliveries"),
)
OPERATORS = {"operator", "admin"}
ROLES = ("viewer", "operator", "finance", "admin")
LIMIT = {"name": "new", "subject": "key", "unit": "parallel", "amount": 8}
PURGE = {"kind": "tag", "value": "docs"}
CHANNEL = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
RULE = {"name": "new", "kind": "pool_down", "scope": "pool"}
SILENCE = {"reason": "works", "ends_at": (timezone.now() + timedelta(days=1)).isoformat()}
BUDGET = {"name": "new", "scopes": [{"subject": "key"}], "amount_nanousd": "1", "period": "day"}
RAISE = {"raised_to_nanousd": "2", "raised_until": "2200-01-01T00:00:00Z"}
FINANCE = {"finance", "admin"}
PRICE = {"input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}


@dataclass(frozen=True)
class Write:
    """One write of the API: how it's called on rows an administrator made, and who may."""

    name: str
    call: Callable[[Caller, dict[str, Any]], Any]
    allowed: set[str]
    code: int


WRITES = [
    Write(
        "organisation",
        lambda who, rows: who.patch(f"/organisations/{rows['organisation']}/", {"name": "New"}),
        {"admin"},
        200,
    ),
    Write("team", lambda who, rows: who.post("/teams/", {"name": "Research"}), OPERATORS, 201),
    Write(
        "team change",
        lambda who, rows: who.patch(f"/teams/{rows['team']['id']}/", {"name": "Renamed"}),
        OPERATORS,
        200,
    ),
    Write(
        "team removal",
        lambda who, rows: who.delete(f"/teams/{rows['team']['id']}/"),
        OPERATORS,
        204,
    ),
    Write(
        "project",
        lambda who, rows: who.post("/projects/", {"name": "Chat", "team": "Default"}),
        OPERATORS,
        201,
    ),
    Write(
        "project change",
        lambda who, rows: who.patch(f"/projects/{rows['project']['id']}/", {"name": "Renamed"}),
        OPERATORS,
        200,
    ),
    Write(
        "project removal",
        lambda who, rows: who.delete(f"/projects/{rows['project']['id']}/"),
        OPERATORS,
        204,
    ),
    Write("model", lambda who, rows: who.post("/models/", {"name": "new"}), OPERATORS, 201),
    Write(
        "model change",
        lambda who, rows: who.patch(f"/models/{rows['model']['id']}/", {"task": "embed"}),
        OPERATORS,
        200,
    ),
    Write(
        "model removal",
        lambda who, rows: who.delete(f"/models/{rows['model']['id']}/"),
        OPERATORS,
        204,
    ),
    Write(
        "price",
        lambda who, rows: who.post("/prices/", {"model": "gpt-x", **PRICE}),
        {"finance", "admin"},
        201,
    ),
    Write(
        "price change",
        lambda who, rows: who.patch(
            f"/prices/{rows['price']['id']}/", {"input_nanousd_per_mtok": "7"}
        ),
        {"finance", "admin"},
        200,
    ),
    Write(
        "price removal",
        lambda who, rows: who.delete(f"/prices/{rows['price']['id']}/"),
        {"finance", "admin"},
        204,
    ),
    Write("pool", lambda who, rows: who.post("/pools/", {**POOL, "name": "new"}), OPERATORS, 201),
    Write(
        "pool change",
        lambda who, rows: who.patch(f"/pools/{rows['pool']['id']}/", {"power": "stopped"}),
        OPERATORS,
        200,
    ),
    Write(
        "pool removal",
        lambda who, rows: who.delete(f"/pools/{rows['spare']['id']}/"),
        OPERATORS,
        204,
    ),
    Write(
        "route", lambda who, rows: who.post("/routes/", {**ROUTE, "name": "new"}), OPERATORS, 201
    ),
    Write(
        "route change",
        lambda who, rows: who.patch(f"/routes/{rows['route']['id']}/", {"is_enabled": False}),
        OPERATORS,
        200,
    ),
    Write(
        "route removal",
        lambda who, rows: who.delete(f"/routes/{rows['route']['id']}/"),
        OPERATORS,
        204,
    ),
    Write("key", lambda who, rows: who.post("/keys/", {"name": "new"}), OPERATORS, 201),
    Write(
        "key change",
        lambda who, rows: who.patch(f"/keys/{rows['key']['id']}/", {"is_enabled": False}),
        OPERATORS,
        200,
    ),
    Write(
        "key rotation",
        lambda who, rows: who.post(f"/keys/{rows['key']['id']}/rotate/", {"overlap_s": 5}),
        OPERATORS,
        200,
    ),
    Write(
        "key revocation",
        lambda who, rows: who.post(f"/keys/{rows['key']['id']}/revoke/"),
        OPERATORS,
        200,
    ),
    Write("cache", lambda who, rows: who.post("/caches/", {"name": "new"}), OPERATORS, 201),
    Write("purge", lambda who, rows: who.post("/purges/", PURGE), OPERATORS, 201),
    Write("limit", lambda who, rows: who.post("/limits/", LIMIT), OPERATORS, 201),
    Write(
        "limit change",
        lambda who, rows: who.patch(f"/limits/{rows['limit']['id']}/", {"amount": 0}),
        OPERATORS,
        200,
    ),
    Write(
        "limit removal",
        lambda who, rows: who.delete(f"/limits/{rows['limit']['id']}/"),
        OPERATORS,
        204,
    ),
    Write("budget", lambda who, rows: who.post("/budgets/", BUDGET), FINANCE, 201),
    Write(
        "budget change",
        lambda who, rows: who.patch(f"/budgets/{rows['budget']['id']}/", {"grace_percent": 1}),
        FINANCE,
        200,
    ),
    Write(
        "raise",
        lambda who, rows: who.post(f"/budgets/{rows['budget']['id']}/raise/", RAISE),
        FINANCE,
        200,
    ),
    Write(
        "budget removal",
        lambda who, rows: who.delete(f"/budgets/{rows['budget']['id']}/"),
        FINANCE,
        204,
    ),
    Write(
        "switch",
        lambda who, rows: who.post("/switches/", {"subject": "organisation"}),
        OPERATORS,
        201,
    ),
    Write(
        "switch put back",
        lambda who, rows: who.delete(f"/switches/{rows['switch']['id']}/"),
        OPERATORS,
        204,
    ),
    Write(
        "alert",
        lambda who, rows: who.patch(f"/alerts/{rows['alert']}/", {"state": "acknowledged"}),
        OPERATORS,
        200,
    ),
    Write("rule", lambda who, rows: who.post("/alert-rules/", RULE), OPERATORS, 201),
    Write(
        "rule removal",
        lambda who, rows: who.delete(f"/alert-rules/{rows['rule']['id']}/"),
        OPERATORS,
        204,
    ),
    Write("silence", lambda who, rows: who.post("/silences/", SILENCE), OPERATORS, 201),
    Write(
        "channel change",
        lambda who, rows: who.patch(f"/channels/{rows['channel']['id']}/", {"name": "New"}),
        OPERATORS,
        200,
    ),
    Write(
        "test of a channel",
        lambda who, rows: who.post("/deliveries/", {"channel": "ops"}),
        OPERATORS,
        201,
    ),
    Write(
        "what is the installation's",
        lambda who, rows: who.post("/channels/", {**CHANNEL, "organisation": None}),
        set(),
        201,
    ),
]


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


@pytest.fixture(scope="module")
def callers(admin: Caller, make_standing_caller: Callable[..., Caller]) -> dict[str, Caller]:
    """A caller of each role in the administrator's organisation."""
    return {role: make_standing_caller(role, admin.organisation) for role in (*ROLES, "none")}


@pytest.fixture(scope="module")
def rows(admin: Caller) -> dict[str, Any]:
    """One of everything, made by an administrator."""
    pool, route = admin.made("/pools/", POOL), admin.made("/routes/", ROUTE)
    priced = admin.made("/models/", {"name": "priced"})
    return {
        "organisation": admin.organisation.pk,
        "team": admin.made("/teams/", {"name": "Idle"}),
        "project": admin.made("/projects/", {"name": "Idle", "team": "Default"}),
        "model": priced,
        "price": admin.made("/prices/", {"model": "priced", **PRICE}),
        "pool": pool,
        "spare": admin.made("/pools/", {**POOL, "name": "spare"}),
        "route": route,
        "key": admin.made("/keys/", {"name": "app"}),
        "limit": admin.made("/limits/", {**LIMIT, "name": "of each"}),
        "channel": admin.made("/channels/", CHANNEL),
        "rule": admin.made("/alert-rules/", {**RULE, "name": "old"}),
        "silence": admin.made("/silences/", SILENCE),
        "delivery": admin.made("/deliveries/", {"channel": "ops"}),
        "alert": _fired(admin.organisation),
        "budget": admin.made("/budgets/", {**BUDGET, "name": "of each"}),
        "cache": admin.made("/caches/", {"name": "answers"}),
        "purge": admin.made("/purges/", PURGE),
        "switch": admin.made("/switches/", {"subject": "route", "subject_id": "chat"}),
    }


def _fired(organisation: Organisation) -> str:
    """An alert that holds; its id."""
    told = {"name": "down", "kind": "pool_down", "scope": "pool", "threshold": 100}
    return Episode.objects.create(
        organisation=organisation, subject_id="mine", severity="notice", **told
    ).pk


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_a_role_may_write_what_is_its_own_and_nothing_else(
    write: Write, rows: dict[str, Any], callers: dict[str, Caller]
) -> None:
    for role in ROLES:
        with transaction.atomic():
            response = write.call(callers[role], rows)
            transaction.set_rollback(True)
        expected = write.code if role in write.allowed else 403
        assert response.status_code == expected, (role, response.content)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_reads_everything(
    role: str, rows: dict[str, Any], callers: dict[str, Caller]
) -> None:
    for noun in LISTS:
        response = callers[role].get(f"/{noun}/")
        assert response.status_code == 200
        assert response.json()["results"] != []


@pytest.mark.parametrize("noun", LISTS)
def test_a_caller_without_a_role_is_refused(noun: str, callers: dict[str, Caller]) -> None:
    response = callers["none"].get(f"/{noun}/")
    assert response.status_code == 403
    assert response.json()["code"] == "permission_denied"


@pytest.mark.parametrize("noun", LISTS)
def test_a_caller_without_a_token_is_asked_for_one(noun: str, db: None) -> None:
    response = Client().get(f"/api/v1/{noun}/")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="headworks"'
    assert response.json()["code"] == "not_authenticated"


def test_roles_of_finance_and_operator_add_up(
    actor: Actor, admin: Caller, rows: dict[str, Any], make_caller: Callable[..., Caller]
) -> None:
    caller = make_caller("operator", admin.organisation)
    account = admin.organisation.service_accounts.order_by("-created_at").first()
    assert account is not None
    grant_role(actor, subject=account, organisation=admin.organisation, role=Role.FINANCE)
    assert caller.patch(f"/pools/{rows['pool']['id']}/", {"replicas": 2}).status_code == 200
    price = caller.patch(f"/prices/{rows['price']['id']}/", {"input_nanousd_per_mtok": "7"})
    assert price.status_code == 200


def test_a_signed_in_operator_writes_with_the_session_and_its_csrf_token(
    actor: Actor, admin: Caller, collected_files: None
) -> None:
    user = create_user(actor, username="ann", email="ann@example.com", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.OPERATOR)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.get("/api/v1/pools/").status_code == 200
    without = client.post("/api/v1/teams/", {"name": "x"}, content_type="application/json")
    assert without.status_code == 403
    client.get("/accounts/logout/")
    token = client.cookies[settings.CSRF_COOKIE_NAME].value
    response = client.post(
        "/api/v1/teams/",
        {"name": "x"},
        content_type="application/json",
        headers={"x-csrftoken": token},
    )
    assert response.status_code == 201


def test_only_the_platform_administrator_makes_organisations(actor: Actor, admin: Caller) -> None:
    assert admin.post("/organisations/", {"name": "Second"}).status_code == 403
    user = create_user(actor, username="root", password="a long pass 1", is_platform_admin=True)
    client = Client()
    client.force_login(user)
    document = {"name": "Second", "time_zone": "Europe/Berlin"}
    response = client.post("/api/v1/organisations/", document, content_type="application/json")
    assert response.status_code == 201
    assert response.json()["time_zone"] == "Europe/Berlin"
    projects = client.get("/api/v1/projects/").json()["results"]
    homes = {admin.organisation.pk, response.json()["id"]}
    assert {row["organisation_id"] for row in projects} == homes
    ambiguous = client.post("/api/v1/keys/", {"name": "k"}, content_type="application/json")
    assert ambiguous.status_code == 400
    assert list(ambiguous.json()["fields"]) == ["organisation"]
    told = {"name": "k", "organisation": "Second"}
    named = client.post("/api/v1/keys/", told, content_type="application/json")
    assert named.json()["organisation_id"] == response.json()["id"]
