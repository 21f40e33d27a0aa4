"""Edits of roles: who holds which, and where. None of these reach a gateway.

An organisation keeps an administrator: whatever would take its last one away is a conflict, unless
the caller says that it may (`keep_admin`), which is the platform administrator's to say.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.errors import Conflict, Invalid, NotFound
from controlplane.models import Organisation, Project, Role, RoleBinding, ServiceAccount, Team, User
from controlplane.services import audit, rows
from controlplane.services.actors import Actor

Subject = User | ServiceAccount

_IN_EFFECT = Q(user__is_active=True) | Q(service_account__is_enabled=True)


def grant_role(
    actor: Actor,
    *,
    subject: Subject,
    organisation: Organisation,
    role: Role,
    team: Team | None = None,
    project: Project | None = None,
) -> RoleBinding:
    """Give a subject a role in an organisation, or in one team or one project of it.

    A role it has already is left as it is. A service account has roles in its own organisation
    only. Raises Invalid.
    """
    _check_place(subject, organisation, team, project)
    owner = {"user": subject} if isinstance(subject, User) else {"service_account": subject}
    with transaction.atomic():
        binding, is_new = RoleBinding.objects.get_or_create(
            organisation=organisation,
            team=team,
            project=project,
            role=Role(role).value,
            **owner,
        )
        if is_new:
            _note(actor, "grant", binding)
    return binding


def revoke_role(actor: Actor, *, binding_id: str, keep_admin: bool = True) -> None:
    """Take a role away; raises NotFound, or Conflict for an organisation's last administrator."""
    with transaction.atomic():
        binding = RoleBinding.objects.select_for_update().filter(pk=binding_id).first()
        if binding is None:
            raise NotFound
        with admins_kept(RoleBinding.objects.filter(pk=binding_id), keep_admin=keep_admin):
            _note(actor, "revoke", binding)
            rows.remove(binding)


def revoke_roles_in(actor: Actor, place: Team | Project) -> None:
    """Take away every role held in a team or project that is about to go.

    For its own service, inside its transaction.
    """
    for binding in place.role_bindings.select_for_update().order_by("pk"):
        _note(actor, "revoke", binding)
        rows.remove(binding)


@contextmanager
def admins_kept(bindings: QuerySet[RoleBinding], *, keep_admin: bool) -> Iterator[None]:
    """An edit that ends the effect of these bindings; raises Conflict if a last one is among them.

    Edits that could leave the same organisation without an administrator wait for one another.
    """
    wide = bindings.filter(_IN_EFFECT, role=Role.ADMIN.value, team=None, project=None)
    organisations = sorted(set(wide.values_list("organisation_id", flat=True)))
    locked = Organisation.objects.select_for_update(no_key=True).order_by("pk")
    names = dict(locked.filter(pk__in=organisations).values_list("pk", "name"))
    yield
    if not keep_admin:
        return
    for organisation_id, name in names.items():
        if not _has_admin(organisation_id):
            raise Conflict(
                f"{name} would have no administrator left. Make another one first, or ask the"
                " platform administrator."
            )


def _has_admin(organisation_id: str) -> bool:
    admins = RoleBinding.objects.filter(
        _IN_EFFECT,
        organisation_id=organisation_id,
        role=Role.ADMIN.value,
        team=None,
        project=None,
    )
    return admins.exists()


def _check_place(
    subject: Subject, organisation: Organisation, team: Team | None, project: Project | None
) -> None:
    if isinstance(subject, ServiceAccount) and subject.organisation_id != organisation.pk:
        raise Invalid.field("organisation", "A service account belongs to one organisation.")
    if team is not None and project is not None:
        raise Invalid.field("project", "A role is held in a team or in a project, not in both.")
    for name, place in (("team", team), ("project", project)):
        if place is not None and place.organisation_id != organisation.pk:
            raise Invalid.field(name, "There is none of this name or id.")


def _note(actor: Actor, action: str, binding: RoleBinding) -> None:
    told = {
        "role": binding.role,
        "user": None if binding.user_id is None else str(binding.user_id),
        "service_account": binding.service_account_id,
        "team": binding.team_id,
        "project": binding.project_id,
    }
    audit.record(
        actor,
        action=action,
        noun="role_bindings",
        object_id=binding.pk,
        organisation_id=binding.organisation_id,
        before=told if action == "revoke" else None,
        after=told if action == "grant" else None,
    )
