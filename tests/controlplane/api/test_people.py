"""People, programs, tokens and roles by REST."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from controlplane.models import ApiToken, AuditEntry, Organisation, Role, User
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_user
from tests.controlplane.conftest import Caller

pytestmark = pytest.mark.slow


PASSWORD = "long enough 42"


@pytest.fixture
def eve(admin: Caller) -> dict[str, Any]:
    document = {"username": "eve", "email": "eve@example.com", "role": "viewer"}
    made: dict[str, Any] = admin.made("/users/", document)
    return made


@pytest.fixture
def root(actor: Actor) -> Client:
    user = create_user(actor, username="root", password=PASSWORD, is_platform_admin=True)
    client = Client()
    client.force_login(user)
    return client


def test_a_person_is_made_with_a_role_and_a_password_shown_once(
    admin: Caller, eve: dict[str, Any]
) -> None:
    assert Client().login(username="eve", password=eve["password"])
    assert eve["must_change_password"] is True
    (binding,) = eve["bindings"]
    assert (binding["role"], binding["organisation_id"]) == ("viewer", admin.organisation.pk)
    shown = admin.get(f"/users/{eve['id']}/")
    assert "password" not in shown.json()
    assert shown["ETag"] == f'"{eve["version"]}"'
    listed = admin.get("/users/?search=eve").json()["results"]
    assert [one["username"] for one in listed] == ["eve"]


def test_a_person_is_changed_at_the_version_that_was_read(
    admin: Caller, eve: dict[str, Any]
) -> None:
    path = f"/users/{eve['id']}/"
    changed = admin.patch(path, {"first_name": "Eve"}, If_Match=f'"{eve["version"]}"')
    assert (changed.status_code, changed.json()["version"]) == (200, eve["version"] + 1)
    late = admin.patch(path, {"first_name": "Eva"}, If_Match=f'"{eve["version"]}"')
    assert late.status_code == 412
    assert admin.patch(path, {"is_platform_admin": True}).status_code == 400
    assert admin.patch(path, {"role": "admin"}).status_code == 400
    assert admin.patch(path, {"username": ""}).status_code == 400
    off = admin.patch(path, {"is_active": False})
    assert off.json()["is_active"] is False
    assert admin.post(f"{path}reset-password/").status_code == 409
    assert admin.delete(path).status_code == 405


def test_a_person_of_another_organisation_too_is_not_one_administrators_to_change(
    actor: Actor, admin: Caller, eve: dict[str, Any], root: Client
) -> None:
    user = User.objects.get(pk=eve["id"])
    other = create_organisation(actor, name="Other")
    grant_role(actor, subject=user, organisation=other, role=Role.ADMIN)
    path = f"/users/{eve['id']}/"
    assert len(admin.get(path).json()["bindings"]) == 1
    assert admin.patch(path, {"first_name": "X"}).status_code == 403
    assert admin.post(f"{path}reset-password/").status_code == 403
    answer = root.post(f"/api/v1{path}reset-password/")
    assert (answer.status_code, len(answer.json()["bindings"])) == (200, 2)


def test_a_platform_administrator_is_no_organisations_to_change(
    actor: Actor, admin: Caller, root: Client
) -> None:
    user = User.objects.get(username="root")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
    assert admin.post(f"/users/{user.pk}/reset-password/").status_code == 403


def test_the_last_administrator_is_taken_away_by_the_platform_alone(
    admin: Caller, root: Client
) -> None:
    (binding,) = admin.get("/bindings/?role=admin").json()["results"]
    path = f"/bindings/{binding['id']}/"
    refused = admin.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert root.delete(f"/api/v1{path}").status_code == 204
    assert admin.get("/pools/").status_code == 403


def test_a_binding_names_one_subject_and_one_place(admin: Caller, eve: dict[str, Any]) -> None:
    account = admin.made("/service-accounts/", {"name": "ci"})
    both = {"user": "eve", "service_account": "ci", "role": "viewer"}
    assert admin.post("/bindings/", both).status_code == 400
    assert admin.post("/bindings/", {"role": "viewer"}).status_code == 400
    assert admin.post("/bindings/", {"user": "eve", "role": "emperor"}).status_code == 400
    places = {"user": "eve", "role": "viewer", "team": "Default", "project": "Default"}
    assert admin.post("/bindings/", places).status_code == 400
    made = admin.made("/bindings/", {"service_account": "ci", "role": "operator"})
    assert made["service_account_id"] == account["id"]
    assert admin.patch(f"/bindings/{made['id']}/", {"role": "admin"}).status_code == 405
    by_id = {"user": str(eve["id"]), "role": "operator", "team": "Default"}
    team = admin.made("/bindings/", by_id)
    assert team["team"] == "Default"
    listed = admin.get("/bindings/?team=Default").json()["results"]
    assert [one["id"] for one in listed] == [team["id"]]


def test_an_accounts_token_works_until_it_is_revoked_or_the_account_switched_off(
    admin: Caller,
) -> None:
    account = admin.made("/service-accounts/", {"name": "ci"})
    admin.made("/bindings/", {"service_account": "ci", "role": "operator"})
    until = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    document = {"service_account": "ci", "expires_at": until.isoformat()}
    made = admin.made("/tokens/", document)
    program = Caller(made["token"], admin.organisation, "operator")
    assert program.get("/pools/").status_code == 200
    path = f"/service-accounts/{account['id']}/"
    admin.patch(path, {"is_enabled": False})
    assert program.get("/pools/").status_code == 401
    admin.patch(path, {"is_enabled": True})
    assert program.get("/pools/").status_code == 200
    shown = admin.get(f"/tokens/{made['id']}/")
    assert "token" not in shown.json()
    stale = admin.post(f"/tokens/{made['id']}/revoke/", If_Match='"7"')
    assert stale.status_code == 412
    revoked = admin.post(f"/tokens/{made['id']}/revoke/")
    assert revoked.json()["revoked_at"] is not None
    assert program.get("/pools/").status_code == 401
    assert admin.get("/tokens/?is_revoked=true").json()["results"][0]["id"] == made["id"]
    past = {**document, "expires_at": "2001-01-01T00:00:00Z"}
    assert list(admin.post("/tokens/", past).json()["fields"]) == ["expires_at"]
    assert admin.delete(path).status_code == 204
    assert not ApiToken.objects.filter(pk=made["id"]).exists()


def test_me_tells_roles_and_what_each_lets_change(
    actor: Actor, admin: Caller, organisation: Organisation, make_caller: Callable[..., Caller]
) -> None:
    mine = admin.get("/me/").json()
    assert mine["kind"] == "service_account"
    nouns = {one["noun"] for one in mine["permissions"]}
    assert {"pools", "prices", "bindings", "users"} <= nouns
    assert {one["binding_id"] for one in mine["permissions"]} == {mine["bindings"][0]["id"]}
    user = create_user(actor, username="ann", password=PASSWORD)
    team = organisation.teams.get()
    grant_role(actor, subject=user, organisation=organisation, role=Role.OPERATOR, team=team)
    client = Client()
    client.force_login(user)
    narrow = client.get("/api/v1/me/").json()
    assert (narrow["name"], narrow["kind"]) == ("ann", "user")
    told = [(one["noun"], one["team_id"], one["role"]) for one in narrow["permissions"]]
    assert told == [
        ("keys", team.pk, "operator"),
        ("projects", team.pk, "operator"),
        ("teams", team.pk, "operator"),
    ]
    nobody = make_caller("none").get("/me/")
    assert (nobody.status_code, nobody.json()["bindings"]) == (200, [])
    assert Client().get("/api/v1/me/").status_code == 401


def test_passwords_and_tokens_are_in_one_answer_and_nowhere_else(
    admin: Caller, eve: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    admin.made("/service-accounts/", {"name": "ci"})
    token = admin.made("/tokens/", {"service_account": "ci"})
    again = admin.post(f"/users/{eve['id']}/reset-password/").json()
    secrets = (eve["password"], again["password"], token["token"], admin.token)
    nouns = ("users", "bindings", "service-accounts", "tokens", "audit", "me")
    answers = [admin.get(f"/{noun}/") for noun in nouns]
    answers.append(Caller(token["token"] + "x", admin.organisation, "none").get("/pools/"))
    kept = str(list(AuditEntry.objects.values())) + str(list(ApiToken.objects.values()))
    texts = [
        *(one.content.decode() + str(dict(one.headers)) for one in answers),
        caplog.text,
        kept,
    ]
    for secret in secrets:
        assert [text for text in texts if secret in text] == []


def test_a_binding_is_removed_at_the_version_that_was_read(admin: Caller, actor: Actor) -> None:
    user = create_user(actor, username="mira", password="a long pass 1")
    binding = grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
    assert admin.delete(f"/bindings/{binding.pk}/", If_Match='"7"').status_code == 412
    assert admin.delete(f"/bindings/{binding.pk}/", If_Match='"1"').status_code == 204


def test_people_of_one_organisation_are_listed_to_who_reads_all_of_it(
    admin: Caller, make_caller: Callable[..., Caller], actor: Actor
) -> None:
    there = make_caller("viewer").organisation
    here = admin.organisation
    user = create_user(actor, username="mira", password="a long pass 1")
    for organisation in (here, there):
        grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
    listed = admin.get(f"/users/?organisation={here.pk}").json()["results"]
    assert [row["username"] for row in listed] == ["mira"]
    # of another's it doesn't tell whether somebody known has a role there
    response = admin.get(f"/users/?organisation={there.pk}")
    assert (response.status_code, list(response.json()["fields"])) == (400, ["organisation"])


def test_why_somebody_may_do_something_is_told_as_far_as_the_asker_reads(
    admin: Caller, make_caller: Callable[..., Caller], narrow: Caller, actor: Actor
) -> None:
    there = make_caller("viewer").organisation
    user = create_user(actor, username="mira", password="a long pass 1")
    held = grant_role(actor, subject=user, organisation=admin.organisation, role=Role.FINANCE)
    grant_role(actor, subject=user, organisation=there, role=Role.ADMIN)
    told = admin.get(f"/users/{user.pk}/permissions/").json()
    assert (told["username"], [one["id"] for one in told["bindings"]]) == ("mira", [held.pk])
    assert told["permissions"] == [
        {
            "noun": noun,
            "organisation_id": admin.organisation.pk,
            "team_id": None,
            "project_id": None,
            "role": "finance",
            "binding_id": held.pk,
        }
        for noun in (
            *("budgets", "corrections", "gpu_prices", "prices"),
            *("report_schedules", "reports", "repricings"),
        )
    ]
    for stranger in (narrow, make_caller("admin")):
        assert stranger.get(f"/users/{user.pk}/permissions/").status_code == 404


def test_people_and_prices_are_listed_in_the_order_of_their_pages(
    admin: Caller, actor: Actor
) -> None:
    for name in ("zoe", "amy"):
        user = create_user(actor, username=name, password="a long pass 1")
        grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
        admin.made("/models/", {"name": name})
        price = {"input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
        admin.made("/prices/", {"model": name, **price})
    for noun, field in (("users", "username"), ("prices", "model")):
        path = f"/{noun}/?ordering={field}"
        first = admin.get(f"{path}&page_size=1").json()
        second = admin.get(first["next"].partition("/api/v1")[2]).json()
        assert [one["results"][0][field] for one in (first, second)] == ["amy", "zoe"]
    assert admin.get("/service-accounts/?ordering=-name").status_code == 200
