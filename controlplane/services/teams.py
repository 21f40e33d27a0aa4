"""Edits of teams. Gateways know a team by id alone, so these make no new version."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from controlplane.errors import InUse
from controlplane.models import Organisation, Team
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.bindings import revoke_roles_in
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names

_EDITABLE = frozenset(("name",))


def create_team(actor: Actor, *, organisation: Organisation, name: str) -> Team:
    """Make a team; raises Invalid."""
    with transaction.atomic():
        team = rows.insert(Team(organisation=organisation, name=name))
        edits.note(actor, "create", "teams", team, after=edits.values_of(team))
    return team


def update_team(
    actor: Actor, *, team_id: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> Team:
    """Change the name; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with transaction.atomic():
        team = rows.lock(Team, team_id, expected_version=expected_version)
        changed = rows.change(team, changes)
        if changed is not None:
            edits.note(actor, "update", "teams", team, before=changed[0], after=changed[1])
    return team


def delete_team(actor: Actor, *, team_id: str, expected_version: int | None = None) -> None:
    """Remove a team without projects, and its limits; raises InUse naming the projects it has."""
    with configuration_edit():
        team = rows.lock(Team, team_id, expected_version=expected_version)
        projects = list(team.projects.order_by("name").values_list("name", flat=True))
        if projects:
            raise InUse.by(f"Team {team.name}", "projects", projects)
        edits.note(actor, "delete", "teams", team, before=edits.values_of(team))
        revoke_roles_in(actor, team)
        is_limited = remove_what_names(actor, team.organisation_id, "team", [team.pk])
        rows.remove(team)
        if is_limited:
            edits.stage(actor, "delete", "teams", team)
