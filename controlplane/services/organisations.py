"""Edits of organisations."""

from collections.abc import Mapping
from typing import Any

from controlplane.models import Organisation, Project, Team
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from controlplane.services.usage_days import retell_days

DEFAULT_NAME = "Default"
"""Name of the team and project an organisation starts with, so that a key needs neither."""

_EDITABLE = frozenset(("name", "time_zone", "is_enabled"))


def create_organisation(
    actor: Actor, *, name: str, time_zone: str = "UTC", is_enabled: bool = True
) -> Organisation:
    """Make an organisation with a default team and project; raises Invalid."""
    with configuration_edit():
        organisation = rows.insert(
            Organisation(name=name, time_zone=time_zone, is_enabled=is_enabled)
        )
        team = rows.insert(Team(organisation=organisation, name=DEFAULT_NAME))
        project = rows.insert(
            Project(organisation=organisation, team=team, name=DEFAULT_NAME, is_default=True)
        )
        edits.note(actor, "create", "teams", team, after=edits.values_of(team))
        edits.note(actor, "create", "projects", project, after=edits.values_of(project))
        edits.conclude(
            actor, "create", "organisations", organisation, after=edits.values_of(organisation)
        )
    return organisation


def update_organisation(
    actor: Actor,
    *,
    organisation_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Organisation:
    """Change name, time_zone or is_enabled; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        row = rows.lock(Organisation, organisation_id, expected_version=expected_version)
        changed = rows.change(row, changes)
        if changed is not None:
            before, after = changed
            if "time_zone" in after:
                retell_days(row.pk, row.time_zone, zone_before=before["time_zone"])
            edits.conclude(actor, "update", "organisations", row, before=before, after=after)
    return row
