"""Alerts as they come and go: opened once, kept, told once, and ended.

Whoever looks at a rule locks it, so two who look at the same time do it one after the other; and
the database holds one alert at most of a rule, place, window and threshold that isn't over.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, F, Q, QuerySet
from django.db.models.functions import Greatest
from django.utils import timezone

from controlplane.decisions.alert_kinds import (
    AlertKind,
    AlertScope,
    DeliveryKind,
    EpisodeState,
    Severity,
)
from controlplane.decisions.alert_words import Told, content_of
from controlplane.decisions.alerts import Standing, Terms, Verdict, judge
from controlplane.errors import Conflict, Invalid
from controlplane.models import AlertRule, AlertStanding, Channel, Episode
from controlplane.selectors.alerts import Place, has_rule_for_dead_channels, silences_of_episode
from controlplane.services import deliveries, edits, rows
from controlplane.services.actors import Actor

LONGEST_SNOOZE = timedelta(days=7)
TOLD_ALONE = 3
"""Of more alerts that come at once, a channel gets one message that lists them."""

KEPT_FOR = timedelta(days=90)
_END_TOLD_WITHIN = timedelta(hours=1)
_GONE = "What it was about is gone."
_SETTLED = "Its period is over, or there is more of it now."
_LOWER = "The value is lower again."

Values = Mapping[str, float | None]


def note_looks(
    rule: AlertRule, places: Sequence[Place], values: Values, now: datetime
) -> Mapping[str, Verdict]:
    """Write down one look at every place of a rule, and what follows; None is no data.

    Nothing is done if the rule was changed since it was read, or somebody looked at it later.
    """
    with transaction.atomic():
        mine = AlertRule.objects.select_for_update().filter(pk=rule.pk, version=rule.version)
        current = mine.filter(is_enabled=True).first()
        if current is None:
            return {}
        known = {one.subject_id: one for one in current.standings.all()}
        if any(one.seen_at >= now for one in known.values()):
            return {}
        verdicts: dict[str, Verdict] = {}
        looks: list[tuple[str, Standing, float | None]] = []
        for place in places:
            if place.threshold is not None and place.threshold < current.threshold:
                continue
            value = values.get(place.id)
            terms = Terms(place.threshold or current.threshold, current.for_s)
            standing, verdict = judge(terms, _standing(known.get(place.id)), value, now)
            looks.append((place.id, standing, value))
            verdicts[place.id] = verdict
            _follow(current, place, verdict, value, now)
        _keep_standings(current, looks)
        gone = known.keys() - {place.id for place in places}
        if gone:
            current.standings.filter(subject_id__in=gone).delete()
            why = _SETTLED if current.kind == AlertKind.BUDGET_USED else _GONE
            end_episodes(current.episodes.filter(subject_id__in=gone), why, now)
    return verdicts


def _standing(row: AlertStanding | None) -> Standing:
    if row is None:
        return Standing()
    return Standing(row.is_firing, row.breached_since, row.cleared_since, row.seen_at)


_UPSERT = """
INSERT INTO controlplane_alertstanding
  (rule_id, subject_id, is_firing, breached_since, cleared_since, seen_at, value)
SELECT %s, * FROM unnest(%s::text[], %s::bool[], %s::timestamptz[], %s::timestamptz[],
  %s::timestamptz[], %s::float8[])
ON CONFLICT (rule_id, subject_id) DO UPDATE SET is_firing = excluded.is_firing,
  breached_since = excluded.breached_since, cleared_since = excluded.cleared_since,
  seen_at = excluded.seen_at, value = excluded.value
"""


def _keep_standings(rule: AlertRule, looks: Sequence[tuple[str, Standing, float | None]]) -> None:
    columns = [
        [pk for pk, _, _ in looks],
        [one.is_firing for _, one, _ in looks],
        [one.breached_since for _, one, _ in looks],
        [one.cleared_since for _, one, _ in looks],
        [one.seen_at for _, one, _ in looks],
        [value for _, _, value in looks],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, [rule.pk, *columns])


def _follow(
    rule: AlertRule, place: Place, verdict: Verdict, value: float | None, now: datetime
) -> None:
    """Do what one look asks for."""
    if verdict is Verdict.FIRE:
        _open(rule, place, value, now)
    elif verdict is Verdict.KEEP:
        held = _held(rule.episodes.filter(subject_id=place.id))
        seen: dict[str, Any] = {"seen_at": now, "value": value, "subject_name": place.name}
        if value is not None:
            seen["peak"] = Greatest(F("peak"), value)
        held.update(**seen)
    elif verdict is Verdict.RESOLVE:
        end_episodes(rule.episodes.filter(subject_id=place.id), _LOWER, now, value=value)


def _open(rule: AlertRule, place: Place, value: float | None, now: datetime) -> None:
    _insert(
        Episode(
            organisation_id=rule.organisation_id,
            rule=rule,
            name=rule.name,
            kind=rule.kind,
            scope=rule.scope,
            subject_id=place.id,
            subject_name=place.name,
            threshold=place.threshold or rule.threshold,
            window_s=rule.window_s,
            severity=rule.severity,
            value=value,
            peak=value,
            opened_at=now,
            seen_at=now,
        )
    )


def _insert(episode: Episode) -> None:
    """Insert it unless one like it isn't over; there is no check to race with."""
    Episode.objects.bulk_create([episode], ignore_conflicts=True)


def _held(found: QuerySet[Episode]) -> QuerySet[Episode]:
    return found.exclude(state=EpisodeState.RESOLVED.value)


def end_episodes(
    found: QuerySet[Episode],
    why: str,
    now: datetime,
    *,
    value: float | None = None,
    is_told: bool = True,
) -> int:
    """End those that hold; `is_told` False: nobody is told, for a person ended them."""
    ended: dict[str, Any] = {
        "state": EpisodeState.RESOLVED.value,
        "resolved_at": now,
        "resolved_why": why,
        "snoozed_until": None,
        "updated_at": now,
        "version": F("version") + 1,
    }
    if value is not None:
        ended["value"] = value
    if not is_told:
        ended["end_told_at"] = now
    return _held(found).update(**ended)


def note_dead_channels(now: datetime) -> None:
    """Have an alert of its own for each dead channel that no rule tells of, as long as it is."""
    dead = list(Channel.objects.filter(is_enabled=False).exclude(disabled_reason=""))
    ours = Episode.objects.filter(rule__isnull=True, kind=AlertKind.DEAD_CHANNEL.value)
    told = []
    for channel in dead:
        if has_rule_for_dead_channels(channel.organisation_id):
            continue
        told.append(channel.pk)
        _insert(
            Episode(
                organisation_id=channel.organisation_id,
                name="A channel is dead",
                kind=AlertKind.DEAD_CHANNEL.value,
                scope=AlertScope.ORGANISATION.value,
                subject_id=channel.pk,
                subject_name=f"channel {channel.name}",
                threshold=1,
                severity=Severity.CRITICAL.value,
                value=1,
                peak=1,
                opened_at=now,
                seen_at=now,
                told_at=now,
            )
        )
    end_episodes(ours.exclude(subject_id__in=told), "The channel is on again, or gone.", now)


def tell_due(now: datetime) -> int:
    """Queue the messages about what fired, what a snooze is over of, and what ended.

    Returns how many. What is silenced waits until its silence is over, and then is told if it
    still holds.
    """
    with transaction.atomic():
        _wake(now)
        is_silenced = Exists(silences_of_episode(now))
        fired = _locked(Episode.objects.filter(told_at__isnull=True, state=EpisodeState.OPEN.value))
        told = _tell(DeliveryKind.FIRED, fired.exclude(is_silenced), now, "told_at")
        recent = Q(resolved_at__gte=now - _END_TOLD_WITHIN, told_at__isnull=False)
        ended = _locked(Episode.objects.filter(recent, end_told_at__isnull=True))
        quiet = ended.filter(Q(rule__tells_resolved=False) | is_silenced)
        Episode.objects.filter(pk__in=[one.pk for one in quiet]).update(end_told_at=now)
        told += _tell(DeliveryKind.RESOLVED, ended, now, "end_told_at")
    return told


def _locked(found: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those nobody else tells of at this moment."""
    found = found.filter(rule__isnull=False).select_related("rule")
    return found.select_for_update(skip_locked=True, of=("self",)).order_by("opened_at", "pk")


def _wake(now: datetime) -> None:
    """Open again what a snooze is over of, and remind of it."""
    over = Episode.objects.filter(state=EpisodeState.SNOOZED.value, snoozed_until__lte=now)
    found = _locked(over).exclude(Exists(silences_of_episode(now)))
    _tell(DeliveryKind.REMINDED, found, now, "told_at")
    over.filter(Q(told_at=now) | Q(rule__isnull=True)).update(
        state=EpisodeState.OPEN.value,
        snoozed_until=None,
        updated_at=now,
        version=F("version") + 1,
    )


def _tell(kind: DeliveryKind, found: QuerySet[Episode], now: datetime, mark: str) -> int:
    """Queue one message a channel and alert, one alone where there are many; and mark them told."""
    episodes = list(found)
    by_channel: dict[Channel, list[Episode]] = defaultdict(list)
    channels = {
        rule: list(rule.channels.filter(is_enabled=True)) for rule in {e.rule for e in episodes}
    }
    for episode in episodes:
        for channel in channels[episode.rule]:
            by_channel[channel].append(episode)
    count = 0
    for channel, mine in sorted(by_channel.items(), key=lambda one: one[0].pk):
        for group in _groups(_highest(mine)):
            content = content_of(kind, [_told(one) for one in group])
            only = group[0] if len(group) == 1 else None
            deliveries.queue(channel, kind, content, now=now, episode=only)
            count += 1
    Episode.objects.filter(pk__in=[one.pk for one in episodes]).update(**{mark: now})
    return count


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


def _told(episode: Episode) -> Told:
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
    )


def update_episode(
    actor: Actor,
    *,
    episode_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Episode:
    """Acknowledge an alert, snooze it until a time, open it again, or end it by hand.

    `changes` are `state` and, with snoozed, `snoozed_until`. One that is over stays over. Ended by
    hand it fires anew once its rule finds it so for its whole time. Raises Invalid or Conflict.
    """
    edits.refuse_unknown(changes, frozenset(("state", "snoozed_until")))
    now = timezone.now()
    with transaction.atomic():
        episode = rows.lock(Episode, episode_id, expected_version=expected_version)
        if not changes:
            return episode
        if episode.state == EpisodeState.RESOLVED:
            raise Conflict("The alert is over.")
        values = _values_of(changes, actor, now)
        changed = rows.change(episode, values)
        if changed is not None:
            if episode.state == EpisodeState.RESOLVED and episode.rule is not None:
                episode.rule.standings.filter(subject_id=episode.subject_id).delete()
            before, after = changed
            edits.note(actor, "update", "alerts", episode, before=before, after=after)
    return episode


def _values_of(changes: Mapping[str, Any], actor: Actor, now: datetime) -> dict[str, Any]:
    state, until = changes.get("state"), changes.get("snoozed_until")
    if state is None:
        raise Invalid.field("state", "Say what it is to be.")
    if state not in list(EpisodeState):
        raise Invalid.field("state", "There is no such state.")
    if (state == EpisodeState.SNOOZED) != (until is not None):
        message = "A snooze needs its end, and nothing else has one."
        raise Invalid.field("snoozed_until", message)
    values: dict[str, Any] = {"state": state, "snoozed_until": until}
    if state == EpisodeState.SNOOZED and not now < until <= now + LONGEST_SNOOZE:
        raise Invalid.field("snoozed_until", "Give a time within the next 7 days.")
    if state == EpisodeState.ACKNOWLEDGED:
        values |= {"acknowledged_at": now, "acknowledged_by": actor.label[:255]}
    if state == EpisodeState.RESOLVED:
        who = f"Ended by {actor.label}."[:200]
        values |= {"resolved_at": now, "resolved_why": who, "end_told_at": now}
    return values


def forget_old(now: datetime) -> int:
    """Remove alerts that are long over."""
    count, _ = Episode.objects.filter(resolved_at__lt=now - KEPT_FOR).delete()
    return count
