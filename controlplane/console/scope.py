"""Who looks at a page, at which organisation, in which time zone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec
from zoneinfo import ZoneInfo

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django_htmx.http import HttpResponseClientRedirect

from controlplane.errors import Invalid, NotFound
from controlplane.models import Organisation, User
from controlplane.selectors.access import Access, get_access_of_user
from controlplane.selectors.organisations import list_organisations

PARAMETER = "organisation"
_SESSION_KEY = "organisation"
_MOST_OFFERED = 50
_PASSWORD = "my-password"

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Scope:
    """The organisation a page is about, and the others its reader could choose."""

    access: Access
    organisation: Organisation
    organisations: Sequence[Organisation]

    @property
    def zone(self) -> ZoneInfo:
        """The zone the organisation's times are told in."""
        return ZoneInfo(self.organisation.time_zone)

    @property
    def is_choice(self) -> bool:
        return len(self.organisations) > 1


def scoped(
    view: Callable[Concatenate[HttpRequest, Scope, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Give a view its reader's scope, and make its zone the current one.

    Strangers go to the sign-in page; no role is a 403.
    """

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not isinstance(request.user, User):
            return _to_sign_in(request)
        if request.user.must_change_password:
            return _to_password(request)
        scope = _find_scope(request, get_access_of_user(request.user))
        try:
            with timezone.override(scope.zone):
                return view(request, scope, *args, **kwargs)
        except NotFound as error:
            raise Http404 from error
        except Invalid as error:
            raise BadRequest(error.detail) from error

    return inner


def personal(
    view: Callable[Concatenate[HttpRequest, Scope | None, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Give a view about its reader the scope, or None to somebody without any role.

    Strangers go to the sign-in page.
    """

    @wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not isinstance(request.user, User):
            return _to_sign_in(request)
        if request.user.must_change_password and request.path != reverse(_PASSWORD):
            return _to_password(request)
        try:
            scope = _find_scope(request, get_access_of_user(request.user))
        except PermissionDenied:
            return view(request, None, *args, **kwargs)
        with timezone.override(scope.zone):
            return view(request, scope, *args, **kwargs)

    return inner


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A page is sent there; a part of a page, that its session outlived, sends the page there."""
    if "HX-Request" in request.headers:
        return HttpResponseClientRedirect(reverse("account_login"))
    return redirect_to_login(request.get_full_path())


def _to_password(request: HttpRequest) -> HttpResponse:
    """Whose password somebody else made up chooses one before all else."""
    place = reverse(_PASSWORD)
    if "HX-Request" in request.headers:
        return HttpResponseClientRedirect(place)
    return HttpResponseRedirect(place)


def _find_scope(request: HttpRequest, access: Access) -> Scope:
    if not access.sees_anything:
        raise PermissionDenied
    known = list_organisations(access).order_by("name")
    asked = request.GET.get(PARAMETER) or request.session.get(_SESSION_KEY)
    offered = list(known[:_MOST_OFFERED])
    if not offered:
        raise PermissionDenied
    chosen = next((one for one in offered if one.pk == asked), None)
    if chosen is None and asked is not None:
        chosen = known.filter(pk=str(asked).replace("\0", "")).first()
    if chosen is None and PARAMETER in request.GET:
        raise Http404
    chosen = chosen or offered[0]
    if request.session.get(_SESSION_KEY) != chosen.pk:
        request.session[_SESSION_KEY] = chosen.pk
    return Scope(access, chosen, offered)
