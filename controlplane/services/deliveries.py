"""The outbox: messages are queued by what they tell of, and each is sent until it is or given up.

A message is marked as being sent, and that is committed, before anybody calls a receiver. Whoever
changed its row has it. One left by a process that ended is taken again, under the same id.
"""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from controlplane.decisions.alert_kinds import ChannelKind, DeliveryKind, DeliveryState
from controlplane.decisions.alert_words import Content, digest_content, trial_content
from controlplane.decisions.deliveries import (
    ENOUGH_FAILURES,
    LEASE,
    TRIES,
    Failure,
    Holding,
    after_failure,
    held_until,
)
from controlplane.errors import Conflict
from controlplane.models import Channel, Delivery, Episode
from controlplane.notify.base import Sent
from controlplane.notify.registry import REGISTRY
from controlplane.services import edits, rows
from controlplane.services.actors import Actor, Via, system_actor

KEPT_FOR = timedelta(days=90)
_SWITCHED_OFF = "The channel was switched off before this was sent."
RESENDABLE = (DeliveryState.FAILED, DeliveryState.UNKNOWN)
THREADED = tuple(kind.value for kind in ChannelKind if REGISTRY[kind].threads)
_LEFT = "Processes that sent it ended before they could tell what came of it."

log = structlog.get_logger(__name__)


def queue(
    channel: Channel,
    kind: DeliveryKind,
    content: Content,
    *,
    now: datetime,
    episode: Episode | None = None,
) -> Delivery:
    """Put one message into the outbox, in the caller's transaction; it may be held back there."""
    until = held_until(_holding(channel), kind, str(content["severity"]), now=now)
    if until is not None:
        held = channel.deliveries.filter(state=DeliveryState.HELD.value)
        until = min(
            held.values_list("next_try_at", flat=True).order_by("next_try_at")[:1], default=until
        )
    state = DeliveryState.QUEUED if until is None else DeliveryState.HELD
    return Delivery.objects.create(
        organisation_id=channel.organisation_id,
        channel=channel,
        episode=episode,
        kind=kind.value,
        content=content,
        state=state.value,
        next_try_at=until or now,
        created_at=now,
        updated_at=now,
    )


def _holding(channel: Channel) -> Holding:
    home = channel.organisation
    return Holding(
        digest_s=channel.digest_s,
        quiet_from=channel.quiet_from,
        quiet_until=channel.quiet_until,
        critical_passes=channel.critical_passes,
        zone=ZoneInfo("UTC" if home is None else home.time_zone),
    )


def release_held(now: datetime) -> int:
    """Queue what channels held back for long enough, several as one; returns how many messages.

    Whoever locks a channel first does it; the next finds nothing held.
    """
    held = Delivery.objects.filter(state=DeliveryState.HELD.value)
    due = held.filter(next_try_at__lte=now, channel__is_enabled=True)
    channels = list(due.order_by("channel_id").values_list("channel_id", flat=True).distinct())
    return sum(_release(pk, now) for pk in channels)


def _release(channel_id: str, now: datetime) -> int:
    with transaction.atomic():
        channel = Channel.objects.select_for_update().filter(pk=channel_id).first()
        if channel is None:
            return 0
        mine = channel.deliveries.filter(state=DeliveryState.HELD.value)
        rows_held = list(mine.select_for_update().order_by("created_at", "pk"))
        if not rows_held:
            return 0
        changed: dict[str, Any] = {"updated_at": now, "version": F("version") + 1}
        found = Delivery.objects.filter(pk__in=[one.pk for one in rows_held])
        if len(rows_held) == 1:
            return found.update(state=DeliveryState.QUEUED.value, next_try_at=now, **changed)
        content = digest_content([one.content for one in rows_held])
        told = queue(channel, DeliveryKind.DIGEST, content, now=now)
        found.update(state=DeliveryState.FOLDED.value, digest=told, **changed)
    return 1


def queue_about_switch(organisation_id: str, content: Content) -> None:
    """Tell every channel that is marked for it of a kill switch, the installation's too."""
    marked = Channel.objects.filter(tells_switches=True, is_enabled=True)
    home = Q(organisation_id=organisation_id) | Q(organisation__isnull=True)
    now = timezone.now()
    for channel in marked.filter(home).order_by("pk"):
        queue(channel, DeliveryKind.SWITCHED, content, now=now)


def send_test(actor: Actor, *, channel_id: str) -> Delivery:
    """Queue a message that says it is a test; raises NotFound, or Conflict if the channel is off.

    The jobs send it as any other, so it tests what alerts go through.
    """
    with transaction.atomic():
        channel = rows.lock(Channel, channel_id)
        if not channel.is_enabled:
            raise Conflict("The channel is off; switch it on first.")
        delivery = queue(
            channel, DeliveryKind.TEST, trial_content(channel.name), now=timezone.now()
        )
        edits.note(actor, "test", "channels", channel, after={"delivery": delivery.pk})
    return delivery


def take(now: datetime) -> Delivery | None:
    """Take the message that is due longest, of channels that may be asked now; None: none is."""
    waits = Q(channel__waits_until__isnull=True) | Q(channel__waits_until__lte=now)
    due = Q(state=DeliveryState.QUEUED.value, next_try_at__lte=now)
    # the first message of a thread goes out alone: what it is called is not known before
    due &= ~Q(channel__kind__in=THREADED) | ~Exists(_earlier_of_alert())
    left = Q(state=DeliveryState.SENDING.value, taken_at__lte=now - LEASE, attempts__lt=TRIES)
    with transaction.atomic():
        found = (
            Delivery.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("channel__organisation")
            .filter(waits, due | left, channel__is_enabled=True)
            .order_by("next_try_at", "pk")
            .first()
        )
        if found is None:
            return None
        found.attempts += 1
        # whoever left it may have sent it
        found.is_uncertain |= found.state == DeliveryState.SENDING
        found.state = DeliveryState.SENDING.value
        Delivery.objects.filter(pk=found.pk).update(
            state=found.state,
            attempts=found.attempts,
            is_uncertain=found.is_uncertain,
            taken_at=now,
            updated_at=now,
            version=F("version") + 1,
        )
    return found


def _earlier_of_alert() -> QuerySet[Delivery]:
    """Inside a query of messages: those about the same alert, by the same channel, that came
    before and are under way."""
    return Delivery.objects.filter(
        Q(created_at__lt=OuterRef("created_at"))
        | Q(created_at=OuterRef("created_at"), pk__lt=OuterRef("pk")),
        episode_id=OuterRef("episode_id"),
        channel_id=OuterRef("channel_id"),
        state__in=(DeliveryState.QUEUED.value, DeliveryState.SENDING.value),
    )


def give_up_left(now: datetime) -> int:
    """Give up messages that no process lived to tell of, however often one tried."""
    left = Delivery.objects.filter(state=DeliveryState.SENDING.value, attempts__gte=TRIES)
    return left.filter(taken_at__lte=now - LEASE).update(
        state=DeliveryState.FAILED.value,
        error=_LEFT,
        updated_at=now,
        version=F("version") + 1,
    )


def note_sent(delivery: Delivery, sent: Sent, now: datetime) -> bool:
    """Write down that this attempt reached its receiver; False if it isn't the last one any more.

    A success ends whatever the channel was held for.
    """
    with transaction.atomic():
        is_mine = _conclude(
            delivery,
            state=DeliveryState.SENT.value,
            sent_at=now,
            status=sent.status,
            receipt=sent.receipt,
            error="",
        )
        if is_mine and sent.is_thread_lost and delivery.episode_id is not None:
            others = Delivery.objects.filter(
                episode_id=delivery.episode_id, channel_id=delivery.channel_id
            )
            others.exclude(pk=delivery.pk).update(receipt="")
        Channel.objects.filter(pk=delivery.channel_id).update(
            failures=0, waits_until=None, last_sent_at=now
        )
    return is_mine


def note_unknown(delivery: Delivery, words: str, now: datetime) -> bool:
    """Write down that nobody can find out whether it went out; it isn't sent again by itself."""
    return _conclude(
        delivery, state=DeliveryState.UNKNOWN.value, next_try_at=now, error=words[:500]
    )


def note_failure(delivery: Delivery, failure: Failure, now: datetime) -> bool:
    """Write down why this attempt failed, and when there is another; a channel may end by it.

    False if it isn't the last attempt any more.
    """
    following = after_failure(failure, attempts=delivery.attempts, now=now)
    state = DeliveryState.FAILED if following.at is None else DeliveryState.QUEUED
    with transaction.atomic():
        is_mine = _conclude(
            delivery,
            state=state.value,
            next_try_at=following.at or now,
            status=failure.status,
            error=failure.words[:500],
            is_uncertain=delivery.is_uncertain or failure.is_uncertain,
        )
        if not is_mine:
            return False
        channel = rows.lock(Channel, delivery.channel_id)
        channel.failures += following.weight
        channel.waits_until = following.channel_waits_until
        channel.save(update_fields=["failures", "waits_until"])
        if channel.failures >= ENOUGH_FAILURES and channel.is_enabled:
            _switch_off(channel, failure, now)
    return True


def _conclude(delivery: Delivery, **values: object) -> bool:
    """Change the row if it is still this attempt's."""
    mine = Delivery.objects.filter(
        pk=delivery.pk, state=DeliveryState.SENDING.value, attempts=delivery.attempts
    )
    changed = mine.update(**values, version=F("version") + 1, updated_at=timezone.now())
    return changed == 1


def _switch_off(channel: Channel, failure: Failure, now: datetime) -> None:
    reason = f"It kept failing: {failure.words}"[:500]
    changed = rows.change(channel, {"is_enabled": False, "disabled_reason": reason})
    assert changed is not None
    before, after = changed
    clock = system_actor("jobs", via=Via.JOB, reason="It kept failing.")
    edits.note(clock, "disable", "channels", channel, before=before, after=after)
    drop_waiting(channel, now)
    log.warning("channel switched off", channel=channel.pk, why=failure.words)


def forget_threads(channel: Channel) -> int:
    """Have what is told next begin threads of its own, where the channel leads now."""
    return channel.deliveries.exclude(receipt="").update(receipt="")


def drop_waiting(channel: Channel, now: datetime) -> int:
    """Give up what waits for a channel that goes off, so that it comes back without a burst."""
    kept = (DeliveryState.QUEUED.value, DeliveryState.HELD.value)
    waiting = Delivery.objects.filter(channel=channel, state__in=kept)
    return waiting.update(
        state=DeliveryState.FAILED.value,
        error=_SWITCHED_OFF,
        updated_at=now,
        version=F("version") + 1,
    )


def resend(actor: Actor, *, delivery_id: str, expected_version: int | None = None) -> Delivery:
    """Queue a message again that was given up, or of which nobody knows whether it went out.

    Under the same id. Raises Conflict otherwise.
    """
    with transaction.atomic():
        delivery = rows.lock(Delivery, delivery_id, expected_version=expected_version)
        if delivery.state not in RESENDABLE:
            told = f"The message is {delivery.state}; only failed and unknown ones are sent again."
            raise Conflict(told)
        if not delivery.channel.is_enabled:
            raise Conflict("The channel is off; switch it on first.")
        changed = rows.change(
            delivery,
            {
                "state": DeliveryState.QUEUED.value,
                "attempts": 0,
                "is_uncertain": False,
                "next_try_at": timezone.now(),
                "error": "",
                "status": None,
            },
        )
        assert changed is not None
        before, _ = changed
        told = {"state": before["state"]}
        edits.note(
            actor, "resend", "deliveries", delivery, before=told, after={"state": delivery.state}
        )
    return delivery


def forget_old(now: datetime) -> int:
    """Remove messages that are old and went out or were given up."""
    waits = (DeliveryState.QUEUED, DeliveryState.SENDING, DeliveryState.HELD)
    over = [one.value for one in DeliveryState if one not in waits]
    old = Delivery.objects.filter(created_at__lt=now - KEPT_FOR, state__in=over)
    count, _ = old.delete()
    return count
