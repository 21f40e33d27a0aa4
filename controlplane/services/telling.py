"""Who is told of alerts, and when: what fired, what still holds, what nobody took up, what ended.

Whoever changed the mark of an alert has told of it; messages are queued in the same transaction.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import (
    Case,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)

from controlplane.decisions.alert_kinds import (
    AlertKind,
    DeliveryKind,
    EpisodeState,
)
from controlplane.decisions.alert_words import Told, content_of
from controlplane.models import Channel, Episode, RuleChannel
from controlplane.selectors.alerts import silences_of_episode
from controlplane.selectors.deliveries import list_threads
from controlplane.services import deliveries
from controlplane.services.silences import note_recurring

TOLD_ALONE = 3
"""Of more alerts that come at once, a channel gets one message that lists them."""

_END_TOLD_WITHIN = timedelta(hours=1)
_SECOND = timedelta(seconds=1)

Reached = Callable[[Episode, int], bool]
"""Whether the channels of a step are told of an alert."""


def tell_due(now: datetime) -> int:
    """Queue all that is to be told now; returns how many messages.

    What is silenced waits until its silence is over, and then is told if it still holds.
    """
    with transaction.atomic():
        note_recurring(now)
        _wake(now)
        is_silenced = Exists(silences_of_episode(now))
        fired = _locked(Episode.objects.filter(told_at__isnull=True, state=EpisodeState.OPEN.value))
        told = _tell(DeliveryKind.FIRED, fired.exclude(is_silenced), now, _at_once)
        told += _tell(DeliveryKind.WORSENED, _worsened().exclude(is_silenced), now, _so_far)
        told += _tell(DeliveryKind.ESCALATED, _untaken(now).exclude(is_silenced), now, _next_step)
        told += _tell(DeliveryKind.REMINDED, _due_again(now).exclude(is_silenced), now, _so_far)
        recent = Q(resolved_at__gte=now - _END_TOLD_WITHIN, told_at__isnull=False)
        ended = _locked(Episode.objects.filter(recent, end_told_at__isnull=True))
        quiet = [one.pk for one in ended.filter(Q(rule__tells_resolved=False) | is_silenced)]
        queue_updates(Episode.objects.filter(pk__in=quiet), now)
        Episode.objects.filter(pk__in=quiet).update(end_told_at=now)
        told += _tell(DeliveryKind.RESOLVED, ended, now, _so_far)
    return told


def _at_once(episode: Episode, step: int) -> bool:
    return step == 0


def _so_far(episode: Episode, step: int) -> bool:
    return step <= episode.escalated


def _next_step(episode: Episode, step: int) -> bool:
    return step == episode.escalated + 1


def _locked(found: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those nobody else tells of at this moment."""
    found = found.filter(rule__isnull=False).select_related("rule")
    return found.select_for_update(skip_locked=True, of=("self",)).order_by("opened_at", "pk")


def _told_of() -> QuerySet[Episode]:
    """What holds, was told, and nobody has taken up."""
    return Episode.objects.filter(state=EpisodeState.OPEN.value, told_at__isnull=False)


def _worsened() -> QuerySet[Episode]:
    """Alerts that were told, and became critical since."""
    return _locked(_told_of().filter(worsened_at__isnull=False, worse_told_at__isnull=True))


def _untaken(now: datetime) -> QuerySet[Episode]:
    """Alerts that nobody took up for as long as their rule waits for the next step."""
    following = RuleChannel.objects.filter(
        rule=OuterRef("rule"), step=OuterRef("escalated") + Value(1)
    )
    waited = _seconds((F("escalated") + Value(1)) * F("rule__escalates_after_s"))
    found = _told_of().filter(Exists(following), rule__escalates_after_s__gt=0)
    return _locked(found.filter(told_at__lte=Value(now) - waited))


def _due_again(now: datetime) -> QuerySet[Episode]:
    """Alerts whose rule reminds of them, and that nobody was told of for so long."""
    found = _told_of().filter(rule__reminds_every_s__gt=0)
    return _locked(found.filter(reminded_at__lte=Value(now) - _seconds(F("rule__reminds_every_s"))))


def _seconds(count: object) -> ExpressionWrapper:
    return ExpressionWrapper(count * Value(_SECOND), output_field=DurationField())  # type: ignore[operator]


def _wake(now: datetime) -> None:
    """Open again what a snooze is over of, and remind of it; escalation begins anew."""
    over = Episode.objects.filter(state=EpisodeState.SNOOZED.value, snoozed_until__lte=now)
    opened = {"state": EpisodeState.OPEN.value, "snoozed_until": None, "updated_at": now}
    found = _locked(over).exclude(Exists(silences_of_episode(now)))
    woken = [one.pk for one in found]
    over.filter(Q(pk__in=woken) | Q(rule__isnull=True)).update(**opened, version=F("version") + 1)
    _tell(DeliveryKind.REMINDED, _locked(Episode.objects.filter(pk__in=woken)), now, _so_far)
    Episode.objects.filter(pk__in=woken).update(told_at=now)


_MARKS: Mapping[DeliveryKind, Callable[[datetime], dict[str, object]]] = {
    # what fires as what it became meanwhile isn't told as that again
    DeliveryKind.FIRED: lambda now: {
        "told_at": now,
        "reminded_at": now,
        "worse_told_at": Case(When(worsened_at__isnull=False, then=Value(now))),
    },
    DeliveryKind.REMINDED: lambda now: {"reminded_at": now},
    DeliveryKind.WORSENED: lambda now: {
        "worse_told_at": now,
        "told_at": now,
        "reminded_at": now,
    },
    DeliveryKind.ESCALATED: lambda now: {"escalated": F("escalated") + 1, "reminded_at": now},
    DeliveryKind.RESOLVED: lambda now: {"end_told_at": now},
}


def _tell(kind: DeliveryKind, found: QuerySet[Episode], now: datetime, is_reached: Reached) -> int:
    """Queue one message a channel and alert, one alone where there are many; and mark them told."""
    episodes = list(found)
    if not episodes:
        return 0
    by_channel: dict[Channel, list[Episode]] = defaultdict(list)
    channels = _channels_of(episodes)
    for episode in episodes:
        for channel, step in channels[episode.rule_id]:
            if is_reached(episode, step):
                by_channel[channel].append(episode)
    count = 0
    for channel, mine in sorted(by_channel.items(), key=lambda one: one[0].pk):
        for group in _groups(_highest(mine)):
            content = content_of(kind, [told_of(one) for one in group])
            only = group[0] if len(group) == 1 else None
            deliveries.queue(channel, kind, content, now=now, episode=only)
            count += 1
    Episode.objects.filter(pk__in=[one.pk for one in episodes]).update(**_MARKS[kind](now))
    return count


def _channels_of(episodes: Iterable[Episode]) -> Mapping[str | None, Sequence[tuple[Channel, int]]]:
    """By rule the channels that are on, with their steps."""
    rows = RuleChannel.objects.filter(
        rule__in={one.rule_id for one in episodes}, channel__is_enabled=True
    )
    found: dict[str | None, list[tuple[Channel, int]]] = defaultdict(list)
    for row in rows.select_related("channel__organisation"):
        found[row.rule_id].append((row.channel, row.step))
    return found


def _highest(episodes: Sequence[Episode]) -> Sequence[Episode]:
    """Of those that one rule has at one place at different thresholds, the highest: it tells all.

    Whatever crosses several thresholds at once is one thing that happened.
    """
    found: dict[tuple[str | None, str], Episode] = {}
    for one in sorted(episodes, key=lambda each: each.threshold):
        place = one.subject_id
        if one.kind == AlertKind.BUDGET_USED:
            place = place.rpartition(":")[0]
        found[one.rule_id, place] = one
    return [one for one in episodes if one in found.values()]


def _groups(episodes: Sequence[Episode]) -> Iterable[Sequence[Episode]]:
    return [[one] for one in episodes] if len(episodes) <= TOLD_ALONE else [episodes]


def queue_updates(episodes: Iterable[Episode], now: datetime) -> None:
    """Have channels that show these alerts show them as they are now."""
    mine = {one.pk: one for one in episodes}
    for pk, channels in list_threads(mine, deliveries.THREADED).items():
        content = content_of(DeliveryKind.UPDATED, [told_of(mine[pk])])
        for channel in channels:
            deliveries.queue(channel, DeliveryKind.UPDATED, content, now=now, episode=mine[pk])


def told_of(episode: Episode) -> Told:
    """An alert as messages tell it."""
    return Told(
        id=episode.pk,
        name=episode.name,
        kind=episode.kind,
        scope=episode.scope,
        subject_id=episode.subject_id,
        subject_name=episode.subject_name,
        threshold=episode.threshold,
        window_s=episode.window_s,
        severity=episode.severity,
        value=episode.value,
        peak=episode.peak,
        opened_at=episode.opened_at,
        resolved_at=episode.resolved_at,
        resolved_why=episode.resolved_why,
        state=episode.state,
        acknowledged_by=episode.acknowledged_by,
        snoozed_until=episode.snoozed_until,
        detail=episode.detail,
        runbook=episode.runbook,
        is_flapping=episode.is_flapping,
    )
