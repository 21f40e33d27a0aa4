"""What the views of the API share: who is calling, for which organisation, at which version."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from django.db.models import Model, Q, QuerySet
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from controlplane.api.operations import Operation
from controlplane.api.pagination import BY_ID
from controlplane.api.writes import Asked, WriteConventions
from controlplane.errors import Invalid, NotAllowed
from controlplane.identifiers import ULID_PATTERN
from controlplane.middleware import request_id_of
from controlplane.models import Organisation, ServiceAccount, User
from controlplane.selectors.access import (
    NO_ACCESS,
    Access,
    get_access_of_service_account,
    get_access_of_user,
)
from controlplane.selectors.organisations import list_organisations
from controlplane.services.actors import Actor, Via, service_account_actor, user_actor

REASON_HEADER = "X-Headworks-Reason"

AnyRow = TypeVar("AnyRow", bound=Model)

Place = Mapping[str, str]
"""`team_id` or `project_id`, as `Access.may_write` takes them."""

_ETAG = re.compile(r'(?:W/)?"([0-9]{1,10})"')


class TenantView(WriteConventions, GenericViewSet[Any]):
    """A view that knows its caller's access before anything is asked of it."""

    access: Access = NO_ACCESS
    is_for_whole: ClassVar[bool] = False
    """Whether its list is for roles of a whole organisation, as its page is."""
    operation: Operation | None = None
    """The operation of a bulk call that is being done, which stands for the request then."""

    @property
    def body(self) -> Any:
        """What the caller says of the one row that is being written."""
        return self.request.data if self.operation is None else self.operation.data

    def perform_authentication(self, request: Request) -> None:
        caller = request.user
        if isinstance(caller, ServiceAccount):
            self.access = get_access_of_service_account(caller)
        elif isinstance(caller, User):
            self.access = get_access_of_user(caller)

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        is_whole = self.access.is_platform_admin or bool(self.access.roles)
        if self.is_for_whole and self.action == "list" and not is_whole:
            raise NotAllowed("This is for roles of a whole organisation.")

    @property
    def actor(self) -> Actor:
        """The caller as services and the audit trail know it."""
        request_id = request_id_of(self.request._request)
        reason = self.request.headers.get(REASON_HEADER, "").strip()
        caller = self.request.user
        if isinstance(caller, ServiceAccount):
            return service_account_actor(caller, request_id=request_id, reason=reason)
        return user_actor(caller, via=Via.API, request_id=request_id, reason=reason)

    def require_write(self, noun: str, organisation_id: str, **place: str) -> None:
        """Raise NotAllowed unless the caller may change this noun there.

        `place` is a `team_id` or `project_id` in which a narrower role would do.
        """
        if not self.access.may_write(noun, organisation_id, **place):
            raise NotAllowed(f"Your roles don't allow changing {noun} here.")
        if (noun, organisation_id, place) not in self.asked:
            self.asked = (*self.asked, (noun, organisation_id, place))

    def require_again(self, asked: Sequence[Asked]) -> None:
        """Ask the same of the caller's present roles; what nobody asked anything for isn't told."""
        if not asked:
            raise NotAllowed("This can't be repeated.")
        for noun, organisation_id, place in asked:
            self.require_write(noun, organisation_id, **place)

    def expected_version(self) -> int | None:
        """The version of If-Match, or None if the caller didn't ask for one."""
        if self.operation is not None:
            return self.operation.if_match
        given = self.request.headers.get("If-Match", "").strip()
        if given in ("", "*"):
            return None
        match = _ETAG.fullmatch(given)
        if match is None:
            raise Invalid.field("If-Match", "Give one ETag as this API sends it, or *.")
        return int(match[1])

    def of_body(self, rows: QuerySet[AnyRow], field: str) -> AnyRow | None:
        """The row the body names at this field by id or name, if there is one."""
        data = self.body
        return found(rows, data.get(field)) if isinstance(data, Mapping) else None

    def names(self, field: str) -> bool:
        """Tell whether the body says anything at this field."""
        return isinstance(self.body, Mapping) and field in self.body

    def organisation(self) -> Organisation:
        """The organisation a new object goes to: the one named, or the only one there is."""
        known = list_organisations(self.access)
        data = self.body
        asked = data.get("organisation") if isinstance(data, Mapping) else None
        if asked is not None:
            return named(known, "organisation", asked)
        few = list(known[:2])
        if len(few) != 1:
            raise Invalid.field("organisation", "You have several; say which, by name or id.")
        return few[0]


def found(rows: QuerySet[AnyRow], asked: object) -> AnyRow | None:
    """The row of this id or name, if there is one."""
    if not isinstance(asked, str):
        return None
    return rows.filter(pk=asked).first() or rows.filter(Q(name=asked)).first()


def named(rows: QuerySet[AnyRow], field: str, asked: object) -> AnyRow:
    """The row of this id or name, or Invalid at the field."""
    if not isinstance(asked, str):
        raise Invalid.field(field, "Give a name or an id.")
    row = found(rows, asked)
    if row is None:
        raise Invalid.field(field, "There is none of this name or id.")
    return row


class NounView(TenantView):
    """List, read, make, change and remove one noun's rows; what differs is three calls."""

    noun: ClassVar[str]
    selector: ClassVar[Callable[[Access], QuerySet[Any]]]
    orderings: ClassVar[tuple[str, ...]] = BY_ID
    lookup_value_regex = rf"[a-z]+_{ULID_PATTERN}"
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]

    def get_queryset(self) -> QuerySet[Any]:
        return type(self).selector(self.access)

    def list(self, request: Request) -> Response:
        """List those of your organisations, newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or ()
        self.complete(page)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Read one; the ETag is its version."""
        return self.shown(self.get_object())

    def complete(self, rows: Sequence[Any]) -> None:
        """Put on rows about to be shown what isn't theirs, read once for all of them."""

    def shown(self, row: Any, *, code: int = status.HTTP_200_OK) -> Response:
        """One row as the API shows it, with its ETag."""
        self.complete((row,))
        return Response(self.told(row), status=code, headers={"ETag": f'"{row.version}"'})

    def told(self, row: Any) -> dict[str, Any]:
        """One row as the API shows it."""
        return dict(self.get_serializer(row).data)

    def place_of(self, row: Any) -> Place:
        """The team or project a role is enough in to change this row; {} for its organisation."""
        return {}

    def place_of_new(self, organisation: Organisation) -> Place:
        """The team or project the body's new row would stand in; {} for the organisation."""
        return {}

    def place_above(self, row: Any) -> Place:
        """The team or project a role is enough in to remove this row."""
        return {}

    def fresh(self, row: Any) -> Any:
        """The row as the selector reads it, with all that showing it takes."""
        return self.get_queryset().get(pk=row.pk)

    def validated(self, row: Any = None) -> dict[str, Any]:
        """The body checked against the noun's shape; partial when it's about a row."""
        serializer: BaseSerializer[Any] = self.get_serializer(
            row, data=self.body, partial=row is not None
        )
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = dict(serializer.validated_data)
        values.pop("organisation", None)
        return values


class Creating(NounView):
    """Adds POST on the list."""

    def create(self, request: Request) -> Response:
        """Make one."""
        return self.shown(self.fresh(self.created()), code=status.HTTP_201_CREATED)

    def created(self) -> Any:
        """Make the row the body asks for, if the caller may."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk, **self.place_of_new(organisation))
        return self.make(organisation, self.validated())

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        """Call the service that makes one."""
        raise NotImplementedError


class Changing(NounView):
    """Adds PATCH on one."""

    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the fields that are named, and no others."""
        row = self.get_object()
        self.changed(row)
        return self.shown(self.fresh(row))

    def changed(self, row: Any) -> None:
        """Change the row as the body asks, if the caller may."""
        self.require_write(self.noun, _organisation_of(row), **self.place_of(row))
        self.change(row, self.validated(row), self.expected_version())

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        """Call the service that changes it."""
        raise NotImplementedError


class Removing(NounView):
    """Adds DELETE on one."""

    def destroy(self, request: Request, pk: str) -> Response:
        """Remove one that nothing depends on; 409 names what does."""
        self.removed(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)

    def removed(self, row: Any) -> None:
        """Remove the row, if the caller may."""
        self.require_write(self.noun, _organisation_of(row), **self.place_above(row))
        self.remove(row, self.expected_version())

    def remove(self, row: Any, expected_version: int | None) -> None:
        """Call the service that removes it."""
        raise NotImplementedError


def _organisation_of(row: Any) -> str:
    return str(row.pk if isinstance(row, Organisation) else row.organisation_id)
