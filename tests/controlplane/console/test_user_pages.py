"""The pages of people, roles, programs, tokens and of oneself."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from controlplane.models import ApiToken, AuditEntry, Role, RoleBinding, ServiceAccount, User
from controlplane.services.actors import Actor
from controlplane.services.projects import create_project
from controlplane.services.teams import create_team
from controlplane.services.users import (
    create_member,
    create_service_account,
    create_user,
    grant_role,
    issue_token,
)
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.test_request_pages import rows_of, words_of

pytestmark = pytest.mark.slow


NEW_PASSWORD = "another-long-passphrase-7"


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


def hidden_of(page: str) -> dict[str, str]:
    """What a page carries to its next step."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def submit(reader: Reader, path: str, **values: str) -> HttpResponse:
    """Fill in the form of a page and send it."""
    page = reader.page(path)
    return reader.client.post(path.partition("?")[0], {**hidden_of(page), **values})


def confirm(reader: Reader, path: str, reviewed: HttpResponse, **values: str) -> HttpResponse:
    """Save what a review shows."""
    page = reviewed.content.decode()
    assert reviewed.status_code == 200, page[:300]
    told = {"step": "save", "reason": "because", **values}
    return reader.client.post(path.partition("?")[0], {**hidden_of(page), **told})


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200, response.content[:300]
    found = re.search(r'id="text"[^>]*>([^<]+)<', response.content.decode())
    assert found is not None
    return unescape(found[1])


def member(actor: Actor, reader: Reader, name: str, role: Role = Role.VIEWER) -> User:
    return create_member(actor, organisation=reader.organisation, role=role, username=name).user


def test_people_are_listed_with_their_roles_and_where_each_is_held(
    admin: Reader, actor: Actor
) -> None:
    team = create_team(actor, organisation=admin.organisation, name="search")
    user = create_user(actor, username="tess", password=PASSWORD)
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.OPERATOR, team=team)
    first, second = rows_of(admin.page("/users/"))
    assert first.startswith("ada - admin in the whole organisation ")
    assert second == "tess - operator in team search never active"


def test_the_matrix_is_what_access_itself_answers(admin: Reader) -> None:
    page = admin.page("/users/").partition('id="matrix"')[2]
    rows = [words_of(row) for row in page.partition("<tbody>")[2].split("</tr>") if "<td" in row]
    assert "Prices no no in organisation in organisation" in rows
    assert "Keys no in organisation, team, project no in organisation, team, project" in rows
    assert "Roles of others no no no in organisation, team, project" in rows
    assert "Users no no no in organisation" in rows


def test_more_people_take_no_more_queries(
    admin: Reader, actor: Actor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    member(actor, admin, "one")
    admin.page("/users/")
    with django_assert_num_queries(7):
        admin.page("/users/")
    for number in range(6):
        member(actor, admin, f"more{number}")
    with django_assert_num_queries(7):
        admin.page("/users/")


def test_a_person_is_made_with_a_password_shown_once_and_must_change_it(admin: Reader) -> None:
    filled = {
        "username": "nora", "email": "nora@example.org", "role": "viewer", "place": "organisation",
    }  # fmt: skip
    reviewed = submit(admin, "/users/new/", step="review", **filled)
    assert not User.objects.filter(username="nora").exists()
    made = confirm(admin, "/users/new/", reviewed)
    password = text_of(made)
    user = User.objects.get(username="nora")
    assert password not in admin.page(f"/users/{user.pk}/")
    assert password not in str(list(AuditEntry.objects.values()))
    client = Client()
    login = {"login": "nora", "password": password}
    assert client.post("/accounts/login/", login).status_code == 302
    assert client.get("/usage/")["Location"] == "/me/password/"
    changed = {"current": password, "new": NEW_PASSWORD, "again": NEW_PASSWORD}
    assert client.post("/me/password/", changed)["Location"] == "/me/"
    assert client.get("/usage/").status_code == 200


def test_a_person_is_switched_off_and_on_again_and_history_stays(
    admin: Reader, actor: Actor
) -> None:
    user = create_user(actor, username="tess", password=PASSWORD)
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
    theirs = Client()
    theirs.force_login(user)
    path = f"/users/{user.pk}/deactivate/"
    assert "all sessions and the password" in admin.page(path)
    assert admin.client.post(path, hidden_of(admin.page(path))).status_code == 200
    assert User.objects.get(pk=user.pk).is_active
    assert submit(admin, path, step="save", reason="left us").status_code == 302
    assert not User.objects.get(pk=user.pk).is_active
    assert theirs.get("/usage/").status_code == 302
    assert "switched off" in words_of(admin.page("/users/"))
    back = f"/users/{user.pk}/activate/"
    assert submit(admin, back, step="save", reason="came back").status_code == 302
    assert User.objects.get(pk=user.pk).is_active
    entry = AuditEntry.objects.filter(noun="users", object_id=str(user.pk)).latest("pk")
    assert (entry.reason, entry.actor_label) == ("came back", "ada")


def test_a_password_reset_needs_a_reason_and_shows_the_new_one_once(
    admin: Reader, actor: Actor
) -> None:
    user = member(actor, admin, "tess")
    path = f"/users/{user.pk}/password/"
    refused = submit(admin, path, step="save")
    assert b"Give a reason" in refused.content
    password = text_of(submit(admin, path, step="save", reason="forgot it"))
    assert User.objects.get(pk=user.pk).check_password(password)


def test_a_role_is_granted_in_a_team_by_review_and_revoked_again(
    admin: Reader, actor: Actor
) -> None:
    team = create_team(actor, organisation=admin.organisation, name="search")
    user = member(actor, admin, "tess")
    path = f"/users/bindings/new/?subject=user:{user.pk}"
    filled = {"subject": f"user:{user.pk}", "role": "operator", "place": f"team:{team.pk}"}
    reviewed = submit(admin, path, step="review", **filled)
    assert "search" in words_of(reviewed.content.decode())
    assert RoleBinding.objects.filter(user=user).count() == 1
    granted = confirm(admin, path, reviewed)
    assert granted["Location"].startswith(f"/users/{user.pk}/")
    binding = RoleBinding.objects.get(user=user, team=team)
    assert binding.role == "operator"
    assert "operator team search its projects" in words_of(admin.page(f"/users/{user.pk}/"))
    gone = f"/users/bindings/{binding.pk}/delete/"
    assert submit(admin, gone, step="save", reason="moved on").status_code == 302
    assert not RoleBinding.objects.filter(pk=binding.pk).exists()


def test_an_administrator_of_a_team_names_whom_to_give_a_role_and_is_told_of_nobody(
    admin: Reader, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    home = admin.organisation
    team = create_team(actor, organisation=home, name="search")
    tess = member(actor, admin, "tess")
    member(actor, make_reader("boss", Role.ADMIN), "theirs")
    user = create_user(actor, username="tom", password=PASSWORD)
    grant_role(actor, subject=user, organisation=home, role=Role.ADMIN, team=team)
    admin.client.force_login(user)
    path = "/users/bindings/new/"
    page = admin.page(path)
    assert re.search(r'<input type="text" name="subject"', page)
    assert "tess" not in page
    told = {"step": "review", "role": "operator", "place": f"team:{team.pk}"}
    for name in ("nobody", "theirs", f"user:{tess.pk}", "tes"):
        refused = submit(admin, path, subject=name, **told).content.decode()
        assert "There is none of this name here." in refused
    reviewed = submit(admin, path, subject="tess", **told)
    assert re.search(r"User name .{0,12}tess", words_of(reviewed.content.decode()))
    assert "stays valid" not in reviewed.content.decode()
    assert confirm(admin, path, reviewed).status_code == 302
    assert RoleBinding.objects.get(user=tess, team=team).role == "operator"


def test_an_organisation_keeps_its_last_administrator(admin: Reader) -> None:
    binding = RoleBinding.objects.get(organisation=admin.organisation)
    path = f"/users/bindings/{binding.pk}/delete/"
    response = submit(admin, path, step="save", reason="why not")
    assert b"would have no administrator left" in response.content
    assert RoleBinding.objects.filter(pk=binding.pk).exists()


def test_why_somebody_may_do_something_is_told_by_the_role_that_lets_them(
    admin: Reader, actor: Actor
) -> None:
    team = create_team(actor, organisation=admin.organisation, name="search")
    project = create_project(actor, organisation=admin.organisation, team=team, name="index")
    user = create_user(actor, username="tess", password=PASSWORD)
    home = {"subject": user, "organisation": admin.organisation}
    grant_role(actor, role=Role.FINANCE, **home)
    grant_role(actor, role=Role.OPERATOR, team=team, **home)
    whole = rows_of(admin.page(f"/users/{user.pk}/?tab=may"))
    assert "Prices yes finance in the whole organisation" in whole
    assert "Keys no no role allows it" in whole
    path = f"/users/{user.pk}/?tab=may&place=project:{project.pk}"
    assert "Keys yes operator in team search" in rows_of(admin.page(path))
    assert admin.get(f"/users/{user.pk}/?tab=may&place=project:proj_none").status_code == 404


def test_a_program_gets_a_token_shown_once_that_works_until_it_is_revoked(
    admin: Reader,
) -> None:
    made = submit(admin, "/users/service-accounts/new/", step="save", name="deployer")
    account = ServiceAccount.objects.get(name="deployer")
    path = f"/users/service-accounts/{account.pk}/"
    assert made["Location"].startswith(path)
    assert "None: the program cannot call the API yet." in admin.page(path)
    token = text_of(submit(admin, f"{path}tokens/new/", expires_at=""))
    assert token not in admin.page(path)
    call = {"authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/me/", headers=call).status_code == 200
    row = ApiToken.objects.get(service_account=account)
    revoke = f"{path}tokens/{row.pk}/revoke/"
    assert b"Give a reason" in submit(admin, revoke, step="save").content
    assert submit(admin, revoke, step="save", reason="leaked").status_code == 302
    assert Client().get("/api/v1/me/", headers=call).status_code == 401
    past = submit(admin, f"{path}tokens/new/", expires_at="2020-01-01T00:00")
    assert b"This time is past." in past.content


def test_a_program_is_switched_off_and_removed(admin: Reader, actor: Actor) -> None:
    account = create_service_account(actor, organisation=admin.organisation, name="deployer")
    token = issue_token(actor, service_account=account).text
    path = f"/users/service-accounts/{account.pk}/"
    off = submit(admin, f"{path}disable/", step="save", reason="not needed")
    assert off.status_code == 302
    call = {"authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/me/", headers=call).status_code == 401
    gone = submit(admin, f"{path}delete/", step="save", reason="not needed", confirm="deployer")
    assert gone.status_code == 302
    assert not ServiceAccount.objects.exists()


PAGES = (
    "/users/",
    "/users/new/",
    "/users/bindings/new/",
    "/users/service-accounts/",
    "/users/service-accounts/new/",
)


def test_a_viewer_sees_people_and_may_change_nothing(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    viewer = make_reader("vera")
    other = member(actor, viewer, "tess")
    assert "tess" in viewer.page("/users/")
    page = viewer.page(f"/users/{other.pk}/")
    for word in ("Deactivate", "Reset password", "Grant a role", 'aria-label="Revoke'):
        assert word not in page
    own = f"/users/{other.pk}/"
    for path in (*PAGES[1:3], PAGES[4], f"{own}edit/", f"{own}deactivate/", f"{own}password/"):
        assert viewer.get(path).status_code == 403, path


def test_a_role_in_a_team_sees_no_people(reader: Reader, actor: Actor) -> None:
    team = create_team(actor, organisation=reader.organisation, name="search")
    user = create_user(actor, username="tess", password=PASSWORD)
    grant_role(actor, subject=user, organisation=reader.organisation, role=Role.ADMIN, team=team)
    client = Client()
    client.force_login(user)
    assert client.get("/users/").status_code == 403
    assert client.get("/users/service-accounts/").status_code == 403


def test_people_and_programs_of_others_are_not_there(
    admin: Reader, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    stranger = make_reader("stranger", Role.ADMIN)
    theirs = member(actor, stranger, "theirs")
    account = create_service_account(actor, organisation=stranger.organisation, name="x")
    binding = RoleBinding.objects.get(user=theirs)
    assert "theirs" not in admin.page("/users/")
    own, program = f"/users/{theirs.pk}/", f"/users/service-accounts/{account.pk}/"
    for path in (
        *(own, f"{own}edit/", f"{own}deactivate/", f"{own}password/"),
        *(program, f"{program}edit/", f"{program}delete/", f"{program}tokens/new/"),
        f"/users/bindings/{binding.pk}/delete/",
        "/users/none/",
        "/users/99999999999/",
    ):
        assert admin.get(path).status_code == 404, path


def test_an_account_that_others_share_is_not_one_administrators_to_reset(
    admin: Reader, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    elsewhere = make_reader("boss", Role.ADMIN)
    shared = member(actor, elsewhere, "shared")
    grant_role(actor, subject=shared, organisation=admin.organisation, role=Role.VIEWER)
    assert "shared" in admin.page("/users/")
    response = admin.get(f"/users/{shared.pk}/password/")
    assert response.status_code == 403


def test_me_tells_roles_with_their_origin(admin: Reader, actor: Actor) -> None:
    page = words_of(admin.page("/me/"))
    assert "admin the whole organisation all teams, projects and keys Org of ada" in page
    nobody = Client()
    nobody.force_login(create_user(actor, username="nobody", password=PASSWORD))
    assert b"No role yet" in nobody.get("/me/").content


def test_a_password_change_keeps_this_session_and_ends_the_others(
    admin: Reader,
) -> None:
    other = Client()
    other.force_login(User.objects.get(username="ada"))
    wrong = {"current": "wrong", "new": NEW_PASSWORD, "again": NEW_PASSWORD}
    assert b"This is not your password." in admin.client.post("/me/password/", wrong).content
    differs = {"current": PASSWORD, "new": NEW_PASSWORD, "again": "x"}
    assert b"The two are not the same." in admin.client.post("/me/password/", differs).content
    weak = {"current": PASSWORD, "new": "short", "again": "short"}
    assert b"too short" in admin.client.post("/me/password/", weak).content
    right = {"current": PASSWORD, "new": NEW_PASSWORD, "again": NEW_PASSWORD}
    assert admin.client.post("/me/password/", right)["Location"] == "/me/"
    assert admin.get("/me/").status_code == 200
    assert other.get("/me/").status_code == 302


def test_other_sessions_end_without_a_new_password(admin: Reader) -> None:
    other = Client()
    other.force_login(User.objects.get(username="ada"))
    assert other.get("/me/").status_code == 200
    assert admin.client.post("/me/sessions/", {"current": PASSWORD})["Location"] == "/me/"
    assert admin.get("/me/").status_code == 200
    assert other.get("/me/").status_code == 302
    assert User.objects.get(username="ada").check_password(PASSWORD)


def test_no_password_is_reset_by_mail_that_nobody_sends(reader: Reader) -> None:
    for path in ("/accounts/password/reset/", "/accounts/password/reset/done/"):
        assert b"No mail is sent from here" in Client().get(path).content
    assert Client().post("/accounts/password/reset/", {"email": "a@b.example"}).status_code == 405
    assert reader.get("/accounts/password/change/")["Location"] == "/me/password/"
    assert b"Forgotten password" in Client().get("/accounts/login/").content
