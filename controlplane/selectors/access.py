"""What one caller may see and change: asked once a request, then carried along as a value.

Everybody with a role in an organisation reads all of it. Operators and administrators write;
prices decide invoices, so they are finance's and the administrators'. The platform's administrator
may do everything everywhere, and alone makes organisations.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

from controlplane.models import Role, RoleBinding, ServiceAccount, User

AnyRow = TypeVar("AnyRow", bound=Model)

_OPERATORS = frozenset((Role.OPERATOR, Role.ADMIN))
_WRITERS: Mapping[str, frozenset[Role]] = {
    "organisations": frozenset((Role.ADMIN,)),
    "teams": _OPERATORS,
    "projects": _OPERATORS,
    "models": _OPERATORS,
    "prices": frozenset((Role.FINANCE, Role.ADMIN)),
    "pools": _OPERATORS,
    "routes": _OPERATORS,
    "keys": _OPERATORS,
}


@dataclass(frozen=True, slots=True)
class Access:
    """The roles of one caller by organisation id."""

    roles: Mapping[str, frozenset[Role]]
    is_platform_admin: bool = False

    @property
    def sees_anything(self) -> bool:
        return self.is_platform_admin or bool(self.roles)

    def may_write(self, noun: str, organisation_id: str) -> bool:
        """Tell whether this noun of that organisation is the caller's to change."""
        held = self.roles.get(organisation_id, frozenset())
        return self.is_platform_admin or not held.isdisjoint(_WRITERS[noun])

    def visible(self, rows: QuerySet[AnyRow], field: str = "organisation_id") -> QuerySet[AnyRow]:
        """Leave in the queryset what belongs to the caller's organisations."""
        if self.is_platform_admin:
            return rows
        return rows.filter(**{f"{field}__in": sorted(self.roles)})


NO_ACCESS = Access({})


def _by_organisation(bindings: Iterable[RoleBinding]) -> Mapping[str, frozenset[Role]]:
    roles: dict[str, set[Role]] = defaultdict(set)
    for binding in bindings:
        roles[binding.organisation_id].add(Role(binding.role))
    return {organisation: frozenset(held) for organisation, held in roles.items()}


def get_access_of_user(user: User) -> Access:
    """The access of a signed-in person; none if it was switched off."""
    if not user.is_active:
        return NO_ACCESS
    bindings = RoleBinding.objects.filter(user=user)
    return Access(_by_organisation(bindings), is_platform_admin=user.is_superuser)


def get_access_of_service_account(account: ServiceAccount) -> Access:
    """The access of a program, which never reaches beyond its own organisation."""
    if not account.is_enabled:
        return NO_ACCESS
    bindings = RoleBinding.objects.filter(
        service_account=account, organisation_id=account.organisation_id
    )
    return Access(_by_organisation(bindings))
