"""Edits of people and programs, their passwords and tokens. None of these reach a gateway.

Roles are in `bindings`. A person is never removed, for the audit trail goes on naming him: he is
switched off, which ends his sessions and his password.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from controlplane.errors import Conflict, Invalid, NotFound
from controlplane.models import (
    ApiToken,
    Organisation,
    Project,
    Role,
    RoleBinding,
    ServiceAccount,
    Team,
    User,
)
from controlplane.services import audit, edits, rows
from controlplane.services.actors import Actor
from controlplane.services.bindings import admins_kept, grant_role
from inference.contract.sealing import token_digest

TOKEN_PREFIX = "hwt_"
SECRET_BYTES = 32
PASSWORD_BYTES = 18

_EDITABLE = frozenset(("username", "email", "first_name", "last_name", "is_active", "slack_id"))
_ACCOUNT_EDITABLE = frozenset(("name", "is_enabled"))


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token and its text, which is shown once and stored nowhere."""

    token: ApiToken
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssuedPassword:
    """A person and a password we made up: shown once, and to be changed at the next sign-in."""

    user: User
    password: str = field(repr=False)


def create_user(
    actor: Actor,
    *,
    username: str,
    password: str,
    email: str = "",
    first_name: str = "",
    last_name: str = "",
    is_platform_admin: bool = False,
    must_change_password: bool = False,
    organisation: Organisation | None = None,
) -> User:
    """Make a person who can sign in; raises Invalid (also at `password`).

    `organisation` is whose audit trail tells of it; None is the platform's alone.
    """
    told = {
        "username": username,
        "email": email,
        "first_name": first_name,
        "last_name": last_name,
    }
    user = User(**told, is_superuser=is_platform_admin, must_change_password=must_change_password)
    _check_password(user, password)
    user.set_password(password)
    with transaction.atomic():
        rows.insert(user)
        audit.record(
            actor,
            action="create",
            noun="users",
            object_id=str(user.pk),
            organisation_id=None if organisation is None else organisation.pk,
            after={**told, "is_platform_admin": is_platform_admin},
        )
    return user


def create_member(
    actor: Actor,
    *,
    organisation: Organisation,
    role: Role,
    username: str,
    team: Team | None = None,
    project: Project | None = None,
    **told: str,
) -> IssuedPassword:
    """Make a person with a first role and a password of our making; raises Invalid.

    `told` may hold `email`, `first_name` and `last_name`.
    """
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with transaction.atomic():
        user = create_user(
            actor,
            username=username,
            password=password,
            must_change_password=True,
            organisation=organisation,
            **told,
        )
        grant_role(
            actor, subject=user, organisation=organisation, role=role, team=team, project=project
        )
    return IssuedPassword(user, password)


def update_user(
    actor: Actor,
    *,
    user_id: int,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    keep_admin: bool = True,
) -> User:
    """Change names, mail, `slack_id` or `is_active`.

    Who is switched off loses sessions and password; switched on again, he needs a new one. Raises
    Invalid, NotFound, VersionMismatch, or Conflict for the last administrator of an organisation
    (unless not `keep_admin`) or of the platform.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with transaction.atomic():
        user = _lock_user(user_id, expected_version)
        if changes.get("is_active") is False and user.is_active:
            with admins_kept(user.role_bindings.all(), keep_admin=keep_admin):
                _change_user(actor, user, changes)
                _end_sessions(user)
        else:
            _change_user(actor, user, changes)
    return user


def set_password(actor: Actor, *, user_id: int, password: str) -> User:
    """Give a person a new password, which ends their sessions; raises Invalid or NotFound."""
    with transaction.atomic():
        user = _lock_user(user_id)
        if user.must_change_password and user.check_password(password):
            raise Invalid.field("password", "Choose one that nobody else knows.")
        _check_password(user, password)
        _store_password(actor, user, password)
    return user


def reset_password(
    actor: Actor, *, user_id: int, expected_version: int | None = None
) -> IssuedPassword:
    """Give a person a password of our making, which ends their sessions.

    Raises NotFound, VersionMismatch, or Conflict for a person who is switched off.
    """
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with transaction.atomic():
        user = _lock_user(user_id, expected_version)
        if not user.is_active:
            raise Conflict(f"{user.get_username()} is switched off.")
        _store_password(actor, user, password, must_change=True)
    return IssuedPassword(user, password)


def create_service_account(
    actor: Actor, *, organisation: Organisation, name: str, is_enabled: bool = True
) -> ServiceAccount:
    """Make a program's account, without roles or tokens yet; raises Invalid."""
    with transaction.atomic():
        account = rows.insert(
            ServiceAccount(organisation=organisation, name=name, is_enabled=is_enabled)
        )
        edits.note(actor, "create", "service_accounts", account, after=edits.values_of(account))
    return account


def update_service_account(
    actor: Actor,
    *,
    service_account_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    keep_admin: bool = True,
) -> ServiceAccount:
    """Change the name, or let the account's tokens in or keep them out (`is_enabled`).

    Raises Invalid, NotFound, VersionMismatch, or Conflict for the last administrator.
    """
    edits.refuse_unknown(changes, _ACCOUNT_EDITABLE)
    with transaction.atomic():
        account = rows.lock(ServiceAccount, service_account_id, expected_version=expected_version)
        ended = RoleBinding.objects.none()
        if changes.get("is_enabled") is False:
            ended = account.role_bindings.all()
        with admins_kept(ended, keep_admin=keep_admin):
            changed = rows.change(account, changes)
            if changed is not None:
                before, after = changed
                edits.note(actor, "update", "service_accounts", account, before=before, after=after)
    return account


def set_service_account_enabled(
    actor: Actor, *, service_account_id: str, is_enabled: bool
) -> ServiceAccount:
    """The installation's own switch, which asks nobody; raises NotFound."""
    return update_service_account(
        actor,
        service_account_id=service_account_id,
        changes={"is_enabled": is_enabled},
        keep_admin=False,
    )


def delete_service_account(
    actor: Actor,
    *,
    service_account_id: str,
    expected_version: int | None = None,
    keep_admin: bool = True,
) -> None:
    """Remove an account with its roles and tokens; raises as `update_service_account` does."""
    with transaction.atomic():
        account = rows.lock(ServiceAccount, service_account_id, expected_version=expected_version)
        gone = {
            "tokens": sorted(account.tokens.values_list("pk", flat=True)),
            "roles": sorted(account.role_bindings.values_list("pk", flat=True)),
        }
        with admins_kept(account.role_bindings.all(), keep_admin=keep_admin):
            before = {**edits.values_of(account), **gone}
            edits.note(actor, "delete", "service_accounts", account, before=before)
            rows.remove(account)


def issue_token(
    actor: Actor, *, service_account: ServiceAccount, expires_at: datetime | None = None
) -> IssuedToken:
    """Make a bearer token of the API; raises Invalid for a time that is past."""
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid.field("expires_at", "This time is past.")
    version, pepper = next(iter(settings.HEADWORKS.peppers.items()))
    with transaction.atomic():
        token = ApiToken(
            service_account=service_account, pepper_version=version, expires_at=expires_at
        )
        public_id = token.pk.partition("_")[2]
        text = f"{TOKEN_PREFIX}{public_id}.{secrets.token_urlsafe(SECRET_BYTES)}"
        token.digest = token_digest(pepper, text)
        rows.insert(token)
        _note_token(actor, "create", token)
    return IssuedToken(token, text)


def revoke_token(actor: Actor, *, token_id: str) -> ApiToken:
    """End a token for good; raises NotFound."""
    with transaction.atomic():
        token = ApiToken.objects.select_for_update().filter(pk=token_id).first()
        if token is None:
            raise NotFound
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            _note_token(actor, "revoke", token)
    return token


def _lock_user(user_id: int, expected_version: int | None = None) -> User:
    return rows.lock(User, str(user_id), expected_version=expected_version)


def _change_user(actor: Actor, user: User, changes: Mapping[str, Any]) -> None:
    changed = rows.change(user, changes)
    if changed is None:
        return
    before, after = changed
    if "email" in after:
        # the library keeps addresses of its own; an old one must not go on opening the account
        user.emailaddress_set.all().delete()  # type: ignore[attr-defined]
    _note_user(actor, "update", user, before=before, after=after)


def _end_sessions(user: User) -> None:
    """Forget the password, which every session is bound to; raises Conflict for the last root."""
    user.set_unusable_password()
    user.save(update_fields=["password"])
    others = User.objects.select_for_update().filter(is_superuser=True, is_active=True)
    if user.is_superuser and not others.exists():
        raise Conflict("The platform would have no administrator left.")


def _store_password(actor: Actor, user: User, password: str, *, must_change: bool = False) -> None:
    user.set_password(password)
    user.save(update_fields=["password"])
    rows.change(user, {"must_change_password": must_change}, touch=True)
    _note_user(actor, "set_password", user)


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid("Some fields are not valid.", fields={"password": error.messages}) from error


def _note_user(
    actor: Actor,
    action: str,
    user: User,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write the audit row: the organisation's, if the person belongs to one alone."""
    homes = set(user.role_bindings.values_list("organisation_id", flat=True))
    audit.record(
        actor,
        action=action,
        noun="users",
        object_id=str(user.pk),
        organisation_id=homes.pop() if len(homes) == 1 else None,
        before=before,
        after=after,
    )


def _note_token(actor: Actor, action: str, token: ApiToken) -> None:
    audit.record(
        actor,
        action=action,
        noun="api_tokens",
        object_id=token.pk,
        organisation_id=token.service_account.organisation_id,
        after={
            "service_account": token.service_account_id,
            "expires_at": token.expires_at,
            "revoked_at": token.revoked_at,
        },
    )
