"""Pages of lists by cursor: stable while rows come and go, and never counted."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.views import APIView

ORDERING = "ordering"
BY_ID = ("-id", "id")
BY_NAME = (*BY_ID, "name", "-name")


def orderings_by(*names: str) -> tuple[str, ...]:
    """By id and by these, each forwards and backwards."""
    return (*BY_ID, *(f"{sign}{name}" for name in names for sign in ("", "-")))


class NewestFirst(CursorPagination):
    """Newest first; `page_size` up to 200. `next` and `previous` are whole URLs or null.

    Rows a list is ordered by alike stand in the order of their ids, as on the console's pages.
    """

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    # a cursor counts the rows of equal value before it, such as keys that never expire
    offset_cutoff = 100_000

    def get_ordering(
        self, request: Request, queryset: "QuerySet[Any]", view: APIView
    ) -> tuple[str, ...]:
        """As the view's `orderings` allow, by a column or one of its `order_columns`."""
        asked = request.query_params.get(ORDERING)
        if asked is None:
            return (self.ordering,)
        if asked not in getattr(view, "orderings", ()):
            raise ValidationError({ORDERING: ["This is not an order of this list."]})
        name = asked.removeprefix("-")
        if name == "id":
            return (asked,)
        column = _ordered(name) if name in _columns_of(view) else name
        return (f"-{column}" if asked.startswith("-") else column, "id")

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
        columns = {_ordered(name): column for name, column in _columns_of(view).items()}
        try:
            return super().paginate_queryset(queryset.annotate(**columns), request, view)
        except (ValueError, DjangoValidationError) as error:
            # a cursor of another list: its position isn't one of this list's ids
            raise _not_a_cursor() from error


def _columns_of(view: APIView | None) -> Mapping[str, Any]:
    """What a list is ordered by that isn't a column of its own; never null, for cursors."""
    return getattr(view, "order_columns", {})


def _ordered(name: str) -> str:
    return f"ordered_{name}"


def _not_a_cursor() -> ValidationError:
    return ValidationError({"cursor": ["This is not a cursor of this list."]})
