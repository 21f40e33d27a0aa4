"""Seals and secrets both planes must compute alike. Pure: every key is an argument.

The data key is 32 bytes; each use derives its own subkey from it, so no two uses share a key.
"""

import base64
import hashlib
import hmac
import os
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_PREFIX = "hw_"
_NONCE_BYTES = 12
_SEAL_BYTES = 64

# Keys and tokens of ours, and whatever follows a scheme of the Authorization header.
_SECRETS = re.compile(
    r"(hwt?_[0-9A-Za-z]+\.)[0-9A-Za-z_-]+|((?:Bearer|Basic)\s+)\S+", re.IGNORECASE
)


class SealError(ValueError):
    """The bytes were not sealed with this key, or were changed since."""


def subkey(data_key: bytes, use: str) -> bytes:
    """Derive the 32-byte key of one use."""
    return hmac.digest(data_key, use.encode(), "sha256")


def seal(data_key: bytes, payload: bytes) -> bytes:
    """Prefix a payload with its HMAC-SHA256 in hex."""
    mac = hmac.new(subkey(data_key, "config-seal"), payload, hashlib.sha256).hexdigest()
    return mac.encode() + payload


def unseal(data_key: bytes, sealed: bytes) -> bytes:
    """Return the payload of `seal`, or raise SealError if it is not ours."""
    mac, payload = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    expected = hmac.new(subkey(data_key, "config-seal"), payload, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(mac, expected.encode()):
        raise SealError("the seal does not match")
    return payload


def content_digest(payload: bytes) -> str:
    """Name a payload by its content."""
    return hashlib.sha256(payload).hexdigest()


def encrypt(data_key: bytes, secret: str) -> str:
    """Seal a secret for rows and snapshots (AES-256-GCM, URL-safe base64)."""
    nonce = os.urandom(_NONCE_BYTES)
    box = AESGCM(subkey(data_key, "secrets")).encrypt(nonce, secret.encode(), None)
    return base64.urlsafe_b64encode(nonce + box).decode()


def decrypt(data_key: bytes, sealed: str) -> str:
    """Open what `encrypt` sealed, or raise SealError."""
    try:
        raw = base64.urlsafe_b64decode(sealed)
        opened = AESGCM(subkey(data_key, "secrets")).decrypt(
            raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None
        )
    except (ValueError, InvalidTag) as error:
        raise SealError("the secret cannot be opened with this data key") from error
    return opened.decode()


class Box:
    """Seals bytes for one use (AES-256-GCM), each `about` something it can't be taken away from."""

    __slots__ = ("_cipher",)

    def __init__(self, data_key: bytes, use: str) -> None:
        self._cipher = AESGCM(subkey(data_key, use))

    def seal(self, payload: bytes, about: bytes) -> bytes:
        """Seal a payload: a nonce, then what nobody reads without the key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, payload, about)

    def open(self, sealed: bytes, about: bytes) -> bytes:
        """Open what `seal` sealed about the same, or raise SealError."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
        except (ValueError, InvalidTag) as error:
            raise SealError("it was not sealed with this data key, or not about this") from error


def worker_key(data_key: bytes, worker_id: str) -> str:
    """The API key of a worker we start: derived, so neither directory nor disk carries it."""
    return hmac.new(subkey(data_key, "worker-key"), worker_id.encode(), hashlib.sha256).hexdigest()


def token_digest(pepper: bytes, token: str) -> str:
    """Digest of a whole key or token as stored; the token itself is stored nowhere."""
    return hmac.new(pepper, token.encode(), hashlib.sha256).hexdigest()


def without_secrets(text: str) -> str:
    """Blank out anything in a text that looks like a credential, for what is written down."""
    return _SECRETS.sub(r"\1\2***", text)


def key_bucket(key_id: str) -> str:
    """The two hex digits of the section a key lives in."""
    return hashlib.sha256(key_id.encode()).hexdigest()[:2]
