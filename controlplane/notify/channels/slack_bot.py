"""Slack, by a bot: a thread an alert, whose first message shows how far people are with it.

Slack is told each message's id in its metadata, so that one nobody heard of can be looked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from http.client import HTTPException
from typing import Any

from django.conf import settings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from controlplane.decisions.alert_kinds import DeliveryKind, EpisodeState
from controlplane.decisions.deliveries import Failure, failure_of_status
from controlplane.notify.base import ChannelType, Message, Sent, Target, Undelivered
from controlplane.notify.slack_blocks import blocks_of, escaped

TIMEOUT_S = 10
WHISPER_TIMEOUT_S = 2
TOO_MANY = 429
EVENT = "headworks_message"
ACKNOWLEDGE, SNOOZE = "headworks_acknowledge", "headworks_snooze"
"""What its buttons are called in Slack's calls."""

_LOOKED_AT = 200
"""Of the newest messages; a repeat comes within minutes."""

_CLOCKS_S = 120
_TEMPORARY = frozenset(
    ("fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable")
)


def send(target: Target, message: Message) -> Sent:
    """Post the message, in the thread of its alert if there is one, and bring the first up to
    date."""
    client = _client(target)
    if message.thread:
        _update(client, target, message)
    if message.kind == DeliveryKind.UPDATED:
        return Sent(200, message.thread)
    answer = _called(
        client.chat_postMessage,
        channel=target.conversation,
        thread_ts=message.thread or None,
        metadata={"event_type": EVENT, "event_payload": {"id": message.id}},
        unfurl_links=False,
        **_words_of(target, message, has_acts=not message.thread),
    )
    return Sent(200, str(answer["ts"]))


def find(target: Target, message: Message) -> Sent | None:
    """The message, if Slack has it; raises Undelivered where it won't say."""
    if message.kind == DeliveryKind.UPDATED:
        # it changes what is there, so it may be sent again
        return None
    client = _client(target)
    since = datetime.fromisoformat(message.at).timestamp() - _CLOCKS_S
    asked: dict[str, Any] = {
        "channel": target.conversation,
        "oldest": f"{since:.6f}",
        "limit": _LOOKED_AT,
        "include_all_metadata": True,
    }
    if message.thread:
        answer = _called(client.conversations_replies, ts=message.thread, **asked)
    else:
        answer = _called(client.conversations_history, **asked)
    for one in answer.get("messages", ()):
        payload = one.get("metadata", {}).get("event_payload", {})
        if payload.get("id") == message.id:
            return Sent(200, str(one["ts"]))
    return None


def whisper(target: Target, member_id: str, words: str) -> None:
    """Say something to one member alone; raises Undelivered. Slack waits for 3 s meanwhile."""
    client = _client(target, timeout_s=WHISPER_TIMEOUT_S)
    _called(
        client.chat_postEphemeral,
        channel=target.conversation,
        user=member_id,
        text=escaped(words),
    )


def _client(target: Target, timeout_s: float | None = None) -> WebClient:
    return WebClient(
        token=target.secret,
        base_url=settings.HEADWORKS.slack_api_url,
        timeout=TIMEOUT_S if timeout_s is None else timeout_s,  # type: ignore[arg-type]
        retry_handlers=[],
    )


def _update(client: WebClient, target: Target, message: Message) -> None:
    """Have the thread's first message say how it is now; twice is as good as once."""
    _called(
        client.chat_update,
        channel=target.conversation,
        ts=message.thread,
        **_words_of(target, message, has_acts=True),
    )


def _words_of(target: Target, message: Message, *, has_acts: bool) -> dict[str, Any]:
    blocks = blocks_of(message)
    alerts = message.content["alerts"]
    if target.takes_acts and has_acts and len(alerts) == 1 and alerts[0].get("id"):
        blocks += _acts(alerts[0])
    return {"text": escaped(message.content["title"]), "blocks": blocks}


def _acts(alert: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The buttons that make sense in its state."""
    buttons = []
    if alert.get("state") != EpisodeState.RESOLVED:
        if alert.get("state") != EpisodeState.ACKNOWLEDGED:
            buttons.append(_button("Acknowledge", ACKNOWLEDGE, alert["id"], style="primary"))
        buttons.append(_button("Snooze 1 h", SNOOZE, alert["id"]))
    return [{"type": "actions", "elements": buttons}] if buttons else []


def _button(words: str, action: str, value: str, **more: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": words}
    return {"type": "button", "text": text, "action_id": action, "value": value, **more}


def _called(call: Callable[..., Any], **asked: Any) -> Any:
    """Make one call; raises Undelivered with what Slack's answer means for the next."""
    try:
        return call(**asked)
    except SlackApiError as error:
        raise Undelivered(_failure(error)) from error
    except TimeoutError as error:
        told = Failure(f"No answer within {TIMEOUT_S} s.", is_uncertain=True)
        raise Undelivered(told) from error
    except (OSError, HTTPException, SlackClientError) as error:
        # only the kind: the message may hold what was sent
        told = Failure(f"No connection: {type(error).__name__}.", is_uncertain=True)
        raise Undelivered(told) from error


def _failure(error: SlackApiError) -> Failure:
    response = error.response
    headers = getattr(response, "headers", None) or {}
    status = int(getattr(response, "status_code", 0) or 0)
    asked = {name.lower(): value for name, value in headers.items()}.get("retry-after")
    retry_after_s = float(asked) if str(asked or "").isdecimal() else None
    if status != 200:
        told = failure_of_status(status, retry_after_s)
        told = told or Failure("Slack's answer makes no sense.", status)
        # what it failed at it may have done half of; that is looked for
        return replace(told, is_uncertain=not told.is_final and status != TOO_MANY)
    code = _code_of(response)
    if code in _TEMPORARY:
        return Failure(f"Slack answered {code}.", status, retry_after_s, is_uncertain=True)
    return Failure(f"Slack answered {code}.", status, is_final=True)


def _code_of(response: Any) -> str:
    """Slack's own word for what is wrong; never more than a word."""
    told = str(response.get("error", "unknown") if hasattr(response, "get") else "unknown")
    return told[:60] if told.replace("_", "").isalnum() else "unknown"


CHANNEL = ChannelType(
    label="Slack bot",
    needs=frozenset({"secret", "conversation"}),
    takes=frozenset({"secret", "conversation", "signing_secret"}),
    send=send,
    find=find,
    threads=True,
)
