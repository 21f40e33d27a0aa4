"""Silences: nothing is sent about what they name until they end, and they always end."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.errors import Invalid
from controlplane.models import AlertRule, Organisation, Silence
from controlplane.services import edits, rows
from controlplane.services.actors import Actor

NOUN = "silences"
LONGEST = timedelta(days=30)
_EDITABLE = frozenset(("reason", "ends_at"))


def create_silence(
    actor: Actor,
    *,
    organisation: Organisation | None,
    ends_at: datetime,
    reason: str,
    rule: str | None = None,
    subject_id: str | None = None,
) -> Silence:
    """Keep a rule, a place or everything quiet until then; raises Invalid.

    `rule` is an id or name, None every rule; `subject_id` the id of a place as alerts have it.
    """
    _check_end(ends_at)
    with transaction.atomic():
        silence = rows.insert(
            Silence(
                organisation=organisation,
                rule=None if rule is None else _rule(organisation, rule),
                subject_id=subject_id,
                reason=reason,
                created_by=actor.label[:255],
                ends_at=ends_at,
            )
        )
        edits.note(actor, "create", NOUN, silence, after=edits.values_of(silence))
    return silence


def update_silence(
    actor: Actor,
    *,
    silence_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Silence:
    """Change its end or reason; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    if "ends_at" in changes:
        _check_end(changes["ends_at"])
    with transaction.atomic():
        silence = rows.lock(Silence, silence_id, expected_version=expected_version)
        changed = rows.change(silence, changes)
        if changed is not None:
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


def forget_old(now: datetime) -> int:
    """Remove what ended a day ago; the audit log has it."""
    count, _ = Silence.objects.filter(ends_at__lt=now - timedelta(days=1)).delete()
    return count


def _check_end(ends_at: datetime | None) -> None:
    now = timezone.now()
    if ends_at is None or not now < ends_at <= now + LONGEST:
        raise Invalid.field("ends_at", "Give a time within the next 30 days.")


def _rule(organisation: Organisation | None, asked: str) -> AlertRule:
    found = AlertRule.objects.filter(organisation=organisation)
    rule = found.filter(pk=asked).first() or found.filter(name=asked).first()
    if rule is None:
        raise Invalid.field("rule", "There is no rule of this name or id.")
    return rule
