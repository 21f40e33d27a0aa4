"""Alerts as they come and go: opened once, kept, and ended; `telling` tells of them.

Whoever looks at a rule locks it, so two who look at the same time do it one after the other; and
the database holds one alert at most of a rule, place, window and threshold that isn't over.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest
from django.utils import timezone

from controlplane.decisions.alert_kinds import (
    AlertKind,
    AlertScope,
    EpisodeState,
    NoData,
    Severity,
)
from controlplane.decisions.alerts import Standing, Terms, Verdict, judge
from controlplane.errors import Conflict, Invalid
from controlplane.models import AlertRule, AlertStanding, Channel, Episode
from controlplane.selectors.alerts import Place, has_rule_for_dead_channels
from controlplane.selectors.budget_places import still_near
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.telling import queue_updates

LONGEST_SNOOZE = timedelta(days=7)
KEPT_FOR = timedelta(days=90)
_WHY_LENGTH = 200
_GONE = "What it was about is gone."
_SETTLED = "Its period is over, or there is more of it now."
_LOWER = "The value is lower again."
_NO_DATA = "Nothing is known of it any more."

Values = Mapping[str, float | None]


def note_looks(
    rule: AlertRule,
    places: Sequence[Place],
    values: Values,
    now: datetime,
    *,
    said: Mapping[str, str] | None = None,
) -> Mapping[str, Verdict]:
    """Write down one look at every place of a rule, and what follows; None is no data.

    `said` is what values were compared with, by place. Nothing is done if the rule was changed
    since it was read, or somebody looked at it later.
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
            standing, verdict = judge(
                _terms(current, place), _standing(known.get(place.id)), value, now
            )
            looks.append((place.id, standing, value))
            verdicts[place.id] = verdict
            look = Look(
                value,
                (said or {}).get(place.id, ""),
                now,
                is_flapping=standing.is_flapping,
                is_critical=standing.is_critical or _is_grave(current, place),
            )
            _follow(current, place, verdict, look)
        _keep_standings(current, looks)
        gone = known.keys() - {place.id for place in places}
        if gone and current.kind == AlertKind.BUDGET_USED:
            # of many accounts some are left out of a look
            gone -= still_near(gone, now)
        if gone:
            current.standings.filter(subject_id__in=gone).delete()
            why = _SETTLED if current.scope == AlertScope.BUDGET else _GONE
            end_episodes(current.episodes.filter(subject_id__in=gone), why, now)
    return verdicts


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a place found."""

    value: float | None
    said: str
    now: datetime
    is_flapping: bool
    is_critical: bool


def _is_grave(rule: AlertRule, place: Place) -> bool:
    """Whether a place with a threshold of its own is critical: that is the graver one, or above."""
    grave, own = rule.critical_at, place.threshold
    return grave is not None and own is not None and own >= grave


def _terms(rule: AlertRule, place: Place) -> Terms:
    no_data = NoData(rule.on_no_data)
    if place.threshold is not None:
        # it is graver, or not, from its beginning
        return Terms(place.threshold, rule.for_s, no_data=no_data)
    return Terms(rule.threshold, rule.for_s, rule.clears_at, rule.critical_at, no_data)


def _standing(row: AlertStanding | None) -> Standing:
    if row is None:
        return Standing()
    return Standing(
        row.is_firing,
        row.breached_since,
        row.cleared_since,
        row.seen_at,
        tuple(row.fired_at),
        row.critical_since,
        row.is_critical,
    )


_UPSERT = """
INSERT INTO controlplane_alertstanding
  (rule_id, subject_id, is_firing, breached_since, cleared_since, seen_at, value,
   critical_since, is_critical, fired_at)
SELECT %s, subject_id, is_firing, breached_since, cleared_since, seen_at, value,
  critical_since, is_critical, ARRAY(SELECT json_array_elements_text(fired_at::json)::timestamptz)
FROM unnest(%s::text[], %s::bool[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[],
  %s::float8[], %s::timestamptz[], %s::bool[], %s::text[]) AS look
  (subject_id, is_firing, breached_since, cleared_since, seen_at, value, critical_since,
   is_critical, fired_at)
ON CONFLICT (rule_id, subject_id) DO UPDATE SET is_firing = excluded.is_firing,
  breached_since = excluded.breached_since, cleared_since = excluded.cleared_since,
  seen_at = excluded.seen_at, value = excluded.value, fired_at = excluded.fired_at,
  critical_since = excluded.critical_since, is_critical = excluded.is_critical
"""


def _keep_standings(rule: AlertRule, looks: Sequence[tuple[str, Standing, float | None]]) -> None:
    columns = [
        [pk for pk, _, _ in looks],
        [one.is_firing for _, one, _ in looks],
        [one.breached_since for _, one, _ in looks],
        [one.cleared_since for _, one, _ in looks],
        [one.seen_at for _, one, _ in looks],
        [value for _, _, value in looks],
        [one.critical_since for _, one, _ in looks],
        [one.is_critical for _, one, _ in looks],
        [json.dumps([at.isoformat() for at in one.fired_at]) for _, one, _ in looks],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, [rule.pk, *columns])


def _follow(rule: AlertRule, place: Place, verdict: Verdict, look: Look) -> None:
    """Do what one look asks for."""
    mine = rule.episodes.filter(subject_id=place.id)
    if verdict is Verdict.FIRE:
        _open(rule, place, look)
    elif verdict in (Verdict.KEEP, Verdict.WORSEN):
        seen: dict[str, Any] = {
            "seen_at": look.now,
            "value": look.value,
            "subject_name": place.name,
        }
        if look.value is not None:
            seen["peak"] = Greatest(F("peak"), look.value)
            if look.value >= (place.threshold or rule.threshold):
                seen["detail"] = look.said
        _held(mine).update(**seen)
        if verdict is Verdict.WORSEN:
            _worsen(mine, look.now)
    elif verdict is Verdict.RESOLVE:
        why = look.said if rule.kind == AlertKind.GATEWAY_SILENT and look.said else _LOWER
        if look.value is None:
            why = _NO_DATA
        end_episodes(mine, why[:_WHY_LENGTH], look.now, value=look.value)


def _worsen(mine: QuerySet[Episode], now: datetime) -> None:
    """Make an alert critical that wasn't; whoever has taken up the lesser one is asked again."""
    _held(mine).exclude(severity=Severity.CRITICAL.value).update(
        severity=Severity.CRITICAL.value,
        worsened_at=now,
        state=EpisodeState.OPEN.value,
        snoozed_until=None,
        escalated=0,
        updated_at=now,
        version=F("version") + 1,
    )


def _open(rule: AlertRule, place: Place, look: Look) -> None:
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
            severity=Severity.CRITICAL.value if look.is_critical else rule.severity,
            value=look.value,
            peak=look.value,
            opened_at=look.now,
            seen_at=look.now,
            is_flapping=look.is_flapping,
            detail=look.said,
            runbook=rule.runbook,
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
    if is_told:
        return _held(found).update(**ended)
    mine = list(_held(found).values_list("pk", flat=True))
    count = _held(Episode.objects.filter(pk__in=mine)).update(**ended)
    queue_updates(Episode.objects.filter(pk__in=mine), now)
    return count


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
            queue_updates([episode], now)
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
