"""What the API says no to, and how."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from redis.exceptions import TimeoutError as StoreTimeoutError

from controlplane.api.authentication import TokenAuthentication
from controlplane.models import ApiToken, ServiceAccount
from controlplane.services.actors import Actor
from controlplane.services.users import revoke_token, set_service_account_enabled
from tests.controlplane.conftest import POOL, ROUTE, Caller

BODIES = [
    b"",
    b'{"name": "x"',
    b"\xff\xfe{}",
    b"[]",
    b'"text"',
    b"null",
    b'{"name": NaN}',
    b'{"name": 1e999}',
    b'{"name": "a\\u0000b"}',
    b'{"name": "\\ud83d"}',
    b'{"na\\u0000me": "x"}',
    b"[" * 50_000,
]


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


def raw(caller: Caller, body: bytes, content_type: str = "application/json") -> Any:
    return caller.client.generic(
        "POST",
        "/api/v1/teams/",
        data=body,
        content_type=content_type,
        headers={"authorization": f"Bearer {caller.token}"},
    )


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:20]))
def test_a_malformed_body_is_the_callers_fault(body: bytes, admin: Caller) -> None:
    response = raw(admin, body)
    assert response.status_code == 400
    assert set(response.json()) == {"code", "detail", "fields"}


def test_a_form_is_not_json(admin: Caller) -> None:
    response = raw(admin, b"name=x", "application/x-www-form-urlencoded")
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported_media_type"


def test_a_body_over_the_limit_is_refused_and_one_at_it_is_read(admin: Caller) -> None:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    exact = b'{"name": "' + b"x" * (limit - 12) + b'"}'
    assert len(exact) == limit
    assert raw(admin, exact).status_code == 400
    response = raw(admin, exact + b" ")
    assert response.status_code == 413
    assert response.json() == {
        "code": "too_large",
        "detail": "The body is larger than 1,048,576 bytes.",
        "fields": {},
    }


def test_unknown_fields_are_named(admin: Caller) -> None:
    response = admin.post("/teams/", {"name": "x", "nmae": "y"})
    assert response.status_code == 400
    assert response.json() == {
        "code": "invalid",
        "detail": "Some fields are not valid.",
        "fields": {"nmae": ["There is no such field."]},
    }
    nested = {"name": "r", "targets": [{"pool": "mine", "weight": 1, "wait": 2}]}
    assert admin.post("/routes/", nested).json()["fields"] == {
        "targets.0.wait": ["There is no such field."]
    }


def test_fields_that_are_ours_cannot_be_set_but_may_be_sent_back(
    admin: Caller, pool: dict[str, Any]
) -> None:
    assert admin.post("/teams/", {"name": "x", "version": 7}).json()["fields"] == {
        "version": ["This field can't be set."]
    }
    path = f"/pools/{pool['id']}/"
    assert admin.patch(path, {"model_id": "mdl_other"}).json()["fields"] == {
        "model_id": ["This can't be changed."]
    }
    assert admin.patch(path, {**pool, "replicas": 3}).json()["replicas"] == 3


def test_problems_of_the_resulting_configuration_are_at_their_fields(admin: Caller) -> None:
    response = admin.post(
        "/pools/",
        {**POOL, "addresses": ["http://169.254.169.254/v1", "http://127.0.0.1:8400/v1"]},
    )
    assert response.status_code == 400
    assert response.json()["code"] == "problems_found"
    assert set(response.json()["fields"]) == {"addresses.0", "addresses.1"}
    assert admin.get("/pools/").json()["results"] == []
    assert admin.get("/models/").json()["results"] == []


def test_every_field_with_a_problem_is_named_at_once(admin: Caller) -> None:
    wrong = {
        "name": "Not A Name",
        "provisioner": "teleport",
        "model": "",
        "replicas": -1,
        "addresses": "http://x",
    }
    assert set(admin.post("/pools/", wrong).json()["fields"]) == {
        *("provisioner", "model", "replicas", "addresses")
    }


@pytest.mark.parametrize(
    ("path", "document", "field"),
    [
        ("/pools/", {**POOL, "name": "Not A Name"}, "name"),
        ("/pools/", {**POOL, "name": "trailing\n"}, None),
        ("/pools/", {**POOL, "model": "not a model"}, "model"),
        ("/pools/", {**POOL, "credential": "has space"}, "credential"),
        ("/pools/", {**POOL, "credential": ""}, "credential"),
        ("/pools/", {**POOL, "replicas": 10_000_000_000}, "replicas"),
        ("/pools/", {**POOL, "engine_arguments": {"a": [1]}}, "engine_arguments.a"),
        ("/pools/", {**POOL, "engine_arguments": {"a": 2**70}}, "engine_arguments.a"),
        ("/routes/", {"name": "r", "targets": []}, "targets"),
        ("/routes/", {"name": "r", "targets": [{"pool": "no", "weight": 1}]}, "targets.0.pool"),
        (
            "/routes/",
            {"name": "r", "targets": [{"pool": "mine", "weight": -1}]},
            "targets.0.weight",
        ),
        ("/keys/", {"name": "k", "scopes": ["everything"]}, "scopes.0"),
        ("/keys/", {"name": "k", "scopes": []}, "scopes"),
        ("/keys/", {"name": "k", "routes": ["nope"]}, "routes"),
        ("/keys/", {"name": "k", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ("/keys/", {"name": "k", "expires_at": "tomorrow"}, "expires_at"),
        ("/teams/", {"name": "\u0085"}, "name"),
        ("/teams/", {"name": "a\tb"}, "name"),
        ("/teams/", {"name": "default"}, "name"),
        ("/projects/", {"name": "p"}, "team"),
        ("/projects/", {"name": "p", "team": ["x"]}, "team"),
    ],
)
def test_a_wrong_value_is_reported_at_its_field(
    path: str, document: dict[str, Any], field: str | None, admin: Caller
) -> None:
    if path == "/routes/":
        admin.made("/pools/", POOL)
    response = admin.post(path, document)
    if field is None:
        assert response.status_code == 201
        return
    assert response.status_code == 400, response.content
    assert list(response.json()["fields"]) == [field]


def test_a_name_that_is_taken_is_reported_at_the_name(admin: Caller, route: Any) -> None:
    again = {
        "/pools/": POOL,
        "/routes/": ROUTE,
        "/models/": {"name": "gpt-x"},
    }
    for path, document in again.items():
        response = admin.post(path, document)
        assert response.status_code == 400
        assert list(response.json()["fields"]) == ["name"]


def test_paths_nobody_serves_are_not_found_in_json(admin: Caller) -> None:
    odd = "/pools/%00/", "/pools/pool_x/", "/nope/", "/pools/1/", "/keys/key_0/explode/"
    for path in odd:
        response = admin.get(path)
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"


@pytest.mark.parametrize(
    "query",
    ["cursor=abc", "cursor=cD0lMDA%3D", "name=%00", "organisation=%00"],
)
def test_a_query_that_means_nothing_is_the_callers_fault(query: str, admin: Caller) -> None:
    response = admin.get(f"/pools/?{query}")
    assert response.status_code == 400
    assert response.json()["code"] == "invalid"


def test_a_cursor_of_another_list_is_refused(admin: Caller) -> None:
    for number in range(3):
        admin.made("/teams/", {"name": f"team {number}"})
    cursor = admin.get("/teams/?page_size=1").json()["next"].partition("cursor=")[2]
    assert admin.get(f"/audit/?cursor={cursor}").status_code == 400


def test_a_method_that_is_not_there_is_refused(admin: Caller, pool: Any) -> None:
    response = admin.call("PUT", f"/pools/{pool['id']}/", POOL)
    assert response.status_code == 405
    assert response.json()["code"] == "method_not_allowed"


BAD_TOKENS = ["", "hwt_x.y", "hw_01j.secret", "é", "a b", "hwt_" + "0" * 26 + "." + "a" * 43]


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_token_that_is_not_good_is_unauthorised(token: str, db: None) -> None:
    headers = {"authorization": f"Bearer {token}"}
    response = Client().get("/api/v1/pools/", headers=headers)
    assert response.status_code == 401
    assert response.json() == {
        "code": "authentication_failed",
        "detail": "The token is not valid.",
        "fields": {},
    }


def test_a_token_is_worth_nothing_with_another_secret(admin: Caller) -> None:
    assert admin.get("/pools/").status_code == 200
    last = "A" if admin.token[-1] != "A" else "B"
    admin.token = admin.token[:-1] + last
    assert admin.get("/pools/").status_code == 401


def test_expired_revoked_and_disabled_tokens_are_unauthorised(
    actor: Actor, make_caller: Callable[..., Caller]
) -> None:
    expired, revoked, disabled = make_caller(), make_caller(), make_caller()

    def token_of(caller: Caller) -> ApiToken:
        return ApiToken.objects.get(service_account__organisation=caller.organisation)

    ApiToken.objects.filter(pk=token_of(expired).pk).update(expires_at=timezone.now())
    revoke_token(actor, token_id=token_of(revoked).pk)
    account = ServiceAccount.objects.get(organisation=disabled.organisation)
    set_service_account_enabled(actor, service_account_id=account.pk, is_enabled=False)
    for caller in (expired, revoked, disabled):
        assert caller.get("/pools/").status_code == 401


def test_a_database_that_fails_is_an_outage_and_never_a_bad_token(
    monkeypatch: pytest.MonkeyPatch, admin: Caller
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("connection to server at 10.0.0.1 failed")

    monkeypatch.setattr(TokenAuthentication, "authenticate", fail)
    response = admin.get("/pools/")
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert response.json() == {
        "code": "database_unavailable",
        "detail": "The database is not answering.",
        "fields": {},
    }


def test_a_state_store_that_fails_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, admin: Caller
) -> None:
    def fail(*_: object) -> None:
        raise StoreTimeoutError("Timeout reading from socket")

    monkeypatch.setattr(TokenAuthentication, "authenticate", fail)
    response = admin.get("/pools/")
    assert response.status_code == 503
    assert response.json()["code"] == "state_unavailable"


def test_what_nobody_foresaw_is_told_in_json_without_its_cause(
    monkeypatch: pytest.MonkeyPatch, admin: Caller
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(TokenAuthentication, "authenticate", fail)
    response = admin.get("/pools/")
    assert response.status_code == 500
    assert response.json()["code"] == "internal_error"
    assert b"secret detail" not in response.content


@pytest.mark.parametrize("path", ["/pools/", "/pools/pool_x/", "/nope/"])
def test_answers_are_private_and_depend_on_the_caller(path: str, admin: Caller) -> None:
    for caller in (admin, Caller("wrong", admin.organisation, "")):
        response = caller.get(path)
        assert response["Cache-Control"] == "private, no-store"
        assert {"Authorization", "Cookie"} <= {word.strip() for word in response["Vary"].split(",")}


def test_a_request_id_is_given_and_a_callers_own_is_kept(admin: Caller) -> None:
    assert admin.get("/pools/")["X-Request-ID"].startswith("call_")
    assert admin.get("/pools/", X_Request_ID="trace-12345678")["X-Request-ID"] == "trace-12345678"
    assert admin.get("/pools/", X_Request_ID="<script>")["X-Request-ID"].startswith("call_")
