"""Keys by REST. A key is revoked, never deleted: its name explains the requests it made."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.db.models import DateTimeField, F, Value
from django.db.models.functions import Coalesce
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import orderings_by
from controlplane.api.serializers.keys import KeySerializer, NewKeySerializer, RotationSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Place, named
from controlplane.models import Key, Organisation
from controlplane.selectors.filters import KeyFilters
from controlplane.selectors.key_use import NO_USE, get_use_of_keys
from controlplane.selectors.keys import list_keys
from controlplane.services.keys import IssuedKey, create_key, revoke_key, rotate_key, update_key

_NEVER = datetime.max.replace(tzinfo=UTC)


class KeyView(Bulk, Changing):
    noun = "keys"
    bulk_actions = ("create", "update", "revoke")
    selector = staticmethod(list_keys)
    serializer_class = KeySerializer
    filterset_class = KeyFilters
    orderings = orderings_by("name", "project", "expires_at")
    order_columns: ClassVar[Mapping[str, Any]] = {
        "project": F("project__name"),
        # never is later than any time
        "expires_at": Coalesce("expires_at", Value(_NEVER, DateTimeField())),
    }

    def complete(self, rows: Sequence[Any]) -> None:
        """How much each is used, by one query."""
        organisations = {row.organisation_id for row in rows}
        found = get_use_of_keys(organisations, [row.public_id for row in rows], timezone.now())
        for row in rows:
            row.use = found.get(row.public_id, NO_USE)

    @extend_schema(responses={201: NewKeySerializer})
    def create(self, request: Request) -> Response:
        """Make a key; its text is in this answer alone."""
        return self.shown(self.created(), code=status.HTTP_201_CREATED)

    def created(self) -> Key:
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk, **self.place_of_new(organisation))
        values = self.validated()
        if "project" in values:
            projects = organisation.projects.all()
            values["project"] = named(projects, "project", values["project"])
        return self._shown_once(create_key(self.actor, organisation=organisation, **values))

    def place_of(self, row: Any) -> Place:
        return {"team_id": row.project.team_id, "project_id": row.project_id}

    def place_of_new(self, organisation: Organisation) -> Place:
        projects = organisation.projects.all()
        project = self.of_body(projects, "project")
        if project is None and not self.names("project"):
            project = projects.get(is_default=True)
        return {} if project is None else {"team_id": project.team_id, "project_id": project.pk}

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_key(self.actor, key_id=row.pk, changes=changes, expected_version=expected_version)

    @extend_schema(request=None, responses={200: KeySerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str) -> Response:
        """End the key for good, at once."""
        key = self.get_object()
        self.revoked(key)
        return self.shown(self.fresh(key))

    def revoked(self, key: Key) -> None:
        """Revoke the key, if the caller may."""
        self._require_write_of(key)
        revoke_key(self.actor, key_id=key.pk, expected_version=self.expected_version())

    @extend_schema(request=RotationSerializer, responses={200: NewKeySerializer})
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Give the key a new secret; the old one is accepted for `overlap_s` more."""
        key: Key = self.get_object()
        self._require_write_of(key)
        serializer = RotationSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        issued = rotate_key(
            self.actor,
            key_id=key.pk,
            expected_version=self.expected_version(),
            **serializer.validated_data,
        )
        return self.shown(self._shown_once(issued))

    def told(self, row: Any) -> dict[str, Any]:
        """The key, and its text in the one answer that has it."""
        text = getattr(row, "text", None)
        return {**super().told(row), **({} if text is None else {"key": text})}

    def _require_write_of(self, key: Key) -> None:
        self.require_write(self.noun, key.organisation_id, **self.place_of(key))

    def _shown_once(self, issued: IssuedKey) -> Key:
        row: Key = self.fresh(issued.key)
        row.text = issued.text  # type: ignore[attr-defined]
        return row
