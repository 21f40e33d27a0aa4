"""Many writes in one call: all of them or none, and one version of the configuration."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.operations import Operation
from controlplane.api.serializers.bulk import BulkAnswerSerializer, BulkSerializer
from controlplane.api.views.tenants import NounView
from controlplane.errors import (
    ControlPlaneError,
    Invalid,
    NotFound,
    ProblemsFound,
    VersionMismatch,
)
from controlplane.selectors.snapshots import get_newest_revision
from controlplane.services.snapshots import Postponed, staged_once


class Bulk(NounView):
    """Adds POST on `bulk/`; an action is done by the method that does it alone."""

    bulk_actions: ClassVar[tuple[str, ...]] = ("create", "update", "delete")

    @extend_schema(request=BulkSerializer, responses={200: BulkAnswerSerializer}, filters=False)
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=())
    def bulk(self, request: Request) -> Response:
        """Do up to 500 operations in order, all or none; an error says which: `operations.3.id`."""
        if "If-Match" in request.headers:
            raise Invalid.field("If-Match", "Say it with each operation, as `if_match`.")
        serializer = BulkSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        operations = serializer.asked()
        owners: list[int] = []
        postponed = Postponed()
        try:
            with staged_once(self.actor, self.actor.reason or f"bulk {self.noun}") as postponed:
                rows = [
                    self._done(operation, place, postponed, owners)
                    for place, operation in enumerate(operations)
                ]
        except ProblemsFound as error:
            _place_problems(error, dict(zip(postponed.subjects, owners, strict=True)))
            raise
        newest = get_newest_revision()
        answer = {
            "version": None if newest is None else newest.version,
            "results": self._results(operations, rows),
        }
        return Response(BulkAnswerSerializer(answer).data)

    def _done(
        self, operation: Operation, place: int, postponed: Postponed, owners: list[int]
    ) -> Any:
        """Do one operation and return its row; what goes wrong says which operation it was."""
        self.operation = operation
        try:
            row = self._do(operation)
        except ValidationError as error:
            raise ValidationError({"operations": {place: {"data": error.detail}}}) from error
        except ControlPlaneError as error:
            _place_error(error, place)
            raise
        finally:
            self.operation = None
        owners += [place] * (len(postponed.subjects) - len(owners))
        return row

    def _do(self, operation: Operation) -> Any:
        if operation.action not in self.bulk_actions:
            raise Invalid("Some fields are not valid.", fields={"action": ["Not of this noun."]})
        view: Any = self
        if operation.action == "create":
            return view.created()
        row = self.get_queryset().filter(pk=operation.id).first()
        if row is None:
            raise NotFound
        getattr(view, _METHODS[operation.action])(row)
        return row

    def _results(self, operations: list[Operation], rows: list[Any]) -> list[dict[str, Any]]:
        """Each operation with its row as it is after all of them; read at once."""
        found = {row.pk: row for row in self.get_queryset().filter(pk__in={r.pk for r in rows})}
        self.complete(tuple(found.values()))
        for row in rows:
            if hasattr(row, "text") and row.pk in found:
                found[row.pk].text = row.text
        return [
            {
                "action": operation.action,
                "id": row.pk,
                "object": self.told(found[row.pk]) if row.pk in found else None,
            }
            for operation, row in zip(operations, rows, strict=True)
        ]


_METHODS: Mapping[str, str] = {"update": "changed", "delete": "removed", "revoke": "revoked"}


def _place_error(error: ControlPlaneError, place: int) -> None:
    """Name the operation in the fields of its refusal; what names no field gets one."""
    at = f"operations.{place}"
    if isinstance(error, Invalid):
        whole = {"": [error.detail]} if not error.fields else error.fields
        error.fields = {
            _below(at if name == "action" else f"{at}.data", name): messages
            for name, messages in whole.items()
        }
    elif isinstance(error, VersionMismatch):
        error.fields = {f"{at}.if_match": [error.detail]}
    else:
        error.fields = {
            f"{at}.id": [error.detail],
            **{f"{at}.{name}": messages for name, messages in error.fields.items()},
        }


def _place_problems(error: ProblemsFound, owners: Mapping[str, int]) -> None:
    """Put each problem at the operation that edited its record; others keep their section."""
    fields: dict[str, list[str]] = {}
    for problem in error.problems:
        field = problem.field.removesuffix("_id")
        place = owners.get(problem.record_id)
        name = (
            f"{problem.section}.{problem.record_id}.{field}"
            if place is None
            else f"operations.{place}.data.{field}"
        )
        fields.setdefault(name, []).append(problem.message)
    error.fields = fields


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if name else place
