"""People, programs, their tokens and roles, as a caller may see them."""

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from controlplane.models import ApiToken, Organisation, Role, RoleBinding, ServiceAccount, User
from controlplane.selectors.access import Access

SEEN_BINDINGS = "seen_bindings"
"""Where people and programs carry their roles: those the caller may know of."""


def list_bindings(access: Access) -> QuerySet[RoleBinding]:
    """Roles with subject and place.

    Roles of a whole organisation show all of it, an administrator of a team or project sees those
    held inside.
    """
    rows = RoleBinding.objects.select_related(
        "organisation", "team", "project", "user", "service_account"
    )
    telling = (
        grant for grant in access.grants if grant.is_organisation_wide or grant.role is Role.ADMIN
    )
    asked = Access(tuple(telling), access.is_platform_admin)
    return asked.visible_in_scope(rows, team_field="team_id", project_field="project_id")


def list_users(access: Access) -> QuerySet[User]:
    """People with a role in an organisation the caller reads all of, with those roles."""
    users = User.objects.prefetch_related(_bindings_seen(access))
    if access.is_platform_admin:
        return users
    here = RoleBinding.objects.filter(user=OuterRef("pk"))
    return users.filter(Exists(access.visible_organisation_wide(here)))


def list_users_in(access: Access, organisation: Organisation) -> QuerySet[User]:
    """Those with a role in this organisation; nobody, if the caller doesn't read all of it."""
    here = RoleBinding.objects.filter(user=OuterRef("pk"), organisation=organisation)
    return list_users(access).filter(Exists(access.visible_organisation_wide(here)))


def list_members(access: Access, organisation: Organisation) -> QuerySet[User]:
    """People who may be given a role in an organisation: its own, or anybody by the platform's."""
    if access.is_platform_admin:
        return User.objects.all()
    here = RoleBinding.objects.filter(user=OuterRef("pk"), organisation=organisation)
    return User.objects.filter(Exists(access.visible(here)))


def is_in_charge_of(access: Access, user: User) -> bool:
    """Tell whether a person's account is the caller's to change.

    All organisations the person has a role in must be the caller's: a password reset by one of
    them would open the others. The platform's administrators are their own affair.
    """
    return all(access.may_write("users", one) for one in list_charges(user))


def list_charges(user: User) -> list[str]:
    """Organisations all of which must be an administrator's who changes the account.

    "" is none there is, and so stands for the platform.
    """
    homes = RoleBinding.objects.filter(user=user).values_list("organisation_id", flat=True)
    found = sorted(set(homes))
    return ["", *found] if user.is_superuser or not found else found


def list_service_accounts(access: Access) -> QuerySet[ServiceAccount]:
    """Programs of organisations the caller reads all of, with their roles."""
    accounts = ServiceAccount.objects.prefetch_related(_bindings_seen(access))
    return access.visible_organisation_wide(accounts)


def list_tokens(access: Access) -> QuerySet[ApiToken]:
    """Tokens with their accounts, never their digests."""
    tokens = ApiToken.objects.select_related("service_account").defer("digest")
    return access.visible_organisation_wide(tokens, "service_account__organisation_id")


def _bindings_seen(access: Access) -> Prefetch:
    return Prefetch("role_bindings", list_bindings(access).order_by("pk"), to_attr=SEEN_BINDINGS)


def list_own_bindings(caller: User | ServiceAccount) -> QuerySet[RoleBinding]:
    """The caller's own roles, which he may always know of; none while he is switched off."""
    rows = RoleBinding.objects.select_related(
        "organisation", "team", "project", "user", "service_account"
    )
    return rows.filter(pk__in=caller.role_bindings.values("pk")).order_by("pk")
