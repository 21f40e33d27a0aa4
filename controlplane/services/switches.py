"""Kill switches: throwing one refuses what it names within a second; putting back serves again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.utils import timezone

from controlplane.decisions.alert_words import switch_content
from controlplane.errors import ControlPlaneError, Invalid
from controlplane.models import Organisation, Switch
from controlplane.redaction import scrub_text
from controlplane.services import edits, rows
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.deliveries import queue_about_switch
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import FIELD, find_subject, told_subject
from inference.contract.kinds import SwitchSubject

NOUN = "switches"
THROW, PUT_BACK, EXPIRE = "throw", "put_back", "expire"

_EDITABLE = frozenset(("reason", "expires_at"))

log = structlog.get_logger(__name__)


def throw_switch(
    actor: Actor,
    *,
    organisation: Organisation,
    subject: str,
    subject_id: str | None = None,
    reason: str = "",
    expires_at: datetime | None = None,
) -> Switch:
    """Turn something off until it is put back, or until a time; `reason` is told to callers.

    `subject_id` is an id or a name, None for the whole organisation. Raises Invalid, also if it is
    off already, or ProblemsFound.
    """
    _refuse_past(expires_at)
    with configuration_edit():
        found = find_subject(organisation, subject, subject_id)
        if found is None and subject != SwitchSubject.ORGANISATION:
            raise Invalid.field(FIELD, "Say which one.")
        _remove_expired_of(organisation, subject, found)
        switch = rows.insert(
            Switch(
                organisation=organisation,
                subject=subject,
                subject_id=found,
                reason=reason,
                expires_at=expires_at,
            )
        )
        edits.conclude(actor, THROW, NOUN, switch, after=_told(switch))
        _notify(actor, switch, is_off=True)
    return switch


def update_switch(
    actor: Actor,
    *,
    switch_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Switch:
    """Change what callers are told, or when it ends; raises as other edits do."""
    edits.refuse_unknown(changes, _EDITABLE)
    _refuse_past(changes.get("expires_at"))
    with configuration_edit():
        switch = rows.lock(Switch, switch_id, expected_version=expected_version)
        changed = rows.change(switch, changes)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", NOUN, switch, before=before, after=after)
    return switch


def put_back_switch(actor: Actor, *, switch_id: str, expected_version: int | None = None) -> None:
    """Serve again what was off; raises NotFound or VersionMismatch."""
    with configuration_edit():
        switch = rows.lock(Switch, switch_id, expected_version=expected_version)
        _remove(actor, PUT_BACK, switch)


def remove_expired_switches(now: datetime) -> int:
    """Remove switches whose time is over, each as an edit of the system's; returns how many.

    Gateways look at the time themselves, so nothing waits for this. One that can't be removed now
    is logged and tried again.
    """
    removed = 0
    for pk in list(Switch.objects.filter(expires_at__lte=now).values_list("pk", flat=True)):
        try:
            removed += _remove_if_expired(pk, now)
        except ControlPlaneError as error:
            log.error("expired switch not removed", switch=pk, why=error.detail)
    return removed


def _remove_if_expired(pk: str, now: datetime) -> int:
    with configuration_edit():
        # somebody may have given it more time, or put it back, meanwhile
        switch = Switch.objects.select_for_update().filter(pk=pk, expires_at__lte=now).first()
        if switch is None:
            return 0
        _remove(_clock(), EXPIRE, switch)
    return 1


def _remove_expired_of(organisation: Organisation, subject: str, subject_id: str | None) -> None:
    """Take away one that is over but still there, so that another can be thrown."""
    held = Switch.objects.filter(organisation=organisation, subject=subject, subject_id=subject_id)
    for switch in held.filter(expires_at__lte=timezone.now()):
        edits.note(_clock(), EXPIRE, NOUN, switch, before=_told(switch))
        rows.remove(switch)


def _remove(actor: Actor, action: str, switch: Switch) -> None:
    before = _told(switch)
    rows.remove(switch)
    edits.conclude(actor, action, NOUN, switch, before=before)
    _notify(actor, switch, is_off=False)


def _notify(actor: Actor, switch: Switch, *, is_off: bool) -> None:
    """Have the channels that are marked for it told, if the edit comes to pass."""
    content = switch_content(
        is_off=is_off,
        about=told_subject(switch.subject, switch.subject_id),
        organisation=switch.organisation.name,
        who=actor.label,
        reason=scrub_text(actor.reason),
        until=switch.expires_at,
    )
    queue_about_switch(switch.organisation_id, content)


def _told(switch: Switch) -> dict[str, Any]:
    """A switch as the audit trail tells it, with what it is about by name: that may go later."""
    about = told_subject(switch.subject, switch.subject_id)
    return {"name": about, **edits.values_of(switch)}


def _clock() -> Actor:
    return system_actor("jobs", via=Via.JOB, reason="Its time was over.")


def _refuse_past(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at <= timezone.now():
        message = "This time is past; put the switch back to end it now."
        raise Invalid.field("expires_at", message)
