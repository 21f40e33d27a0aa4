"""Edits of projects."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from controlplane.errors import Conflict, InUse
from controlplane.models import Organisation, Project, Team
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.bindings import revoke_roles_in
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names

_EDITABLE = frozenset(("name", "team"))


def create_project(actor: Actor, *, organisation: Organisation, team: Team, name: str) -> Project:
    """Make a project of a team of the organisation; raises Invalid."""
    with transaction.atomic():
        project = rows.insert(Project(organisation=organisation, team=team, name=name))
        edits.note(actor, "create", "projects", project, after=edits.values_of(project))
    return project


def update_project(
    actor: Actor,
    *,
    project_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Project:
    """Change name or team; its keys go with it. Raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        project = rows.lock(Project, project_id, expected_version=expected_version)
        changed = rows.change(project, changes)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", "projects", project, before=before, after=after)
    return project


def delete_project(actor: Actor, *, project_id: str, expected_version: int | None = None) -> None:
    """Remove a project, its revoked keys, its limits and switch; raises InUse naming live keys."""
    with configuration_edit():
        project = rows.lock(Project, project_id, expected_version=expected_version)
        if project.is_default:
            raise Conflict("The organisation's default project stays.")
        live = project.keys.filter(revoked_at__isnull=True).order_by("name")
        names = list(live.values_list("name", flat=True))
        if names:
            raise InUse.by(f"Project {project.name}", "keys", names)
        revoked = list(project.keys.values_list("pk", flat=True))
        before = {**edits.values_of(project), "revoked_keys": revoked}
        edits.note(actor, "delete", "projects", project, before=before)
        project.keys.all().delete()
        revoke_roles_in(actor, project)
        is_limited = remove_what_names(actor, project.organisation_id, "project", [project.pk])
        rows.remove(project)
        if is_limited:
            edits.stage(actor, "delete", "projects", project)
