"""The overview, and the document every live page is drawn from."""

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

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
from dashboards.scopes import find_scope, read_until


@require_safe
@scoped
def overview(request: HttpRequest, scope: Scope) -> HttpResponse:
    """The page one lands on: how all of an organisation's traffic is now."""
    context = {
        "scope": scope,
        "zone": scope.zone,
        "now": timezone.now(),
        "crumbs": (),
        "may_read_all": scope.access.reads_organisation(scope.organisation.pk),
        "steps": checklist_of(scope.access, scope.organisation.pk),
        "changes": changes_of(scope.access, scope.organisation.pk, scope.zone),
        **live_context(Page.OVERVIEW, scope.organisation.pk, request.GET),
    }
    return render(request, "dashboards/overview.html", context)


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
