"""Keys by REST. A key is revoked, never deleted: its name explains the requests it made."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.serializers.keys import KeySerializer, NewKeySerializer, RotationSerializer
from controlplane.api.views.tenants import Changing, named
from controlplane.models import Key
from controlplane.selectors.keys import list_keys
from controlplane.services.keys import IssuedKey, create_key, revoke_key, rotate_key, update_key


class KeyView(Changing):
    noun = "keys"
    selector = staticmethod(list_keys)
    serializer_class = KeySerializer
    filterset_fields = {
        "name": ["exact"],
        "project": ["exact"],
        "organisation": ["exact"],
        "is_enabled": ["exact"],
        "revoked_at": ["isnull"],
    }

    @extend_schema(responses={201: NewKeySerializer})
    def create(self, request: Request) -> Response:
        """Make a key; its text is in this answer alone."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        values = self.validated()
        if "project" in values:
            projects = organisation.projects.all()
            values["project"] = named(projects, "project", values["project"])
        issued = create_key(self.actor, organisation=organisation, **values)
        return self._shown_once(issued, code=status.HTTP_201_CREATED)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_key(self.actor, key_id=row.pk, changes=changes, expected_version=expected_version)

    @extend_schema(request=None, responses={200: KeySerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str) -> Response:
        """End the key for good, at once."""
        key = self._writable()
        revoke_key(self.actor, key_id=key.pk, expected_version=self.expected_version())
        return self.shown(self.fresh(key))

    @extend_schema(request=RotationSerializer, responses={200: NewKeySerializer})
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Give the key a new secret; the old one is accepted for `overlap_s` more."""
        key = self._writable()
        serializer = RotationSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        issued = rotate_key(
            self.actor,
            key_id=key.pk,
            expected_version=self.expected_version(),
            **serializer.validated_data,
        )
        return self._shown_once(issued, code=status.HTTP_200_OK)

    def _writable(self) -> Key:
        key: Key = self.get_object()
        self.require_write(self.noun, key.organisation_id)
        return key

    def _shown_once(self, issued: IssuedKey, *, code: int) -> Response:
        response = self.shown(self.fresh(issued.key), code=code)
        response.data = {**response.data, "key": issued.text}
        return response
