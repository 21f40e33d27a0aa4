"""Calls that Slack makes to us when somebody presses a button: whether they are Slack's, and what
they ask for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
from slack_sdk.signature import Clock, SignatureVerifier

MOST_BYTES = 200_000
_NAME_LENGTH = 80
_MEMBER = re.compile(r"[UW][A-Z0-9]{6,30}")
_SECONDS = re.compile(r"[0-9]{1,12}")


class _Fixed(Clock):
    """A clock that stands at one moment, in seconds since the epoch."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def now(self) -> float:
        return self._now_s


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, *, now_s: float) -> bool:
    """Whether Slack signed this body (v0) within the last five minutes."""
    timestamp = headers.get("X-Slack-Request-Timestamp", "")
    signature = headers.get("X-Slack-Signature", "")
    if not _SECONDS.fullmatch(timestamp) or not signature.isascii():
        return False
    verifier = SignatureVerifier(secret, _Fixed(now_s))
    return bool(verifier.is_valid(body=body, timestamp=timestamp, signature=signature))


@dataclass(frozen=True, slots=True)
class Press:
    """Who pressed which button, and the value it carries."""

    member_id: str
    member_name: str
    action: str
    value: str


def press_of(body: bytes) -> Press | None:
    """The button of a call, None if it is a call of another kind or makes no sense."""
    try:
        (payload,) = parse_qs(body.decode(), strict_parsing=True)["payload"]
        told = msgspec.json.decode(payload)
        if told["type"] != "block_actions":
            return None
        (action,) = told["actions"]
        return Press(
            member_id=_member(told["user"]["id"]),
            member_name=_name_of(told["user"]),
            action=_text(action["action_id"]),
            value=_text(action["value"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _member(value: object) -> str:
    told = _text(value)
    if not _MEMBER.fullmatch(told):
        raise ValueError
    return told


def _name_of(user: Mapping[str, Any]) -> str:
    return _text(user.get("username") or user.get("name") or user["id"])


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError
    return value[:_NAME_LENGTH]
