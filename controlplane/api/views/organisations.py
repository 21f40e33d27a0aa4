"""Organisations by REST. The platform's administrators alone make them."""

from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.organisations import OrganisationSerializer
from controlplane.api.views.tenants import Changing
from controlplane.errors import NotAllowed
from controlplane.selectors.filters import OrganisationFilters
from controlplane.selectors.organisations import list_organisations
from controlplane.services.organisations import create_organisation, update_organisation


class OrganisationView(Changing):
    noun = "organisations"
    selector = staticmethod(list_organisations)
    serializer_class = OrganisationSerializer
    filterset_class = OrganisationFilters
    orderings = BY_NAME

    def create(self, request: Request) -> Response:
        """Make an organisation with a default team and project."""
        if not self.access.is_platform_admin:
            raise NotAllowed("Only the platform's administrators make organisations.")
        # of no organisation there is: no role is enough
        self.require_write(self.noun, "")
        row = create_organisation(self.actor, **self.validated())
        return self.shown(row, code=status.HTTP_201_CREATED)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_organisation(
            self.actor,
            organisation_id=row.pk,
            changes=changes,
            expected_version=expected_version,
        )
