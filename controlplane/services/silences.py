"""Silences: nothing is sent about what they name until they end, and they always end."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.utils import timezone

from controlplane.decisions.quiet import EVERY_DAY, quiet_until
from controlplane.errors import Invalid
from controlplane.models import AlertRule, Organisation, Silence
from controlplane.services import edits, rows
from controlplane.services.actors import Actor

NOUN = "silences"
LONGEST = timedelta(days=30)
LONGEST_RECURRING = timedelta(days=366)
_RECURS = ("weekdays", "from_time", "until_time")
_EDITABLE = frozenset(("reason", "ends_at", *_RECURS))


def create_silence(
    actor: Actor,
    *,
    organisation: Organisation | None,
    ends_at: datetime,
    reason: str,
    rule: str | None = None,
    subject_id: str | None = None,
    weekdays: Sequence[int] = (),
    from_time: time | None = None,
    until_time: time | None = None,
) -> Silence:
    """Keep a rule, a place or everything quiet until then; raises Invalid.

    `rule` is an id or name, None every rule; `subject_id` the id of a place as alerts have it. With
    `weekdays` (Monday is 0) and times it recurs, and may last for a year.
    """
    recurs = {"weekdays": weekdays, "from_time": from_time, "until_time": until_time}
    _check(ends_at, recurs)
    with transaction.atomic():
        silence = rows.insert(
            Silence(
                organisation=organisation,
                rule=None if rule is None else _rule(organisation, rule),
                subject_id=subject_id,
                reason=reason,
                created_by=actor.label[:255],
                ends_at=ends_at,
                **recurs | {"weekdays": sorted(weekdays)},
            )
        )
        note_recurring(timezone.now())
        edits.note(actor, "create", NOUN, silence, after=edits.values_of(silence))
    return silence


def update_silence(
    actor: Actor,
    *,
    silence_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Silence:
    """Change its end, reason or times; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    changes = dict(changes)
    if "weekdays" in changes:
        changes["weekdays"] = sorted(changes["weekdays"])
    with transaction.atomic():
        silence = rows.lock(Silence, silence_id, expected_version=expected_version)
        if not changes.keys().isdisjoint((*_RECURS, "ends_at")):
            recurs = {name: changes.get(name, getattr(silence, name)) for name in _RECURS}
            _check(changes.get("ends_at", silence.ends_at), recurs)
        changed = rows.change(silence, changes)
        if changed is not None:
            note_recurring(timezone.now())
            before, after = changed
            edits.note(actor, "update", NOUN, silence, before=before, after=after)
    return silence


def delete_silence(actor: Actor, *, silence_id: str, expected_version: int | None = None) -> None:
    """End it now; what still holds is told."""
    with transaction.atomic():
        silence = rows.lock(Silence, silence_id, expected_version=expected_version)
        before = edits.values_of(silence)
        rows.remove(silence)
        edits.note(actor, "delete", NOUN, silence, before=before)


def note_recurring(now: datetime) -> None:
    """Write down of each silence that recurs until when it holds; the database compares."""
    for row in Silence.objects.exclude(weekdays=[]).select_related("organisation"):
        until = _holds_until(row, now)
        if until != row.holds_until:
            Silence.objects.filter(pk=row.pk).update(holds_until=until)


def _holds_until(silence: Silence, now: datetime) -> datetime | None:
    """When the quiet that it keeps now is over, by the clocks of its organisation."""
    begins, ends = silence.from_time, silence.until_time
    assert begins is not None
    assert ends is not None
    home = silence.organisation
    zone = ZoneInfo("UTC" if home is None else home.time_zone)
    until = quiet_until(now, zone, begins, ends, silence.weekdays)
    return None if until is None else min(until, silence.ends_at)


def forget_old(now: datetime) -> int:
    """Remove what ended a day ago; the audit log has it."""
    count, _ = Silence.objects.filter(ends_at__lt=now - timedelta(days=1)).delete()
    return count


def _check(ends_at: datetime | None, recurs: Mapping[str, Any]) -> None:
    """Raise Invalid where there is no end, or half a recurrence."""
    weekdays, *times = (recurs[name] for name in _RECURS)
    now = timezone.now()
    longest = LONGEST_RECURRING if weekdays else LONGEST
    if ends_at is None or not now < ends_at <= now + longest:
        raise Invalid.field("ends_at", f"Give a time within the next {longest.days} days.")
    if not set(weekdays) <= EVERY_DAY or len(set(weekdays)) != len(weekdays):
        raise Invalid.field("weekdays", "Give days from 0, Monday, to 6, Sunday, each once.")
    if any(one is None for one in times) if weekdays else any(one is not None for one in times):
        told = "What recurs has days, and the time it begins and ends at; else leave all three out."
        raise Invalid.field("weekdays", told)


def _rule(organisation: Organisation | None, asked: str) -> AlertRule:
    found = AlertRule.objects.filter(organisation=organisation)
    rule = found.filter(pk=asked).first() or found.filter(name=asked).first()
    if rule is None:
        raise Invalid.field("rule", "There is no rule of this name or id.")
    return rule
