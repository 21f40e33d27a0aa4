"""What every request passes: its id, its privacy headers, and a word for outages."""

import re
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware
from structlog.contextvars import bound_contextvars

from controlplane.error_responses import response_to_outage
from controlplane.identifiers import new_id

REQUEST_ID_HEADER = "X-Request-ID"

_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def request_id_of(request: HttpRequest) -> str:
    """The id this request is logged and audited under."""
    return str(getattr(request, "headworks_id", ""))


def _identify(request: HttpRequest) -> str:
    given = request.headers.get(REQUEST_ID_HEADER, "")
    request_id = given if _ACCEPTED_ID.fullmatch(given) else new_id("call")
    request.headworks_id = request_id  # type: ignore[attr-defined]
    return request_id


@sync_and_async_middleware
def request_identity(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Give each request an id, or keep the caller's, and say it in every log line and answer."""
    if iscoroutinefunction(get_response):

        async def handle_async(request: HttpRequest) -> HttpResponseBase:
            request_id = _identify(request)
            with bound_contextvars(request_id=request_id):
                response: HttpResponseBase = await get_response(request)
            response[REQUEST_ID_HEADER] = request_id
            return response

        return handle_async

    def handle(request: HttpRequest) -> HttpResponseBase:
        request_id = _identify(request)
        with bound_contextvars(request_id=request_id):
            response = get_response(request)
        response[REQUEST_ID_HEADER] = request_id  # type: ignore[index]
        return response  # type: ignore[return-value]

    return handle


def _keep_private(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if request.path.startswith("/api/"):
        patch_vary_headers(response, ["Authorization", "Cookie"])
        response["Cache-Control"] = "private, no-store"
    elif not response.has_header("Cache-Control"):
        response["Cache-Control"] = "private, no-store"
    return response


@sync_and_async_middleware
def privacy(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Keep every answer out of shared caches; one caller's answer is nobody else's."""
    if iscoroutinefunction(get_response):

        async def handle_async(request: HttpRequest) -> HttpResponseBase:
            return _keep_private(request, await get_response(request))

        return handle_async

    def handle(request: HttpRequest) -> HttpResponseBase:
        return _keep_private(request, get_response(request))  # type: ignore[arg-type]

    return handle


@sync_and_async_middleware
def outages(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Answer 503, not 500, when a view failed for want of the database or the state store."""
    if iscoroutinefunction(get_response):

        async def handle_async(request: HttpRequest) -> HttpResponseBase:
            response: HttpResponseBase = await get_response(request)
            return response

        handle_async.process_exception = _process_exception  # type: ignore[attr-defined]
        return handle_async

    def handle(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)  # type: ignore[return-value]

    handle.process_exception = _process_exception  # type: ignore[attr-defined]
    return handle


def _process_exception(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    return response_to_outage(request, exception)
