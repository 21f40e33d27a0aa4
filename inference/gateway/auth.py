"""Who is calling: one function for all keys, whatever they may do."""

import hmac
from collections.abc import Mapping
from hashlib import blake2s
from math import inf

import structlog

from inference.contract.kinds import Scope
from inference.contract.sealing import KEY_PREFIX, key_bucket, token_digest
from inference.contract.snapshot import ConfigSnapshot, KeyDigest, KeyRecord
from inference.errors import InsufficientScope, InvalidApiKey

# Ours have 70 characters; nothing longer is worth a digest.
MAX_KEY_CHARS = 256

MAX_PROOFS = 20_000
"""Some 4 MB. More keys than this in use at once cost an HMAC now and then."""

_SCHEME = b"bearer "
_UNPROVEN = (None, -inf)

log = structlog.get_logger(__name__)


class Proofs:
    """Which Authorization headers a snapshot has proven, so that the next request costs no HMAC.

    A header is kept as a digest alone, for as long as its secret is accepted, its key lives and the
    snapshot is the current one.
    """

    def __init__(self) -> None:
        self._snapshot: ConfigSnapshot | None = None
        self._proven: dict[bytes, tuple[KeyRecord, float]] = {}

    def find(
        self, snapshot: ConfigSnapshot, authorization: bytes, *, now: float
    ) -> KeyRecord | None:
        """The record of the key, or None if it has to be proven."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._proven.clear()
        record, until = self._proven.get(blake2s(authorization).digest(), _UNPROVEN)
        return record if until > now else None

    def keep(self, authorization: bytes, record: KeyRecord, *, until: float | None) -> None:
        """Take note of a proof under the snapshot that was last looked in."""
        if len(self._proven) >= MAX_PROOFS:
            self._proven.clear()
        self._proven[blake2s(authorization).digest()] = (record, inf if until is None else until)


def identify(
    snapshot: ConfigSnapshot,
    authorization: bytes,
    *,
    peppers: Mapping[int, bytes],
    now: float,
    proofs: Proofs | None = None,
) -> KeyRecord:
    """Return the record of the key in an Authorization header that may use the gateway now.

    `now` is seconds since the epoch. Raises InvalidApiKey or InsufficientScope; neither holds any
    part of what was sent.
    """
    known = None if proofs is None else proofs.find(snapshot, authorization, now=now)
    if known is not None:
        return known
    record, until = _prove(snapshot, _bearer_token(authorization), peppers=peppers, now=now)
    _check(snapshot, record, now=now)
    if proofs is not None:
        ends = [one for one in (until, record.expires_at) if one is not None]
        proofs.keep(authorization, record, until=min(ends, default=None))
    return record


def _check(snapshot: ConfigSnapshot, record: KeyRecord, *, now: float) -> None:
    """Refuse a key that is proven and may not use the gateway."""
    if not record.is_enabled:
        raise InvalidApiKey("The API key is disabled.")
    if record.expires_at is not None and record.expires_at <= now:
        raise InvalidApiKey("The API key has expired.")
    organisation = snapshot.organisations.get(record.organisation_id)
    if organisation is None or not organisation.is_enabled:
        raise InvalidApiKey("The API key's organisation is not active.")
    if Scope.INFERENCE not in record.scopes:
        raise InsufficientScope("This API key may not be used for inference.")


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
        raise InvalidApiKey(
            "An API key is needed: send `Authorization: Bearer <key>`, or `x-api-key`."
        )
    scheme, token = authorization[:7].lower(), authorization[7:].strip()
    if scheme != _SCHEME or not token.isascii() or len(token) > MAX_KEY_CHARS:
        raise InvalidApiKey
    return token.decode("ascii")


def _record_of(snapshot: ConfigSnapshot, token: str) -> KeyRecord | None:
    if not token.startswith(KEY_PREFIX):
        return None
    key_id = token[len(KEY_PREFIX) :].partition(".")[0]
    return snapshot.keys.get(key_bucket(key_id), {}).get(key_id)


def _prove(
    snapshot: ConfigSnapshot, token: str, *, peppers: Mapping[int, bytes], now: float
) -> tuple[KeyRecord, float | None]:
    """The key that the token is a secret of, and until when it is; in a rotation there are two."""
    record = _record_of(snapshot, token)
    for digest in () if record is None else record.digests:
        is_accepted = digest.accepted_until is None or digest.accepted_until > now
        if record is not None and is_accepted and _matches(digest, token, peppers):
            return record, digest.accepted_until
    raise InvalidApiKey


def _matches(digest: KeyDigest, token: str, peppers: Mapping[int, bytes]) -> bool:
    pepper = peppers.get(digest.pepper_version)
    return pepper is not None and hmac.compare_digest(token_digest(pepper, token), digest.digest)
