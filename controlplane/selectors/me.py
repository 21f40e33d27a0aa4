"""What people read of themselves, whatever their roles are."""

from django.db.models import QuerySet

from controlplane.models import RoleBinding, User


def list_my_roles(user: User) -> QuerySet[RoleBinding]:
    """The roles a person holds, with the places they are held in."""
    places = user.role_bindings.select_related("organisation", "team", "project__team")
    return places.order_by("organisation__name", "team__name", "project__name", "role")
