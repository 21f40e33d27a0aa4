"""Exceptions of the API as `{"code", "detail", "fields"}`; the table itself is the plane's."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.http import Http404
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.exceptions import NotFound as ApiNotFound
from rest_framework.exceptions import PermissionDenied as ApiPermissionDenied
from rest_framework.response import Response
from rest_framework.views import exception_handler

from controlplane.error_responses import RETRY_AFTER_S, body_and_status, error_body, outage_of
from controlplane.errors import ControlPlaneError

_CODES: Mapping[str, str] = {
    "not_authenticated": "not_authenticated",
    "authentication_failed": "authentication_failed",
    "parse_error": "parse_error",
    "permission_denied": "permission_denied",
    "not_found": "not_found",
    "method_not_allowed": "method_not_allowed",
    "not_acceptable": "not_acceptable",
    "unsupported_media_type": "unsupported_media_type",
    "too_large": "too_large",
}


def respond_to_exception(exception: Exception, context: Mapping[str, Any]) -> Response | None:
    """Answer an exception of a view; None leaves it to the plane's 500."""
    if isinstance(exception, ControlPlaneError):
        body, status = body_and_status(exception)
        return Response(body, status=status)
    outage = outage_of(exception)
    if outage is not None:
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return Response(error_body(*outage), status=503, headers=headers)
    if isinstance(exception, IntegrityError):
        detail = "Somebody else changed this at the same moment; try again."
        return Response(error_body("conflict", detail), status=409)
    if isinstance(exception, Http404):
        exception = ApiNotFound("There is no such object.")
    elif isinstance(exception, PermissionDenied):
        exception = ApiPermissionDenied()
    if not isinstance(exception, APIException):
        return None
    response = exception_handler(exception, dict(context))
    if response is not None:
        response.data = _body_of(exception)
    return response


def _body_of(exception: APIException) -> dict[str, object]:
    if isinstance(exception, ValidationError):
        fields: dict[str, list[str]] = {}
        for place, message in _flat(exception.detail, ""):
            fields.setdefault(place or "detail", []).append(message)
        return error_body("invalid", "Some fields are not valid.", fields)
    code = exception.get_codes()
    known = _CODES.get(code, "error") if isinstance(code, str) else "error"
    return error_body(known, str(exception.detail))


def _flat(detail: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted field, message) from nested errors: `targets.0.weight`."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _flat(inner, _below(place, str(name)))
    elif isinstance(detail, list):
        for position, inner in enumerate(detail):
            is_message = not isinstance(inner, Mapping | list)
            yield from _flat(inner, place if is_message else _below(place, str(position)))
    else:
        yield place, str(detail)


def _below(place: str, name: str) -> str:
    if name == "non_field_errors":
        return place
    return f"{place}.{name}" if place else name
