"""The overview, and the document every live page is drawn from."""

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.console.api_calls import reading
from controlplane.console.scope import Scope, scoped
from controlplane.errors import ControlPlaneError
from controlplane.models import User
from controlplane.selectors.access import Access, get_access_of_user
from dashboards.changes import changes_of
from dashboards.documents import document_of, encode
from dashboards.kinds import Page
from dashboards.overview import checklist_of
from dashboards.pages import live_context
from dashboards.scenes import read_whole
from dashboards.scopes import DEFAULT_WINDOW, find_scope, read_until
from dashboards.service_levels import level_tiles


@require_safe
@scoped
def overview(request: HttpRequest, scope: Scope) -> HttpResponse:
    """The page one lands on: how all of an organisation's traffic is now."""
    now = timezone.now()
    may_read_all = scope.access.reads_organisation(scope.organisation.pk)
    context = {
        "scope": scope,
        "zone": scope.zone,
        "now": now,
        "crumbs": (),
        "may_read_all": may_read_all,
        "levels": level_tiles(scope.access, scope.organisation, now) if may_read_all else (),
        "steps": checklist_of(scope.access, scope.organisation.pk),
        "changes": changes_of(scope.access, scope.organisation.pk, scope.zone),
        "api": _same_by_rest(request, scope),
        **live_context(Page.OVERVIEW, scope.organisation.pk, request.GET),
    }
    return render(request, "dashboards/overview.html", context)


def _same_by_rest(request: HttpRequest, scope: Scope) -> str:
    """The calls that answer what the page shows: its charts, and what needs attention."""
    query = QueryDict(mutable=True)
    query["window"] = request.GET.get("window") or DEFAULT_WINDOW
    until = read_until(request.GET)
    if until is not None:
        query["until"] = f"{until:%Y-%m-%dT%H:%M:%SZ}"
    paths = (reverse("api-live-list"), reverse("api-attention-list"))
    return "\n\n".join(reading(request, scope, path, query) for path in paths)


def _answered(
    view: Callable[[HttpRequest, Access, str], str],
) -> Callable[[HttpRequest, str], HttpResponse]:
    """Answer a script: JSON, and the same refusals as the REST API's, never a sign-in page."""

    def inner(request: HttpRequest, page: str) -> HttpResponse:
        if not isinstance(request.user, User):
            told = {"code": "not_authenticated", "detail": "Sign in again.", "fields": {}}
            return _json(encode(told), HTTPStatus.UNAUTHORIZED)
        try:
            text = view(request, get_access_of_user(request.user), page)
            return _json(text, HTTPStatus.OK)
        except ControlPlaneError as error:
            fields = {name: list(words) for name, words in error.fields.items()}
            told = {"code": error.code, "detail": error.detail, "fields": fields}
            return _json(encode(told), error.http_status)

    return inner


def _json(text: str, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="application/json")


@require_safe
@_answered
def live_document(request: HttpRequest, access: Access, page: str) -> str:
    """The whole live page as JSON: figures of all buckets, tiles, lists."""
    query = request.GET.dict()
    scope, until = find_scope(access, page, query), read_until(query)
    scene = read_whole(access, scope, timezone.now(), until)
    return encode(document_of(scene, is_historical=until is not None))
