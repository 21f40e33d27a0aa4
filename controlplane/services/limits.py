"""Edits of limits. Two that count the same may stand side by side; the smaller one decides."""

from collections.abc import Mapping
from typing import Any

from controlplane.models import Limit, Organisation
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import FIELD, find_subject
from inference.contract.kinds import Enforcement

_EDITABLE = frozenset(
    ("name", "subject", FIELD, "unit", "window", "amount", "enforcement", "is_enabled")
)


def create_limit(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    subject: str,
    unit: str,
    amount: int,
    subject_id: str | None = None,
    window: str | None = None,
    enforcement: str = Enforcement.LENIENT.value,
    is_enabled: bool = True,
) -> Limit:
    """Limit how much a subject may have; an amount of 0 is none.

    `subject_id` is the id or name of what is meant, None for each one of its kind apart. Raises
    Invalid or ProblemsFound.
    """
    with configuration_edit():
        limit = rows.insert(
            Limit(
                organisation=organisation,
                name=name,
                subject=subject,
                subject_id=find_subject(organisation, subject, subject_id),
                unit=unit,
                window=window,
                amount=amount,
                enforcement=enforcement,
                is_enabled=is_enabled,
            )
        )
        edits.conclude(actor, "create", "limits", limit, after=edits.values_of(limit))
    return limit


def update_limit(
    actor: Actor,
    *,
    limit_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Limit:
    """Change the fields that are named; raises Invalid, ProblemsFound, NotFound, VersionMismatch.

    Another `subject` needs its own `subject_id`, which then is asked for among its kind.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    values = dict(changes)
    with configuration_edit():
        limit = rows.lock(Limit, limit_id, expected_version=expected_version)
        if not values.keys().isdisjoint(("subject", FIELD)):
            subject = values.get("subject", limit.subject)
            asked = values.get(FIELD, limit.subject_id)
            values[FIELD] = find_subject(limit.organisation, subject, asked)
        changed = rows.change(limit, values)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", "limits", limit, before=before, after=after)
    return limit


def delete_limit(actor: Actor, *, limit_id: str, expected_version: int | None = None) -> None:
    """Take a limit away; what it counted is forgotten by itself."""
    with configuration_edit():
        limit = rows.lock(Limit, limit_id, expected_version=expected_version)
        before = edits.values_of(limit)
        rows.remove(limit)
        edits.conclude(actor, "delete", "limits", limit, before=before)
