"""People, accounts and tokens by command."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from controlplane.models import ApiToken, AuditEntry, Organisation, Role, ServiceAccount, User
from controlplane.selectors.access import get_access_of_service_account, get_access_of_user
from controlplane.selectors.tokens import get_service_account_of_token
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_service_account

pytestmark = pytest.mark.slow


@pytest.fixture
def home(db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


def said(*words: str) -> str:
    """What a command writes to standard output."""
    out = StringIO()
    call_command(*words, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def test_a_token_is_printed_once_and_works_until_it_is_revoked(home: Organisation) -> None:
    text = said("issue_token", "--organisation", "Home", "--account", "ci", "--role", "operator")
    account = get_service_account_of_token(text)
    assert account is not None
    assert (account.name, account.organisation_id) == ("ci", home.pk)
    access = get_access_of_service_account(account)
    assert access.roles == {home.pk: frozenset({Role.OPERATOR})}
    token = ApiToken.objects.get()
    assert token.expires_at is None
    assert text.startswith(f"hwt_{token.pk.removeprefix('tok_')}.")
    assert said("revoke_token", token.pk).startswith(f"{token.pk} revoked at ")
    assert get_service_account_of_token(text) is None
    doors = AuditEntry.objects.filter(noun="api_tokens").order_by("id")
    assert list(doors.values_list("action", "actor_label", "via")) == [
        ("create", "issue_token", "command"),
        ("revoke", "revoke_token", "command"),
    ]


def test_a_known_account_gets_another_token_and_keeps_its_roles(
    home: Organisation, actor: Actor
) -> None:
    account = create_service_account(actor, organisation=home, name="ci")
    began = timezone.now()
    line = ("issue_token", "--organisation", home.pk, "--account", "CI", "--expires-days", "2")
    assert get_service_account_of_token(said(*line)) == account
    assert not get_access_of_service_account(account).sees_anything
    ends_after = ApiToken.objects.get().expires_at - began - timedelta(days=2)
    assert timedelta(0) <= ends_after < timedelta(minutes=1)


def test_a_person_is_made_with_a_role_and_a_password_shown_once(home: Organisation) -> None:
    password = said("create_user", "--organisation", "Home", "--role", "finance", "ann")
    user = User.objects.get()
    assert user.check_password(password)
    assert get_access_of_user(user).roles == {home.pk: frozenset({Role.FINANCE})}
    assert password not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("issue_token --organisation Away --account ci --role admin", "no organisation 'Away'"),
        ("issue_token --organisation Home --account ci --expires-days 0", "1 to 36,500"),
        ("create_user --organisation Away --role viewer ann", "no organisation 'Away'"),
        ("create_user --organisation Home --role viewer a/b", "username: "),
        ("create_user --organisation Home --role emperor ann", "invalid choice"),
        ("revoke_token tok_unknown", "no such object"),
        ("revoke_role bind_unknown", "no such object"),
        ("disable_service_account --organisation Home --account ci", "no service account 'ci'"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing(line: str, words: str, home: Organisation) -> None:
    with pytest.raises(CommandError, match=words):
        said(*line.split())
    assert not User.objects.exists()
    assert not ServiceAccount.objects.exists()


def test_a_role_and_a_program_are_ended_by_command(home: Organisation, actor: Actor) -> None:
    account = create_service_account(actor, organisation=home, name="ci")
    binding = grant_role(actor, subject=account, organisation=home, role=Role.ADMIN)
    assert said("disable_service_account", "--organisation", "Home", "--account", "ci") == (
        "ci is switched off"
    )
    account.refresh_from_db()
    assert not account.is_enabled
    assert said("revoke_role", binding.pk) == f"{binding.pk} revoked"
    assert not home.role_bindings.exists()
