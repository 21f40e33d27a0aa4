"""The one table from exceptions to answers, for pages and API alike; the nearest class wins.

An outage is never told as the caller's fault: 401 is for a token that was checked and is wrong.
"""

import sys
from collections.abc import Mapping

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import TimeoutError as StoreTimeoutError

from controlplane.errors import ControlPlaneError, Fields, VersionMismatch

RETRY_AFTER_S = 5

_OUTAGES: Mapping[type[BaseException], tuple[str, str]] = {
    OperationalError: ("database_unavailable", "The database is not answering."),
    InterfaceError: ("database_unavailable", "The database is not answering."),
    StoreConnectionError: ("state_unavailable", "The state store is not answering."),
    StoreTimeoutError: ("state_unavailable", "The state store is not answering."),
}

log = structlog.get_logger(__name__)


def outage_of(exception: BaseException | None) -> tuple[str, str] | None:
    """The code and words of the outage behind an exception, or None if it isn't one."""
    if exception is None:
        return None
    for kind in type(exception).__mro__:
        if kind in _OUTAGES:
            return _OUTAGES[kind]
    return None


def error_body(code: str, detail: str, fields: Fields | None = None) -> dict[str, object]:
    """The body of every error of the API."""
    return {"code": code, "detail": detail, "fields": fields or {}}


def body_and_status(error: ControlPlaneError) -> tuple[dict[str, object], int]:
    """How one of our own errors is answered."""
    body = error_body(error.code, error.detail, error.fields)
    if isinstance(error, VersionMismatch):
        body["current_version"] = error.current
    return body, error.http_status


def response_to_outage(
    request: HttpRequest, exception: BaseException | None
) -> HttpResponse | None:
    """Answer 503 if the exception is an outage; None leaves it to whoever is next."""
    found = outage_of(exception)
    if found is None:
        return None
    code, detail = found
    log.warning("request failed in an outage", outage=code, path=request.path)
    if is_api(request):
        response: HttpResponse = JsonResponse(error_body(code, detail), status=503)
    else:
        told = {"code": code, "detail": detail}
        response = bare_page(request, "outage.html", told, status=503)
    response["Retry-After"] = str(RETRY_AFTER_S)
    return response


def bare_page(
    request: HttpRequest, template: str, context: Mapping[str, object], *, status: int
) -> HttpResponse:
    """Render a page without session, user or messages: their stores may be what is down."""
    page = render_to_string(template, {**context, "request": request})
    return HttpResponse(page, status=status)


def is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer what no view handled, middleware's own failures among it."""
    outage = response_to_outage(request, sys.exc_info()[1])
    if outage is not None:
        return outage
    if is_api(request):
        return JsonResponse(
            error_body("internal_error", "Something broke on our side."), status=500
        )
    return defaults.server_error(request)  # type: ignore[return-value]


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a path nobody serves."""
    if is_api(request):
        return JsonResponse(error_body("not_found", "There is no such resource."), status=404)
    return defaults.page_not_found(request, exception)  # type: ignore[return-value]


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request Django itself refused."""
    if not is_api(request):
        return defaults.bad_request(request, exception)  # type: ignore[return-value]
    if isinstance(exception, RequestDataTooBig):
        return JsonResponse(error_body("too_large", "The body is too large."), status=413)
    return JsonResponse(error_body("bad_request", "The request is not acceptable."), status=400)
