"""Roles in one team or project by REST: what they show, what they let write, what they grant."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.models import Organisation, Project, Role, Team, UsageMinute
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.projects import create_project
from controlplane.services.teams import create_team
from controlplane.services.users import create_service_account, create_user, issue_token
from tests.controlplane.conftest import POOL, Caller

pytestmark = pytest.mark.slow

ORGANISATION_WIDE = ("audit", "snapshots", "users", "service-accounts", "tokens")
SHARED = ("organisations", "models", "prices", "pools", "routes")


@pytest.fixture
def team(actor: Actor, organisation: Organisation) -> Team:
    return create_team(actor, organisation=organisation, name="Research")


@pytest.fixture
def project(actor: Actor, organisation: Organisation, team: Team) -> Project:
    return create_project(actor, organisation=organisation, team=team, name="Chat")


@pytest.fixture
def scoped(actor: Actor, organisation: Organisation) -> Callable[..., Caller]:
    """A caller with one role in a team or project of the organisation."""

    def make(role: Role, **place: Any) -> Caller:
        name = f"{role} {' '.join(one.name for one in place.values())}"
        account = create_service_account(actor, organisation=organisation, name=name)
        grant_role(actor, subject=account, organisation=organisation, role=role, **place)
        return Caller(issue_token(actor, service_account=account).text, organisation, role.value)

    return make


def names(caller: Caller, noun: str) -> list[str]:
    return sorted(row["name"] for row in caller.get(f"/{noun}/").json()["results"])


def test_a_projects_operator_makes_and_rotates_keys_of_that_project_alone(
    admin: Caller, project: Project, scoped: Callable[..., Caller]
) -> None:
    theirs = admin.made("/keys/", {"name": "theirs"})
    caller = scoped(Role.OPERATOR, project=project)
    key = caller.made("/keys/", {"name": "ours", "project": "Chat"})
    assert key["project_id"] == project.pk
    rotated = caller.post(f"/keys/{key['id']}/rotate/", {"overlap_s": 0})
    assert rotated.status_code == 200
    assert caller.patch(f"/keys/{key['id']}/", {"is_enabled": False}).status_code == 200
    assert names(caller, "keys") == ["ours"]
    assert caller.get(f"/keys/{theirs['id']}/").status_code == 404
    assert caller.post(f"/keys/{theirs['id']}/revoke/").status_code == 404
    refused = [
        caller.post("/keys/", {"name": "new"}),
        caller.post("/keys/", {"name": "new", "project": "Default"}),
        caller.post("/keys/", {"name": "new", "project": "none such"}),
    ]
    assert [one.status_code for one in refused] == [403, 403, 403]
    assert caller.post(f"/keys/{key['id']}/revoke/").status_code == 200


def test_a_teams_operator_keeps_its_projects_and_no_others(
    admin: Caller, team: Team, project: Project, scoped: Callable[..., Caller]
) -> None:
    caller = scoped(Role.OPERATOR, team=team)
    made = caller.made("/projects/", {"name": "Search", "team": "Research"})
    assert names(caller, "projects") == ["Chat", "Search"]
    assert names(caller, "teams") == ["Research"]
    assert caller.patch(f"/projects/{made['id']}/", {"name": "Find"}).status_code == 200
    assert caller.delete(f"/projects/{made['id']}/").status_code == 204
    assert caller.patch(f"/teams/{team.pk}/", {"name": "Lab"}).status_code == 200
    assert caller.post("/projects/", {"name": "x", "team": "Default"}).status_code == 403
    assert caller.post("/teams/", {"name": "x"}).status_code == 403
    assert caller.delete(f"/teams/{team.pk}/").status_code == 403
    away = caller.patch(f"/projects/{project.pk}/", {"team": "Default"})
    assert away.json()["fields"] == {"team": ["There is none of this name or id."]}
    same = caller.patch(f"/projects/{project.pk}/", {"team": "Lab"})
    assert same.status_code == 200


def test_a_projects_operator_neither_moves_nor_removes_the_project(
    project: Project, scoped: Callable[..., Caller]
) -> None:
    caller = scoped(Role.OPERATOR, project=project)
    path = f"/projects/{project.pk}/"
    assert caller.patch(path, {"name": "Talk"}).status_code == 200
    assert caller.patch(path, {"team": "Default"}).status_code == 403
    assert caller.delete(path).status_code == 403


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_a_role_of_a_part_reads_what_is_shared_and_nothing_of_the_whole(
    role: Role, admin: Caller, pool: Any, project: Project, scoped: Callable[..., Caller]
) -> None:
    caller = scoped(role, project=project)
    for noun in SHARED:
        assert caller.get(f"/{noun}/").status_code == 200
    assert names(caller, "pools") == ["mine"]
    for noun in ORGANISATION_WIDE:
        answer = caller.get(f"/{noun}/")
        assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert caller.get(f"/service-accounts/{_any_account(admin)}/").status_code == 404
    assert caller.post("/pools/", {**POOL, "name": "new"}).status_code == 403
    assert caller.get("/teams/").json()["results"] == []


def _any_account(admin: Caller) -> str:
    account = admin.organisation.service_accounts.first()
    assert account is not None
    return account.pk


def test_usage_of_a_part_is_what_its_own_projects_used(
    admin: Caller, project: Project, scoped: Callable[..., Caller]
) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    default = admin.organisation.projects.get(is_default=True)
    for number, one in ((3, project), (5, default)):
        UsageMinute.objects.create(
            organisation_id=admin.organisation.pk,
            minute=now,
            route_id="rt",
            pool_id="pool",
            model_id="mdl",
            project_id=one.pk,
            requests=number,
        )
    caller = scoped(Role.VIEWER, project=project)

    def requests(who: Caller) -> int:
        rows = who.get("/usage/?bucket=hour&group_by=route").json()["results"]
        return sum(int(row["requests"]) for row in rows)

    assert (requests(admin), requests(caller)) == (8, 3)


def test_nobody_grants_more_than_his_own_role_reaches(
    actor: Actor,
    admin: Caller,
    team: Team,
    project: Project,
    scoped: Callable[..., Caller],
    make_caller: Callable[..., Caller],
) -> None:
    bob = create_user(actor, username="bob", password="a long pass 1")
    grant_role(
        actor, subject=bob, organisation=admin.organisation, role=Role.VIEWER, project=project
    )
    caller = scoped(Role.ADMIN, team=team)
    bound = caller.made("/bindings/", {"user": "bob", "role": "admin", "project": "Chat"})
    assert (bound["project_id"], bound["user_id"]) == (project.pk, bob.pk)
    wider = [
        {"user": "bob", "role": "viewer"},
        {"user": "bob", "role": "admin", "team": "Default"},
        {"user": "bob", "role": "admin", "project": "Default"},
    ]
    assert [caller.post("/bindings/", one).status_code for one in wider] == [403, 403, 403]
    wide = admin.made("/bindings/", {"user": "bob", "role": "finance"})
    assert caller.delete(f"/bindings/{wide['id']}/").status_code == 404
    assert caller.delete(f"/bindings/{bound['id']}/").status_code == 204
    for role in ("viewer", "operator", "finance"):
        other = make_caller(role, admin.organisation)
        assert other.post("/bindings/", wider[0]).status_code == 403
        assert other.delete(f"/bindings/{wide['id']}/").status_code == 403
        account = {"name": "x"}
        assert other.post("/service-accounts/", account).status_code == 403
        token = {"service_account": admin.organisation.service_accounts.first().name}  # type: ignore[union-attr]
        assert other.post("/tokens/", token).status_code == 403
    operator = scoped(Role.OPERATOR, team=team)
    again = {"user": "bob", "role": "viewer", "project": "Chat"}
    assert operator.post("/bindings/", again).status_code == 403


def test_a_stranger_cannot_be_bound_by_name(actor: Actor, admin: Caller) -> None:
    create_user(actor, username="stranger", password="a long pass 1")
    answer = admin.post("/bindings/", {"user": "stranger", "role": "viewer"})
    assert answer.json()["fields"] == {"user": ["There is none of this name or id."]}
