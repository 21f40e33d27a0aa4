"""Whose token this is."""

import hmac
import re

from django.conf import settings
from django.utils import timezone

from controlplane.identifiers import ULID_PATTERN
from controlplane.models import ApiToken, Organisation, ServiceAccount
from inference.contract.sealing import token_digest

_TOKEN = re.compile(rf"hwt_({ULID_PATTERN})\.[A-Za-z0-9_-]{{20,100}}")


def get_service_account_of_token(text: str) -> ServiceAccount | None:
    """The enabled account this token belongs to, or None if the token isn't good.

    Unknown, wrong, expired and revoked tokens can't be told apart from outside.
    """
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    tokens = ApiToken.objects.select_related("service_account")
    token = tokens.filter(pk=f"tok_{match[1]}").first()
    if token is None or not _is_good(token, text):
        return None
    return token.service_account if token.service_account.is_enabled else None


def get_service_account_named(organisation: Organisation, name: str) -> ServiceAccount | None:
    """The organisation's account of this name, in whatever case, or None. For commands."""
    return organisation.service_accounts.filter(name__iexact=name).first()


def _is_good(token: ApiToken, text: str) -> bool:
    pepper = settings.HEADWORKS.peppers.get(token.pepper_version)
    if pepper is None or token.revoked_at is not None:
        return False
    if token.expires_at is not None and token.expires_at <= timezone.now():
        return False
    return hmac.compare_digest(token.digest, token_digest(pepper, text))
