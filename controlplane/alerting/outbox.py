"""The sending of what waits in the outbox: one message at a time, each marked before its call."""

import time
from collections.abc import Callable
from datetime import datetime

import structlog
from django.conf import settings

from controlplane.decisions.alert_kinds import ChannelKind
from controlplane.decisions.deliveries import Failure
from controlplane.models import Delivery
from controlplane.notify.base import ChannelType, Message, Sent, Target, Undelivered
from controlplane.notify.registry import REGISTRY
from controlplane.selectors.deliveries import thread_of
from controlplane.services import deliveries
from controlplane.services.channels import target_of
from inference.contract.sealing import SealError

BUDGET_S = 8.0
"""A pass begins no call after this: the jobs have other work that is due every few seconds."""

_SEALED = "Its address or secret can't be opened with this data key; give it again."
_OURS = "An error of ours ended it; the log has more."

_NOBODY_KNOWS = "It may have gone out, and nobody can find out; send it again if it is wanted."

log = structlog.get_logger(__name__)


class Unfindable(Exception):
    """A receiver that won't say whether it has a message."""


def send_due(clock: Callable[[], datetime], *, budget_s: float = BUDGET_S) -> int:
    """Send what is due, as far as time allows; returns how many attempts were made."""
    deliveries.give_up_left(clock())
    deliveries.release_held(clock())
    ends = time.monotonic() + budget_s
    attempts = 0
    while time.monotonic() < ends:
        delivery = deliveries.take(clock())
        if delivery is None:
            break
        attempts += 1
        send(delivery, clock)
    return attempts


def send(delivery: Delivery, clock: Callable[[], datetime]) -> None:
    """Make one attempt, and write down what came of it."""
    channel = delivery.channel
    known = REGISTRY[ChannelKind(channel.kind)]
    message = Message(
        id=delivery.pk,
        kind=delivery.kind,
        at=delivery.created_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        content=delivery.content,
        console=settings.HEADWORKS.console_address,
        thread=thread_of(delivery) if known.threads else "",
    )
    try:
        if delivery.is_uncertain and not known.takes_repeats and known.find is None:
            deliveries.note_unknown(delivery, _NOBODY_KNOWS, clock())
            return
        sent = _handed_over(known, target_of(channel), message, is_repeat=delivery.is_uncertain)
    except Unfindable as error:
        deliveries.note_unknown(delivery, f"{_NOBODY_KNOWS} {error}", clock())
    except Undelivered as error:
        _note(delivery, error.failure, clock())
    except SealError:
        _note(delivery, Failure(_SEALED, is_final=True), clock())
    except Exception:
        log.exception("message could not be sent", delivery=delivery.pk, channel=channel.pk)
        # it may have come after the receiver took it
        _note(delivery, Failure(_OURS, is_uncertain=True), clock())
    else:
        deliveries.note_sent(delivery, sent, clock())


def _handed_over(known: ChannelType, target: Target, message: Message, *, is_repeat: bool) -> Sent:
    """Send it, unless an attempt that nobody heard of did already; raises Undelivered."""
    if not is_repeat or known.takes_repeats or known.find is None:
        return known.send(target, message)
    try:
        found = known.find(target, message)
    except Undelivered as error:
        if error.failure.is_final:
            raise Unfindable(error.failure.words) from error
        raise
    return known.send(target, message) if found is None else found


def _note(delivery: Delivery, failure: Failure, now: datetime) -> None:
    log.warning(
        "message not delivered",
        delivery=delivery.pk,
        channel=delivery.channel_id,
        attempts=delivery.attempts,
        why=failure.words,
    )
    deliveries.note_failure(delivery, failure, now)
