"""Edits of people, programs and their roles. None of these reach a gateway."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from controlplane.errors import Invalid, NotFound
from controlplane.models import ApiToken, Organisation, Role, RoleBinding, ServiceAccount, User
from controlplane.services import audit, edits, rows
from controlplane.services.actors import Actor
from inference.contract.sealing import token_digest

TOKEN_PREFIX = "hwt_"
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token and its text, which is shown once and stored nowhere."""

    token: ApiToken
    text: str = field(repr=False)


def create_user(
    actor: Actor,
    *,
    username: str,
    password: str,
    email: str = "",
    is_platform_admin: bool = False,
) -> User:
    """Make a person who can sign in; raises Invalid (also at `password`)."""
    user = User(username=username, email=email, is_superuser=is_platform_admin)
    _check_password(user, password)
    user.set_password(password)
    with transaction.atomic():
        rows.insert(user)
        audit.record(
            actor,
            action="create",
            noun="users",
            object_id=str(user.pk),
            organisation_id=None,
            after={"username": username, "email": email, "is_platform_admin": is_platform_admin},
        )
    return user


def set_password(actor: Actor, *, user_id: int, password: str) -> User:
    """Give a person a new password, which ends their sessions; raises Invalid or NotFound."""
    with transaction.atomic():
        user = User.objects.select_for_update().filter(pk=user_id).first()
        if user is None:
            raise NotFound
        _check_password(user, password)
        user.set_password(password)
        user.save(update_fields=["password"])
        audit.record(
            actor, action="set_password", noun="users", object_id=str(user.pk), organisation_id=None
        )
    return user


def create_service_account(
    actor: Actor, *, organisation: Organisation, name: str
) -> ServiceAccount:
    """Make a program's account, without roles or tokens yet; raises Invalid."""
    with transaction.atomic():
        account = rows.insert(ServiceAccount(organisation=organisation, name=name))
        edits.note(actor, "create", "service_accounts", account, after=edits.values_of(account))
    return account


def set_service_account_enabled(
    actor: Actor, *, service_account_id: str, is_enabled: bool
) -> ServiceAccount:
    """Let an account's tokens in, or keep them out; raises NotFound."""
    with transaction.atomic():
        account = rows.lock(ServiceAccount, service_account_id)
        changed = rows.change(account, {"is_enabled": is_enabled})
        if changed is not None:
            before, after = changed
            edits.note(actor, "update", "service_accounts", account, before=before, after=after)
    return account


def grant_role(
    actor: Actor, *, subject: User | ServiceAccount, organisation: Organisation, role: Role
) -> RoleBinding:
    """Give a subject a role in an organisation; a role it has already is left as it is.

    A service account has roles in its own organisation only: raises Invalid otherwise.
    """
    if isinstance(subject, ServiceAccount) and subject.organisation_id != organisation.pk:
        raise Invalid.field("organisation", "A service account belongs to one organisation.")
    owner = _subject_field(subject)
    with transaction.atomic():
        binding, is_new = RoleBinding.objects.get_or_create(
            organisation=organisation, role=Role(role).value, **owner
        )
        if is_new:
            _note_binding(actor, "grant", binding)
    return binding


def revoke_role(actor: Actor, *, binding_id: str) -> None:
    """Take a role away; raises NotFound."""
    with transaction.atomic():
        binding = RoleBinding.objects.select_for_update().filter(pk=binding_id).first()
        if binding is None:
            raise NotFound
        _note_binding(actor, "revoke", binding)
        rows.remove(binding)


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


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid("Some fields are not valid.", fields={"password": error.messages}) from error


def _subject_field(subject: User | ServiceAccount) -> dict[str, User | ServiceAccount]:
    return {"user" if isinstance(subject, User) else "service_account": subject}


def _note_binding(actor: Actor, action: str, binding: RoleBinding) -> None:
    told = {
        "role": binding.role,
        "user": None if binding.user_id is None else str(binding.user_id),
        "service_account": binding.service_account_id,
    }
    audit.record(
        actor,
        action=action,
        noun="role_bindings",
        object_id=binding.pk,
        organisation_id=binding.organisation_id,
        before=told if action == "revoke" else None,
        after=told if action == "grant" else None,
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
