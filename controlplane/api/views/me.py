"""The caller himself by REST: who he is, his roles, and what each lets him do."""

from collections.abc import Iterator
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.me import MeSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.models import ServiceAccount
from controlplane.selectors.access import Access
from controlplane.selectors.users import list_own_bindings


class MeView(TenantView):
    """Answers whoever is known, also without any role."""

    serializer_class = MeSerializer
    permission_classes = (IsAuthenticated,)
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=MeSerializer)
    def list(self, request: Request) -> Response:
        """Tell who you are, which roles you have, and what they let you change."""
        refuse_unknown(request, ())
        caller = request.user
        is_program = isinstance(caller, ServiceAccount)
        answer = {
            "kind": "service_account" if is_program else "user",
            "id": str(caller.pk),
            "name": caller.name if is_program else caller.get_username(),
            "is_platform_admin": self.access.is_platform_admin,
            "must_change_password": not is_program and caller.must_change_password,
            "bindings": list_own_bindings(caller),
            "permissions": list(permissions_of(self.access)),
        }
        return Response(MeSerializer(answer).data)


def permissions_of(access: Access) -> Iterator[dict[str, Any]]:
    """Each noun its holder may change at each place he holds a role in, by the widest role."""
    places = dict.fromkeys(
        (grant.organisation_id, grant.team_id, grant.project_id) for grant in access.grants
    )
    for organisation_id, team_id, project_id in places:
        place = {"team_id": team_id, "project_id": project_id}
        for noun in access.writable_nouns(organisation_id, **place):
            why = access.why(noun, organisation_id, **place)
            if why is not None:
                yield {
                    "noun": noun,
                    "organisation_id": organisation_id,
                    **place,
                    "role": why.role.value,
                    "binding_id": why.binding_id,
                }
