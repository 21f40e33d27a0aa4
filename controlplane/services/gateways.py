"""Edits of what is wanted of a gateway, of which every organisation's requests feel something."""

from collections.abc import Mapping
from typing import Any

from controlplane.errors import Invalid, VersionMismatch
from controlplane.models import GatewaySetting
from controlplane.services import audit, edits, rows, snapshots
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit

NOUN = "gateways"

_EDITABLE = frozenset(("restart_generation", "is_drained"))


def update_gateway(
    actor: Actor,
    *,
    name: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> GatewaySetting:
    """Drain a gateway, put it back, or have its processes replaced; the first edit makes its row.

    `expected_version` 0 is that of a gateway nobody set anything of yet. Raises Invalid,
    ProblemsFound or VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        row = GatewaySetting.objects.select_for_update().filter(name=name).first()
        version = 0 if row is None else row.version
        if expected_version not in (None, version):
            raise VersionMismatch(version)
        _refuse_older_generation(0 if row is None else row.restart_generation, changes)
        if row is None:
            return _made(actor, GatewaySetting(name=name, **changes))
        changed = rows.change(row, changes)
        if changed is not None:
            _conclude(actor, "update", row, *changed)
    return row


def _made(actor: Actor, row: GatewaySetting) -> GatewaySetting:
    """The row's first edit; one that sets nothing leaves no row behind."""
    if not row.is_drained and not row.restart_generation:
        row.version = 0
        return row
    rows.insert(row)
    unset: dict[str, Any] = {"restart_generation": 0, "is_drained": False}
    after = {name: getattr(row, name) for name in unset if getattr(row, name) != unset[name]}
    _conclude(actor, "update", row, {name: unset[name] for name in after}, after)
    return row


def _conclude(
    actor: Actor, action: str, row: GatewaySetting, before: Mapping[str, Any], after: Any
) -> None:
    audit.record(
        actor,
        action=action,
        noun=NOUN,
        object_id=row.pk,
        organisation_id=None,
        before=before,
        after=after,
    )
    snapshots.stage(actor, actor.reason or f"{action} {NOUN} {row.name}", subject_id=row.name)


def _refuse_older_generation(held: int, changes: Mapping[str, Any]) -> None:
    asked = changes.get("restart_generation", held)
    if asked < held:
        raise Invalid.field("restart_generation", f"It only grows; it is {held} now.")
