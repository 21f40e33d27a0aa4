"""What one caller may see and change: asked once a request, then carried along as a value.

A role is held in an organisation, in one of its teams or in one of its projects, and reaches down:
from an organisation to its teams, from a team to its projects and their keys. It never reaches up
or sideways.

Reading: whoever holds any role in an organisation reads what belongs to it as a whole and is needed
to use it: models, prices, pools, routes, cache policies. Teams, projects, keys, requests and usage
are read as far as the roles reach; so are limits, budgets and switches, also read by whom they
bind. Who did what and who may do what (audit, versions, people, roles, programs) is for roles of
the whole organisation.

Writing: operators and administrators write; prices decide invoices and budgets what may be spent,
so they are finance's and the administrators'; people, programs and roles are the administrators'.
The platform's administrator may do everything everywhere, and alone makes organisations.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Model, OuterRef, Q, QuerySet

from controlplane.models import Project, Role, RoleBinding, ServiceAccount, User

AnyRow = TypeVar("AnyRow", bound=Model)

_ADMINS = frozenset((Role.ADMIN,))
_OPERATORS = frozenset((Role.OPERATOR, Role.ADMIN))
_WRITERS: Mapping[str, frozenset[Role]] = {
    "organisations": _ADMINS,
    "teams": _OPERATORS,
    "projects": _OPERATORS,
    "models": _OPERATORS,
    "prices": frozenset((Role.FINANCE, Role.ADMIN)),
    "repricings": frozenset((Role.FINANCE, Role.ADMIN)),
    "corrections": frozenset((Role.FINANCE, Role.ADMIN)),
    "gpu_prices": frozenset((Role.FINANCE, Role.ADMIN)),
    "pools": _OPERATORS,
    "routes": _OPERATORS,
    "caches": _OPERATORS,
    "purges": _OPERATORS,
    "keys": _OPERATORS,
    "limits": _OPERATORS,
    "budgets": frozenset((Role.FINANCE, Role.ADMIN)),
    "reports": frozenset((Role.FINANCE, Role.ADMIN)),
    "report_schedules": frozenset((Role.FINANCE, Role.ADMIN)),
    "statements": _ADMINS,
    "switches": _OPERATORS,
    "alerts": _OPERATORS,
    "alert_rules": _OPERATORS,
    "silences": _OPERATORS,
    "channels": _OPERATORS,
    "deliveries": _OPERATORS,
    "snapshots": _OPERATORS,
    "users": _ADMINS,
    "bindings": _ADMINS,
    "service_accounts": _ADMINS,
    "tokens": _ADMINS,
}
_SCOPED = frozenset(("teams", "projects", "keys", "bindings"))
"""Nouns a role in a team or project reaches; all others belong to the organisation as a whole."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One role binding as a value: of the organisation, or of one team or one project of it.

    `project_ids` are those it reaches where it isn't the whole organisation's.
    """

    binding_id: str
    role: Role
    organisation_id: str
    team_id: str | None = None
    project_id: str | None = None
    project_ids: frozenset[str] = frozenset()

    @property
    def is_organisation_wide(self) -> bool:
        return self.team_id is None and self.project_id is None

    def reaches(self, organisation_id: str, team_id: str | None, project_id: str | None) -> bool:
        """Tell whether this team or project, or the organisation itself, lies below the role."""
        if organisation_id != self.organisation_id:
            return False
        if self.is_organisation_wide:
            return True
        is_of_team = self.team_id is not None and team_id == self.team_id
        return is_of_team or project_id in self.project_ids


@dataclass(frozen=True, slots=True)
class Access:
    """What one caller holds."""

    grants: tuple[Grant, ...] = ()
    is_platform_admin: bool = False

    @property
    def sees_anything(self) -> bool:
        return self.is_platform_admin or bool(self.grants)

    @property
    def is_administrator(self) -> bool:
        """Tell whether the caller runs the platform or a whole organisation on it."""
        return self.is_platform_admin or any(Role.ADMIN in held for held in self.roles.values())

    @property
    def roles(self) -> Mapping[str, frozenset[Role]]:
        """The roles held in whole organisations, by organisation id."""
        wide = [grant for grant in self.grants if grant.is_organisation_wide]
        return {
            one: frozenset(grant.role for grant in wide if grant.organisation_id == one)
            for one in sorted({grant.organisation_id for grant in wide})
        }

    def reads_organisation(self, organisation_id: str) -> bool:
        """Tell whether the caller reads all of it: by a role that isn't a team's or project's."""
        return self.is_platform_admin or organisation_id in self.roles

    def may_write(
        self,
        noun: str,
        organisation_id: str,
        *,
        team_id: str | None = None,
        project_id: str | None = None,
    ) -> bool:
        """Tell whether this noun of that organisation is the caller's to change.

        The place is where the thing stands: a key's project (its team too, where that is known,
        since a project may be newer than this value), a project's team. Making and removing
        take a role in what the thing stands in, changing takes one in the thing itself. Without
        team and project the question is about the whole organisation.
        """
        if self.is_platform_admin:
            return True
        place = {"team_id": team_id, "project_id": project_id}
        return self.why(noun, organisation_id, **place) is not None

    def why(
        self,
        noun: str,
        organisation_id: str,
        *,
        team_id: str | None = None,
        project_id: str | None = None,
    ) -> Grant | None:
        """The widest role that lets the caller change it; None if no role does.

        A platform administrator needs no role, so None may also go with a yes of `may_write`.
        """
        writers = _WRITERS[noun]
        fitting = (
            grant
            for grant in self.grants
            if grant.role in writers
            and (grant.is_organisation_wide or noun in _SCOPED)
            and grant.reaches(organisation_id, team_id, project_id)
        )
        return min(fitting, key=_narrowness, default=None)

    def writable_nouns(
        self, organisation_id: str, *, team_id: str | None = None, project_id: str | None = None
    ) -> tuple[str, ...]:
        """The nouns the caller may change at this place, in the order of their names."""
        place = {"team_id": team_id, "project_id": project_id}
        return tuple(
            noun for noun in sorted(_WRITERS) if self.may_write(noun, organisation_id, **place)
        )

    def visible(self, rows: QuerySet[AnyRow], field: str = "organisation_id") -> QuerySet[AnyRow]:
        """Leave in the queryset what belongs to organisations the caller has any role in.

        For what an organisation shares: models, prices, pools, routes, and its own name.
        """
        if self.is_platform_admin:
            return rows
        organisations = {grant.organisation_id for grant in self.grants}
        return rows.filter(**{f"{field}__in": sorted(organisations)})

    def visible_organisation_wide(
        self, rows: QuerySet[AnyRow], field: str = "organisation_id"
    ) -> QuerySet[AnyRow]:
        """Leave in the queryset what belongs to organisations the caller reads all of."""
        if self.is_platform_admin:
            return rows
        return rows.filter(**{f"{field}__in": sorted(self.roles)})

    def visible_in_scope(
        self,
        rows: QuerySet[AnyRow],
        *,
        team_field: str | None = None,
        project_field: str | None = None,
        field: str = "organisation_id",
    ) -> QuerySet[AnyRow]:
        """Leave in the queryset what the caller's roles reach.

        `team_field` and `project_field` name the columns by which a row stands in a team or in a
        project; a column that isn't named is reached by roles of the whole organisation only.
        """
        if self.is_platform_admin:
            return rows
        reached = Q(**{f"{field}__in": sorted(self.roles)})
        teams = self.team_ids()
        projects = self.project_ids()
        if team_field is not None and teams:
            reached |= Q(**{f"{team_field}__in": sorted(teams)})
        if project_field is not None and projects:
            reached |= Q(**{f"{project_field}__in": sorted(projects)})
        return rows.filter(reached)

    def team_ids(self, organisation_id: str | None = None) -> frozenset[str]:
        """The teams the caller holds a role in, where it isn't the whole organisation's."""
        grants = self._narrow(organisation_id)
        return frozenset(grant.team_id for grant in grants if grant.team_id is not None)

    def project_ids(self, organisation_id: str | None = None) -> frozenset[str]:
        """The projects reached by roles in teams and projects."""
        return frozenset(
            one for grant in self._narrow(organisation_id) for one in grant.project_ids
        )

    def _narrow(self, organisation_id: str | None) -> Iterator[Grant]:
        for grant in self.grants:
            if organisation_id in (None, grant.organisation_id) and not grant.is_organisation_wide:
                yield grant


NO_ACCESS = Access()


def _narrowness(grant: Grant) -> int:
    return 2 if grant.project_id is not None else 1 if grant.team_id is not None else 0


def _grants_of(bindings: QuerySet[RoleBinding]) -> tuple[Grant, ...]:
    """The bindings as values, with the projects of their teams, by one query."""
    below = Project.objects.filter(team=OuterRef("team")).values("pk")
    rows = bindings.annotate(team_projects=ArraySubquery(below)).order_by("pk")
    return tuple(_grant_of(row, row.team_projects) for row in rows)


def _grant_of(binding: RoleBinding, team_projects: Iterable[str]) -> Grant:
    own = () if binding.project_id is None else (binding.project_id,)
    return Grant(
        binding_id=binding.pk,
        role=Role(binding.role),
        organisation_id=binding.organisation_id,
        team_id=binding.team_id,
        project_id=binding.project_id,
        project_ids=frozenset((*own, *team_projects)),
    )


def get_access_of_user(user: User) -> Access:
    """The access of a signed-in person; none if switched off, or until a password is changed."""
    if not user.is_active or user.must_change_password:
        return NO_ACCESS
    grants = _grants_of(RoleBinding.objects.filter(user=user))
    return Access(grants, is_platform_admin=user.is_superuser)


def get_access_of_service_account(account: ServiceAccount) -> Access:
    """The access of a program, which never reaches beyond its own organisation."""
    if not account.is_enabled:
        return NO_ACCESS
    bindings = RoleBinding.objects.filter(
        service_account=account, organisation_id=account.organisation_id
    )
    return Access(_grants_of(bindings))
