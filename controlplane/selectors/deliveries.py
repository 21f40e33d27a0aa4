"""What the outbox must know of messages that went out, and what is counted of them."""

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Count

from controlplane.decisions.alert_kinds import DeliveryState
from controlplane.models import Channel, Delivery


def thread_of(delivery: Delivery) -> str:
    """What the receiver calls the first message about the same alert; "" if there is none."""
    if delivery.episode_id is None:
        return ""
    told = Delivery.objects.filter(
        episode_id=delivery.episode_id,
        channel_id=delivery.channel_id,
        state=DeliveryState.SENT.value,
    ).exclude(pk=delivery.pk)
    first = told.exclude(receipt="").order_by("sent_at").values_list("receipt", flat=True).first()
    return first or ""


def list_threads(
    episode_ids: Collection[str], kinds: Collection[str]
) -> Mapping[str, list[Channel]]:
    """By alert the channels of these kinds that show it."""
    rows = Delivery.objects.filter(
        episode_id__in=list(episode_ids),
        state=DeliveryState.SENT.value,
        channel__kind__in=list(kinds),
        channel__is_enabled=True,
    ).exclude(receipt="")
    found: dict[str, dict[str, Channel]] = {}
    for row in rows.select_related("channel__organisation"):
        assert row.episode_id is not None
        found.setdefault(row.episode_id, {})[row.channel_id] = row.channel
    return {pk: list(channels.values()) for pk, channels in found.items()}


def count_deliveries(since: datetime) -> Mapping[tuple[str, str], int]:
    """How many messages queued since then came how far, by kind of channel and state."""
    rows = Delivery.objects.filter(created_at__gte=since).values_list("channel__kind", "state")
    return {(kind, state): count for kind, state, count in rows.annotate(count=Count("pk"))}
