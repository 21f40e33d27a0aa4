"""The end of every edit: its audit row and, if gateways read the row, the next version."""

from collections.abc import Mapping
from typing import Any

from django.db.models import ForeignKey, Model

from controlplane.errors import Invalid
from controlplane.models import Organisation
from controlplane.models.rows import VersionedRow
from controlplane.services import audit, snapshots
from controlplane.services.actors import Actor

Values = Mapping[str, Any]

_OWN_BUSINESS = frozenset(("id", "organisation", "version", "created_at", "updated_at"))


def values_of(row: Model) -> dict[str, Any]:
    """A row as the audit trail tells it when it comes or goes; parents by id."""
    return {
        field.name: getattr(row, field.attname if isinstance(field, ForeignKey) else field.name)
        for field in row._meta.concrete_fields
        if field.name not in _OWN_BUSINESS
    }


def organisation_of(row: VersionedRow) -> str:
    return str(row.pk) if isinstance(row, Organisation) else row.organisation_id  # type: ignore[attr-defined]


def note(
    actor: Actor,
    action: str,
    noun: str,
    row: VersionedRow,
    *,
    before: Values | None = None,
    after: Values | None = None,
) -> None:
    """Write the audit row of an edit that no gateway needs to know of."""
    audit.record(
        actor,
        action=action,
        noun=noun,
        object_id=str(row.pk),
        organisation_id=organisation_of(row),
        before=before,
        after=after,
    )


def conclude(
    actor: Actor,
    action: str,
    noun: str,
    row: VersionedRow,
    *,
    before: Values | None = None,
    after: Values | None = None,
    subject_id: str | None = None,
) -> None:
    """Write the audit row and stage the next version, or raise ProblemsFound.

    `subject_id` is the id of the row's record in the snapshot, where it isn't the row's own.
    """
    note(actor, action, noun, row, before=before, after=after)
    stage(actor, action, noun, row, subject_id=subject_id)


def stage(
    actor: Actor, action: str, noun: str, row: VersionedRow, *, subject_id: str | None = None
) -> None:
    """Stage the next version, named for an edit whose audit row is written."""
    snapshots.stage_or_postpone(
        actor,
        actor.reason or f"{action} {noun} {row.pk}",
        organisation_id=organisation_of(row),
        subject_id=subject_id or str(row.pk),
    )


def refuse_unknown(changes: Values, editable: frozenset[str]) -> None:
    """Raise Invalid if a change names a field that isn't edited this way."""
    unknown = sorted(set(changes) - editable)
    if unknown:
        fields = {name: ["This can't be changed."] for name in unknown}
        raise Invalid("Some fields can't be changed.", fields=fields)
