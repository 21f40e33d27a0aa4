"""Pages of lists by cursor: stable while rows come and go, and never counted."""

from typing import Any

from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.views import APIView

ORDERING = "ordering"
BY_ID = ("-id", "id")
BY_NAME = (*BY_ID, "name", "-name")


class NewestFirst(CursorPagination):
    """Newest first; `page_size` up to 200. `next` and `previous` are whole URLs or null."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def get_ordering(
        self, request: Request, queryset: "QuerySet[Any]", view: APIView
    ) -> tuple[str, ...]:
        """As the view's `orderings` allow; rows of equal name stay in the order of their ids."""
        asked = request.query_params.get(ORDERING)
        if asked is None:
            return (self.ordering,)
        if asked not in getattr(view, "orderings", ()):
            raise ValidationError({ORDERING: ["This is not an order of this list."]})
        return (asked, "-id") if asked.lstrip("-") != "id" else (asked,)

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        orderings = list(getattr(view, "orderings", ()))
        if not orderings:
            return parameters
        schema = {"type": "string", "enum": orderings, "default": self.ordering}
        told = "Backwards with a minus; the default is newest first."
        ordering = {"name": ORDERING, "in": "query", "schema": schema, "description": told}
        return [*parameters, ordering]

    def decode_cursor(self, request: Request) -> Cursor | None:
        try:
            cursor = super().decode_cursor(request)
        except NotFound as error:
            raise _not_a_cursor() from error
        if cursor is not None and cursor.position is not None and "\0" in cursor.position:
            raise _not_a_cursor()
        return cursor

    def paginate_queryset(
        self, queryset: "QuerySet[Any]", request: Request, view: APIView | None = None
    ) -> list[Model] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except ValueError as error:
            # a cursor of another list: its position isn't one of this list's ids
            raise _not_a_cursor() from error


def _not_a_cursor() -> ValidationError:
    return ValidationError({"cursor": ["This is not a cursor of this list."]})
