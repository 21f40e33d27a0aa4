"""Who is calling: one function for all keys, whatever they may do."""

import hmac
from collections.abc import Mapping

import structlog

from inference.contract.kinds import Scope
from inference.contract.sealing import KEY_PREFIX, key_bucket, token_digest
from inference.contract.snapshot import ConfigSnapshot, KeyDigest, KeyRecord
from inference.errors import InsufficientScope, InvalidApiKey

# Ours have 70 characters; nothing longer is worth a digest.
MAX_KEY_CHARS = 256

_SCHEME = b"bearer "

log = structlog.get_logger(__name__)


def identify(
    snapshot: ConfigSnapshot, authorization: bytes, *, peppers: Mapping[int, bytes], now: float
) -> KeyRecord:
    """Return the record of the key in an Authorization header that may use the gateway now.

    `now` is seconds since the epoch. Raises InvalidApiKey or InsufficientScope; neither holds any
    part of what was sent.
    """
    token = _bearer_token(authorization)
    record = _record_of(snapshot, token)
    if record is None or not _is_proven(record, token, peppers=peppers, now=now):
        raise InvalidApiKey
    if not record.is_enabled:
        raise InvalidApiKey("The API key is disabled.")
    if record.expires_at is not None and record.expires_at <= now:
        raise InvalidApiKey("The API key has expired.")
    organisation = snapshot.organisations.get(record.organisation_id)
    if organisation is None or not organisation.is_enabled:
        raise InvalidApiKey("The API key's organisation is not active.")
    if Scope.INFERENCE not in record.scopes:
        raise InsufficientScope("This API key may not be used for inference.")
    return record


def warn_of_lost_peppers(snapshot: ConfigSnapshot, *, peppers: Mapping[int, bytes]) -> None:
    """Log, in one line, that a snapshot has keys that no pepper of this process proves."""
    lost = [
        digest.pepper_version
        for keys in snapshot.keys.values()
        for key in keys.values()
        for digest in key.digests
        if digest.pepper_version not in peppers
    ]
    if lost:
        log.error(
            "keys have a pepper this process lacks",
            pepper_versions=sorted(set(lost)),
            digests=len(lost),
            snapshot_version=snapshot.version,
        )


def _bearer_token(authorization: bytes) -> str:
    if not authorization:
        raise InvalidApiKey("An API key is needed: send `Authorization: Bearer <key>`.")
    scheme, token = authorization[:7].lower(), authorization[7:].strip()
    if scheme != _SCHEME or not token.isascii() or len(token) > MAX_KEY_CHARS:
        raise InvalidApiKey
    return token.decode("ascii")


def _record_of(snapshot: ConfigSnapshot, token: str) -> KeyRecord | None:
    if not token.startswith(KEY_PREFIX):
        return None
    key_id = token[len(KEY_PREFIX) :].partition(".")[0]
    return snapshot.keys.get(key_bucket(key_id), {}).get(key_id)


def _is_proven(record: KeyRecord, token: str, *, peppers: Mapping[int, bytes], now: float) -> bool:
    """Whether the token is one of the key's secrets; during a rotation there are two."""
    return any(
        _matches(digest, token, peppers)
        for digest in record.digests
        if digest.accepted_until is None or digest.accepted_until > now
    )


def _matches(digest: KeyDigest, token: str, peppers: Mapping[int, bytes]) -> bool:
    pepper = peppers.get(digest.pepper_version)
    return pepper is not None and hmac.compare_digest(token_digest(pepper, token), digest.digest)
