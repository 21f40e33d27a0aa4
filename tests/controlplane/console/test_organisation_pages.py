"""Organisations, teams and projects: the tree, and what each role may change in it."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Organisation, Project, Role, Team
from controlplane.services.actors import Actor
from controlplane.services.projects import create_project
from controlplane.services.teams import create_team
from controlplane.services.users import create_user, grant_role
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.flows import Flow, words_of

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


@pytest.fixture
def team(admin: Reader, actor: Actor) -> Team:
    return create_team(actor, organisation=admin.organisation, name="Support")


def test_the_tree_shows_teams_their_projects_and_keys(
    admin: Reader, team: Team, actor: Actor
) -> None:
    create_project(actor, organisation=admin.organisation, team=team, name="answer-cards")
    words = words_of(admin.page(f"/organisations/{admin.organisation.pk}/"))
    assert "Default team, 1 project" in words
    assert "Support team, 1 project" in words
    assert "answer-cards 0 keys" in words
    assert "Org of ada On UTC 2 2" in words_of(admin.page("/organisations/"))


def test_a_bigger_tree_takes_no_more_queries(admin: Reader, team: Team, actor: Actor) -> None:
    paths = (f"/organisations/{admin.organisation.pk}/", "/teams/", "/projects/")
    with CaptureQueriesContext(connection) as few:
        for path in paths:
            admin.page(path)
    for number in range(5):
        other = create_team(actor, organisation=admin.organisation, name=f"t{number}")
        create_project(actor, organisation=admin.organisation, team=other, name=f"p{number}")
    with CaptureQueriesContext(connection) as many:
        for path in paths:
            admin.page(path)
    assert len(many) == len(few)


def test_teams_and_projects_are_made_changed_and_removed(admin: Reader, actor: Actor) -> None:
    flow = Flow(admin.client, "/teams/new/")
    flow.send("save", name="Support")
    team = Team.objects.get(name="Support")
    assert flow.response.headers["Location"] == f"/teams/{team.pk}/?applied=0"
    words = words_of(admin.page(f"/teams/{team.pk}/?applied=0"))
    assert "No gateway reads this, so there is nothing to apply." in words
    flow = Flow(admin.client, f"/projects/new/?team={team.pk}")
    flow.send("save", name="answer-cards", team=team.pk)
    project = Project.objects.get(name="answer-cards")
    default = admin.organisation.teams.get(name="Default")
    flow = Flow(admin.client, f"/projects/{project.pk}/edit/")
    flow.send("review", team=default.pk)
    assert "Team Support Default" in flow.words
    flow.send("save", reason="reorganised")
    project.refresh_from_db()
    assert project.team_id == default.pk
    flow = Flow(admin.client, f"/teams/{team.pk}/delete/")
    flow.send("save", confirm="Support", reason="empty")
    assert not Team.objects.filter(pk=team.pk).exists()


def test_what_is_in_use_is_not_offered_for_removal(admin: Reader) -> None:
    default = admin.organisation.teams.get()
    page = admin.page(f"/teams/{default.pk}/delete/")
    assert "Team Default is used by projects: Default." in words_of(page)
    assert 'value="save"' not in page


def test_a_role_in_a_team_reaches_its_projects_and_no_further(
    admin: Reader, team: Team, actor: Actor
) -> None:
    mine = create_project(actor, organisation=admin.organisation, team=team, name="mine")
    other = admin.organisation.projects.get(name="Default")
    user = create_user(actor, username="tim", password=PASSWORD)
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.OPERATOR, team=team)
    admin.client.force_login(user)
    assert admin.get(f"/projects/{mine.pk}/edit/").status_code == 200
    assert admin.get(f"/projects/new/?team={team.pk}").status_code == 200
    assert admin.get("/teams/new/").status_code == 403
    assert admin.get(f"/projects/{other.pk}/").status_code == 404
    assert "Default team" not in words_of(admin.page(f"/organisations/{admin.organisation.pk}/"))


def test_an_operator_of_a_team_makes_projects_in_it_and_in_no_other(
    admin: Reader, team: Team, actor: Actor
) -> None:
    home = admin.organisation
    default = home.teams.get(name="Default")
    user = create_user(actor, username="tim", password=PASSWORD)
    grant_role(actor, subject=user, organisation=home, role=Role.OPERATOR, team=team)
    admin.client.force_login(user)
    flow = Flow(admin.client, "/projects/new/")
    assert default.pk not in flow.page
    refused = flow.send("save", name="theirs", team=default.pk)
    assert refused.status_code == 403
    flow = Flow(admin.client, "/projects/new/")
    flow.send("save", name="mine", team="")
    assert "This field is required." in flow.words
    flow.send("save", name="mine", team=team.pk)
    assert Project.objects.get(name="mine").team == team
    assert not Project.objects.filter(name="theirs").exists()
    within = create_user(actor, username="pia", password=PASSWORD)
    mine = Project.objects.get(name="mine")
    grant_role(actor, subject=within, organisation=home, role=Role.OPERATOR, project=mine)
    admin.client.force_login(within)
    assert admin.get("/projects/new/").status_code == 403


def test_only_the_platforms_administrators_make_organisations(admin: Reader, actor: Actor) -> None:
    refused = admin.get("/organisations/new/")
    assert refused.status_code == 403
    root = create_user(actor, username="root", password=PASSWORD, is_platform_admin=True)
    admin.client.force_login(root)
    flow = Flow(admin.client, "/organisations/new/")
    flow.send("save", name="Vesterport", time_zone="Europe/Copenhagen")
    made = Organisation.objects.get(name="Vesterport")
    assert made.time_zone == "Europe/Copenhagen"
    page = admin.client.get(f"/organisations/{made.pk}/edit/", follow=True)
    assert page.status_code == 200


def test_a_shared_address_opens_in_its_own_organisation(
    admin: Reader, make_reader: Callable[..., Reader], team: Team, actor: Actor
) -> None:
    second = make_reader("sonja", Role.ADMIN)
    user = create_user(actor, username="both", password=PASSWORD)
    for organisation in (admin.organisation, second.organisation):
        grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
    admin.client.force_login(user)
    admin.page(f"/teams/?organisation={second.organisation.pk}")
    moved = admin.get(f"/teams/{team.pk}/?tab=activity")
    assert moved.status_code == 302
    assert admin.organisation.pk in moved.headers["Location"]
    assert "Support" in admin.page(moved.headers["Location"])
