"""Roles by place: what they reach, and what never happens to them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user
from django.db import IntegrityError, connection, transaction
from django.http import HttpRequest
from django.test import Client

from controlplane.errors import Conflict, Invalid
from controlplane.models import AuditEntry, Organisation, Project, Role, RoleBinding, Team, User
from controlplane.selectors.access import Access, get_access_of_user
from controlplane.selectors.keys import list_keys
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role, revoke_role
from controlplane.services.keys import create_key
from controlplane.services.organisations import create_organisation
from controlplane.services.projects import create_project, delete_project, update_project
from controlplane.services.teams import create_team, delete_team
from controlplane.services.users import (
    create_member,
    create_service_account,
    create_user,
    delete_service_account,
    reset_password,
    update_service_account,
    update_user,
)
from tests.controlplane.conftest import Caller

pytestmark = pytest.mark.slow

PASSWORD = "long enough 42"


@pytest.fixture
def home(db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


@pytest.fixture
def ann(home: Organisation, actor: Actor) -> User:
    return create_user(actor, username="ann", password=PASSWORD)


@pytest.fixture
def team(home: Organisation, actor: Actor) -> Team:
    return create_team(actor, organisation=home, name="Research")


@pytest.fixture
def project(home: Organisation, team: Team, actor: Actor) -> Project:
    return create_project(actor, organisation=home, team=team, name="Chat")


def holder(actor: Actor, user: User, home: Organisation, role: Role, **place: Any) -> Access:
    grant_role(actor, subject=user, organisation=home, role=role, **place)
    return get_access_of_user(user)


def settled(edit: Callable[[], Any]) -> None:
    """Do an edit and let the database say at once what it thinks of it."""
    with transaction.atomic(), connection.cursor() as cursor:
        edit()
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def remove_beside_the_services(team: Team) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM controlplane_team WHERE id = %s", [team.pk])


def test_a_role_reaches_down_from_organisation_to_team_to_project_and_never_up(
    actor: Actor, ann: User, home: Organisation, team: Team, project: Project
) -> None:
    default = home.projects.get(is_default=True)
    with transaction.atomic():
        wide = holder(actor, ann, home, Role.OPERATOR)
        assert wide.may_write("keys", home.pk, project_id=project.pk)
        assert wide.may_write("routes", home.pk)
        assert wide.reads_organisation(home.pk)
        transaction.set_rollback(True)
    with transaction.atomic():
        access = holder(actor, ann, home, Role.OPERATOR, team=team)
        assert access.may_write("keys", home.pk, project_id=project.pk)
        assert access.may_write("projects", home.pk, team_id=team.pk)
        assert not access.may_write("keys", home.pk, project_id=default.pk)
        assert not access.may_write("projects", home.pk)
        assert not access.may_write("routes", home.pk, project_id=project.pk)
        assert not access.reads_organisation(home.pk)
        assert list(list_teams(access)) == [team]
        assert list(list_projects(access)) == [project]
        transaction.set_rollback(True)
    access = holder(actor, ann, home, Role.OPERATOR, project=project)
    assert access.may_write("keys", home.pk, project_id=project.pk)
    assert not access.may_write("projects", home.pk, team_id=team.pk)
    assert not access.may_write("keys", home.pk)
    assert list(list_teams(access)) == []
    assert list(list_projects(access)) == [project]


def test_a_team_administers_only_the_roles_below_it(
    actor: Actor, ann: User, home: Organisation, team: Team, project: Project
) -> None:
    access = holder(actor, ann, home, Role.ADMIN, team=team)
    assert access.may_write("bindings", home.pk, team_id=team.pk)
    assert access.may_write("bindings", home.pk, project_id=project.pk)
    assert not access.may_write("bindings", home.pk)
    assert not access.may_write("users", home.pk, team_id=team.pk)
    assert not access.may_write("tokens", home.pk, team_id=team.pk)


def test_the_widest_role_is_told_as_the_reason(
    actor: Actor, ann: User, home: Organisation, team: Team, project: Project
) -> None:
    narrow = grant_role(actor, subject=ann, organisation=home, role=Role.OPERATOR, project=project)
    access = holder(actor, ann, home, Role.ADMIN, team=team)
    why = access.why("keys", home.pk, project_id=project.pk)
    assert why is not None
    assert (why.team_id, why.role) == (team.pk, Role.ADMIN)
    default = home.projects.get(is_default=True)
    assert access.why("keys", home.pk, project_id=default.pk) is None
    assert access.why("prices", home.pk) is None
    assert narrow.pk != why.binding_id


def test_access_is_had_by_one_query(
    actor: Actor, ann: User, home: Organisation, team: Team, django_assert_num_queries: Any
) -> None:
    grant_role(actor, subject=ann, organisation=home, role=Role.VIEWER)
    for number in range(5):
        create_project(actor, organisation=home, team=team, name=f"P{number}")
    grant_role(actor, subject=ann, organisation=home, role=Role.OPERATOR, team=team)
    with django_assert_num_queries(1):
        access = get_access_of_user(ann)
        assert len(access.project_ids()) == 5


@pytest.mark.parametrize("place", ["team", "project"])
def test_removing_a_place_takes_its_roles_away_and_widens_none(
    place: str, actor: Actor, ann: User, home: Organisation, team: Team
) -> None:
    row = team
    if place == "project":
        row = create_project(actor, organisation=home, team=team, name="Gone")  # type: ignore[assignment]
    binding = grant_role(actor, subject=ann, organisation=home, role=Role.ADMIN, **{place: row})
    if place == "team":
        delete_team(actor, team_id=row.pk)
    else:
        delete_project(actor, project_id=row.pk)
    assert not RoleBinding.objects.exists()
    assert not get_access_of_user(ann).sees_anything
    told = AuditEntry.objects.get(object_id=binding.pk, action="revoke")
    assert told.before is not None
    assert told.before[place] == row.pk


def test_a_binding_outlives_its_place_by_no_path_of_the_database(
    actor: Actor, ann: User, home: Organisation, team: Team
) -> None:
    grant_role(actor, subject=ann, organisation=home, role=Role.ADMIN, team=team)
    with pytest.raises(IntegrityError):
        settled(lambda: remove_beside_the_services(team))
    assert RoleBinding.objects.get().team_id == team.pk


def test_a_key_of_a_team_that_is_gone_is_reached_by_nobody_new(
    actor: Actor, ann: User, home: Organisation, team: Team, project: Project
) -> None:
    key = create_key(actor, organisation=home, name="app", project=project, routes=[]).key
    access = holder(actor, ann, home, Role.VIEWER, team=team)
    assert list(list_keys(access)) == [key]
    other = home.teams.get(name="Default")
    update_project(actor, project_id=project.pk, changes={"team": other})
    delete_team(actor, team_id=team.pk)
    assert list(list_keys(get_access_of_user(ann))) == []
    key.refresh_from_db()
    assert (key.is_restricted, key.routes.count()) == (True, 0)


@pytest.mark.parametrize(
    "broken",
    [
        lambda one: RoleBinding.objects.filter(pk=one["binding"].pk).update(project=one["project"]),
        lambda one: RoleBinding.objects.filter(pk=one["binding"].pk).update(team=one["foreign"]),
        lambda one: RoleBinding.objects.create(
            organisation=one["home"], user=one["ann"], role="viewer", team=one["team"]
        ),
    ],
    ids=["team and project", "a stranger's team", "the same twice"],
)
def test_the_database_refuses_a_binding_that_could_mean_two_things(
    broken: Callable[[dict[str, Any]], Any],
    actor: Actor,
    ann: User,
    home: Organisation,
    team: Team,
    project: Project,
) -> None:
    binding = grant_role(actor, subject=ann, organisation=home, role=Role.VIEWER, team=team)
    other = create_organisation(actor, name="Other")
    things = {
        "binding": binding,
        "home": home,
        "ann": ann,
        "team": team,
        "project": project,
        "foreign": other.teams.get(),
    }
    with pytest.raises(IntegrityError):
        settled(lambda: broken(things))


def test_an_organisation_wide_binding_is_unique_though_its_places_are_null(
    actor: Actor, ann: User, home: Organisation
) -> None:
    grant_role(actor, subject=ann, organisation=home, role=Role.VIEWER)
    with pytest.raises(IntegrityError), transaction.atomic():
        RoleBinding.objects.create(organisation=home, user=ann, role="viewer")


def test_a_place_of_another_organisation_is_unknown(
    actor: Actor, ann: User, home: Organisation, team: Team, project: Project
) -> None:
    other = create_organisation(actor, name="Other")
    with pytest.raises(Invalid) as raised:
        grant_role(actor, subject=ann, organisation=home, role=Role.VIEWER, team=other.teams.get())
    assert list(raised.value.fields) == ["team"]
    with pytest.raises(Invalid):
        grant_role(
            actor, subject=ann, organisation=home, role=Role.VIEWER, team=team, project=project
        )


def test_the_last_administrator_stays_unless_the_platform_says_so(
    actor: Actor, ann: User, home: Organisation, team: Team
) -> None:
    binding = grant_role(actor, subject=ann, organisation=home, role=Role.ADMIN)
    other = create_user(actor, username="bob", password=PASSWORD)
    grant_role(actor, subject=other, organisation=home, role=Role.ADMIN, team=team)
    with pytest.raises(Conflict):
        revoke_role(actor, binding_id=binding.pk)
    with pytest.raises(Conflict):
        update_user(actor, user_id=ann.pk, changes={"is_active": False})
    ann.refresh_from_db()
    assert ann.is_active
    second = grant_role(actor, subject=other, organisation=home, role=Role.ADMIN)
    revoke_role(actor, binding_id=binding.pk)
    revoke_role(actor, binding_id=second.pk, keep_admin=False)
    assert not home.role_bindings.filter(role="admin", team=None).exists()


def test_a_program_may_be_the_last_administrator_too(
    actor: Actor, ann: User, home: Organisation
) -> None:
    account = create_service_account(actor, organisation=home, name="ci")
    grant_role(actor, subject=account, organisation=home, role=Role.ADMIN)
    with pytest.raises(Conflict):
        update_service_account(actor, service_account_id=account.pk, changes={"is_enabled": False})
    with pytest.raises(Conflict):
        delete_service_account(actor, service_account_id=account.pk)
    update_service_account(actor, service_account_id=account.pk, changes={"name": "deploy"})
    grant_role(actor, subject=ann, organisation=home, role=Role.ADMIN)
    delete_service_account(actor, service_account_id=account.pk)
    assert list(home.role_bindings.values_list("user_id", flat=True)) == [ann.pk]


def test_the_last_administrator_of_the_platform_stays(db: None, actor: Actor) -> None:
    root = create_user(actor, username="root", password=PASSWORD, is_platform_admin=True)
    with pytest.raises(Conflict):
        update_user(actor, user_id=root.pk, changes={"is_active": False}, keep_admin=False)
    create_user(actor, username="second", password=PASSWORD, is_platform_admin=True)
    update_user(actor, user_id=root.pk, changes={"is_active": False})
    root.refresh_from_db()
    assert not root.is_active


def test_switching_a_person_off_ends_the_sessions_for_good_and_keeps_the_history(
    actor: Actor, ann: User, home: Organisation
) -> None:
    grant_role(actor, subject=ann, organisation=home, role=Role.VIEWER)
    client = Client()
    client.force_login(ann)
    assert client.get("/api/v1/me/").status_code == 200
    update_user(actor, user_id=ann.pk, changes={"is_active": False})
    assert client.get("/api/v1/me/").status_code == 401
    update_user(actor, user_id=ann.pk, changes={"is_active": True})
    assert client.get("/api/v1/me/").status_code == 401
    request = HttpRequest()
    request.session = client.session
    assert not get_user(request).is_authenticated
    actions = AuditEntry.objects.filter(noun="users", object_id=str(ann.pk)).order_by("id")
    assert list(actions.values_list("action", flat=True)) == ["create", "update", "update"]
    assert home.role_bindings.get().user_id == ann.pk


def test_a_password_of_our_making_opens_nothing_but_the_page_to_change_it(
    actor: Actor, home: Organisation, collected_files: None
) -> None:
    made = create_member(actor, organisation=home, role=Role.ADMIN, username="eve")
    client = Client()
    assert client.login(username="eve", password=made.password)
    assert client.get("/api/v1/pools/").status_code == 403
    assert client.get("/api/v1/me/").json()["must_change_password"] is True
    assert client.get("/requests/")["Location"] == "/me/password/"
    same = {"current": made.password, "new": made.password, "again": made.password}
    assert client.post("/me/password/", same).status_code == 422
    answer = client.post("/me/password/", {**same, "new": PASSWORD, "again": PASSWORD})
    assert answer.status_code == 302
    assert client.get("/api/v1/pools/").status_code == 200
    again = reset_password(actor, user_id=made.user.pk)
    assert client.get("/api/v1/pools/").status_code == 401
    assert again.password not in repr(again)


def test_a_role_taken_away_is_gone_at_the_next_request(
    actor: Actor, make_caller: Callable[..., Caller]
) -> None:
    caller = make_caller("operator")
    assert caller.get("/pools/").status_code == 200
    binding = caller.organisation.role_bindings.get()
    revoke_role(actor, binding_id=binding.pk)
    assert caller.get("/pools/").status_code == 403
