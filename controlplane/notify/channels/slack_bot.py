"""Slack, by a bot: a thread an alert, whose first message shows how far people are with it.

Slack is told each message's id in its metadata, so that one nobody heard of can be looked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from http.client import HTTPException
from typing import Any

import structlog
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

_MOST_WITH_ACTS = 20
_LINE_LENGTH = 500
"""Of messages about several alerts; Slack takes 50 blocks."""

_CLOCKS_S = 120
_TEMPORARY = frozenset(
    ("fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable")
)
_THREAD_LOST = frozenset(("message_not_found", "thread_not_found", "cannot_reply_to_message"))
"""Somebody deleted the first message, or it stands in another conversation."""

_SENSELESS = "Slack's answer makes no sense."
_STAYS_AS_IT_IS = frozenset(("cant_update_message", "edit_window_closed"))

log = structlog.get_logger(__name__)


class Refused(Undelivered):
    """An answer of Slack's that will be the same next time, by Slack's own word."""

    def __init__(self, failure: Failure, code: str) -> None:
        super().__init__(failure)
        self.code = code


def send(target: Target, message: Message) -> Sent:
    """Post the message, in the thread of its alert if there is one, and bring the first up to
    date.

    A first message that can't be changed costs no other: where it is gone, a new thread begins.
    """
    client = _client(target)
    is_lost = bool(message.thread) and not _updated(client, target, message)
    if message.kind == DeliveryKind.UPDATED:
        return Sent(200, "" if is_lost else message.thread, is_thread_lost=is_lost)
    if message.thread and not is_lost:
        try:
            return Sent(200, _posted(client, target, message, thread=message.thread))
        except Refused as error:
            if error.code not in _THREAD_LOST:
                raise
            is_lost = True
    return Sent(200, _posted(client, target, message), is_thread_lost=is_lost)


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
        receipt = _receipt_in(_replies(client, message.thread, asked), message.id)
        if receipt:
            return Sent(200, receipt)
    # where its thread was lost it began one
    receipt = _receipt_in(_called(client.conversations_history, **asked), message.id)
    return Sent(200, receipt, is_thread_lost=bool(message.thread)) if receipt else None


def _replies(client: WebClient, thread: str, asked: Mapping[str, Any]) -> Any:
    """What is in a thread; nothing where it is there no more."""
    try:
        return _called(client.conversations_replies, ts=thread, **asked)
    except Refused as error:
        if error.code not in _THREAD_LOST:
            raise
        return {}


def _receipt_in(answer: Any, message_id: str) -> str:
    """What Slack calls the message of this id, "" if it isn't among those."""
    for one in answer.get("messages", ()):
        payload = one.get("metadata", {}).get("event_payload", {})
        if payload.get("id") == message_id:
            return str(one["ts"])
    return ""


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


def _updated(client: WebClient, target: Target, message: Message) -> bool:
    """Have the thread's first message say how it is now; False if it is there no more.

    Twice is as good as once. Raises Undelivered where that is all there is to say and Slack won't
    have it, or if it may the next time.
    """
    words = _words_of(target, message, has_acts=True)
    try:
        _called(client.chat_update, channel=target.conversation, ts=message.thread, **words)
    except Refused as error:
        if error.code in _THREAD_LOST:
            return False
        if error.code not in _STAYS_AS_IT_IS and message.kind == DeliveryKind.UPDATED:
            raise
        log.warning("first message not brought up to date", delivery=message.id, why=error.code)
    return True


def _posted(client: WebClient, target: Target, message: Message, thread: str | None = None) -> str:
    """Post it, in a thread or as the first of one; what Slack calls it."""
    answer = _called(
        client.chat_postMessage,
        channel=target.conversation,
        thread_ts=thread,
        metadata={"event_type": EVENT, "event_payload": {"id": message.id}},
        unfurl_links=False,
        **_words_of(target, message, has_acts=thread is None),
    )
    receipt = answer.get("ts")
    if not receipt:
        raise Undelivered(Failure(_SENSELESS, answer.status_code, is_uncertain=True))
    return str(receipt)


def _words_of(target: Target, message: Message, *, has_acts: bool) -> dict[str, Any]:
    blocks = blocks_of(message)
    # of a digest the newest word on each
    alerts = {one["id"]: one for one in message.content["alerts"] if one.get("id")}
    if target.takes_acts and has_acts:
        many = len(message.content["alerts"]) > 1
        for alert in list(alerts.values())[:_MOST_WITH_ACTS]:
            blocks += _act_of_one(alert) if many else _acts(alert)
    return {"text": escaped(message.content["title"]), "blocks": blocks}


def _acts(alert: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The buttons that make sense in its state."""
    buttons = []
    if alert.get("state") != EpisodeState.RESOLVED:
        if alert.get("state") != EpisodeState.ACKNOWLEDGED:
            buttons.append(_button("Acknowledge", ACKNOWLEDGE, alert["id"], style="primary"))
        buttons.append(_button("Snooze 1 h", SNOOZE, alert["id"]))
    return [{"type": "actions", "elements": buttons}] if buttons else []


def _act_of_one(alert: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One of several alerts with the button that takes it up, while nobody has."""
    if alert.get("state") != EpisodeState.OPEN:
        return []
    where = alert.get("subject_name") or alert.get("subject_id")
    text = {"type": "mrkdwn", "text": escaped(f"{alert.get('rule')}: {where}")[:_LINE_LENGTH]}
    button = _button("Acknowledge", ACKNOWLEDGE, alert["id"])
    return [{"type": "section", "text": text, "accessory": button}]


def _button(words: str, action: str, value: str, **more: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": words}
    return {"type": "button", "text": text, "action_id": action, "value": value, **more}


def _called(call: Callable[..., Any], **asked: Any) -> Any:
    """Make one call; raises Undelivered with what Slack's answer means for the next."""
    try:
        return call(**asked)
    except SlackApiError as error:
        told = _failure(error)
        if told.is_final:
            raise Refused(told, _code_of(error.response)) from error
        raise Undelivered(told) from error
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
        told = told or Failure(_SENSELESS, status)
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
