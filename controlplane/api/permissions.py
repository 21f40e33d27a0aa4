"""Who may call at all. What they may see and change is `selectors.access`, asked by the views."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from controlplane.selectors.access import Access

if TYPE_CHECKING:
    # the framework reads this module while it loads its views
    from rest_framework.views import APIView


class RolePermission(BasePermission):
    """Callers that are known and have a role somewhere."""

    message = "You have no role in any organisation."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if not request.user.is_authenticated:
            return False
        access: Access = view.access  # type: ignore[attr-defined]
        return access.sees_anything
