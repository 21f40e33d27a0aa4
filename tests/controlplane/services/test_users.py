"""People, programs, roles and tokens."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from controlplane.errors import Invalid, NotFound
from controlplane.models import ApiToken, AuditEntry, Role, RoleBinding
from controlplane.selectors.access import get_access_of_service_account, get_access_of_user
from controlplane.selectors.tokens import get_service_account_of_token
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role, revoke_role
from controlplane.services.organisations import create_organisation
from controlplane.services.users import (
    create_service_account,
    create_user,
    issue_token,
    revoke_token,
)
from inference.contract.sealing import token_digest

PASSWORD = "long enough 42"


def test_a_person_signs_in_by_name_or_by_mail_and_nobody_signs_up(
    db: None, actor: Actor, collected_files: None
) -> None:
    create_user(actor, username="ann", email="ann@example.com", password=PASSWORD)
    for login in ("ann", "ann@example.com"):
        client = Client()
        answer = client.post("/accounts/login/", {"login": login, "password": PASSWORD})
        assert answer.status_code == 302
        assert client.session["_auth_user_id"]
    wrong = Client().post("/accounts/login/", {"login": "ann", "password": "wrong"})
    assert wrong.status_code == 200
    form = {"username": "eve", "email": "e@x.org", "password1": PASSWORD, "password2": PASSWORD}
    Client().post("/accounts/signup/", form)
    with pytest.raises(AssertionError):
        assert Client().login(username="eve", password=PASSWORD)


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"username": "ann", "password": "short"}, "password"),
        ({"username": "ann", "password": "12345678901"}, "password"),
        ({"username": "a b", "password": PASSWORD}, "username"),
        ({"username": "", "password": PASSWORD}, "username"),
        ({"username": "ann", "password": PASSWORD, "email": "nowhere"}, "email"),
        ({"username": "TAKEN", "password": PASSWORD}, "username"),
        ({"username": "ann", "password": PASSWORD, "email": "Taken@example.com"}, "email"),
    ],
)
def test_what_a_person_cannot_be_is_told_at_its_field(
    told: dict[str, str], field: str, db: None, actor: Actor
) -> None:
    create_user(actor, username="taken", email="taken@example.com", password=PASSWORD)
    with pytest.raises(Invalid) as caught:
        create_user(actor, **told)
    assert list(caught.value.fields) == [field]


def test_the_password_is_in_no_audit_row(db: None, actor: Actor) -> None:
    user = create_user(actor, username="ann", password=PASSWORD)
    rows = str(list(AuditEntry.objects.values()))
    assert PASSWORD not in rows
    assert user.password not in rows


def test_roles_are_granted_once_and_taken_away(db: None, actor: Actor) -> None:
    home = create_organisation(actor, name="Home")
    user = create_user(actor, username="ann", password=PASSWORD)
    binding = grant_role(actor, subject=user, organisation=home, role=Role.OPERATOR)
    assert grant_role(actor, subject=user, organisation=home, role=Role.OPERATOR) == binding
    access = get_access_of_user(user)
    assert access.may_write("pools", home.pk)
    assert not access.may_write("prices", home.pk)
    revoke_role(actor, binding_id=binding.pk)
    assert not get_access_of_user(user).sees_anything
    with pytest.raises(NotFound):
        revoke_role(actor, binding_id=binding.pk)
    actions = AuditEntry.objects.filter(noun="role_bindings").order_by("id")
    assert list(actions.values_list("action", flat=True)) == ["grant", "revoke"]


def test_a_person_who_was_switched_off_sees_nothing(db: None, actor: Actor) -> None:
    user = create_user(actor, username="root", password=PASSWORD, is_platform_admin=True)
    assert get_access_of_user(user).sees_anything
    user.is_active = False
    assert not get_access_of_user(user).sees_anything


def test_a_program_has_roles_in_its_own_organisation_only(db: None, actor: Actor) -> None:
    home, other = (create_organisation(actor, name=name) for name in ("Home", "Other"))
    account = create_service_account(actor, organisation=home, name="ci")
    with pytest.raises(Invalid):
        grant_role(actor, subject=account, organisation=other, role=Role.ADMIN)
    assert RoleBinding.objects.count() == 0
    assert not get_access_of_service_account(account).sees_anything


def test_a_token_is_kept_as_a_peppered_digest(db: None, actor: Actor) -> None:
    home = create_organisation(actor, name="Home")
    account = create_service_account(actor, organisation=home, name="ci")
    issued = issue_token(actor, service_account=account)
    assert issued.token.digest == token_digest(settings.HEADWORKS.peppers[1], issued.text)
    assert issued.text not in repr(issued)
    assert get_service_account_of_token(issued.text) == account
    revoke_token(actor, token_id=issued.token.pk)
    revoked_at = ApiToken.objects.get().revoked_at
    assert revoke_token(actor, token_id=issued.token.pk).revoked_at == revoked_at
    assert get_service_account_of_token(issued.text) is None


def test_a_token_made_with_an_older_pepper_is_still_good(
    db: None, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_organisation(actor, name="Home")
    account = create_service_account(actor, organisation=home, name="ci")
    old = issue_token(actor, service_account=account).text
    key = settings.HEADWORKS.data_key.get_secret_value()
    peppers = f"2:{key},{settings.HEADWORKS.key_peppers.get_secret_value()}"
    rotated = type(settings.HEADWORKS)(key_peppers=peppers)
    monkeypatch.setattr(settings, "HEADWORKS", rotated)
    new = issue_token(actor, service_account=account)
    assert new.token.pepper_version == 2
    assert get_service_account_of_token(old) == get_service_account_of_token(new.text) == account
    dropped = type(settings.HEADWORKS)(key_peppers=f"2:{key}")
    monkeypatch.setattr(settings, "HEADWORKS", dropped)
    assert get_service_account_of_token(old) is None


def test_a_token_cannot_begin_expired(db: None, actor: Actor) -> None:
    home = create_organisation(actor, name="Home")
    account = create_service_account(actor, organisation=home, name="ci")
    with pytest.raises(Invalid):
        issue_token(
            actor, service_account=account, expires_at=timezone.now() - timedelta(seconds=1)
        )
