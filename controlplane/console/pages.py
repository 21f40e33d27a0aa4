"""What every page of the console shares: its reader's scope, its breadcrumb, its refusals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views import View

from controlplane.console.scope import PARAMETER, Scope, scoped
from controlplane.errors import NotAllowed, NotFound
from controlplane.middleware import request_id_of
from controlplane.models import Organisation, User
from controlplane.selectors.organisations import list_organisations
from controlplane.services.actors import Actor, Via, user_actor

AnyRow = TypeVar("AnyRow", bound=Model)


@dataclass(frozen=True, slots=True)
class Crumb:
    """One step of the breadcrumb; the last one has no address."""

    label: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A button in a page's header. One at most is primary; `tone` danger is outlined red."""

    label: str
    url: str
    tone: str = "plain"
    icon: str = ""


class Page(View):
    """A page of one organisation. `self.scope` is there before `get` and `post` are called."""

    template_name: ClassVar[str]
    scope: Scope

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return scoped(self._in_scope)(request, *args, **kwargs)

    def _in_scope(
        self, request: HttpRequest, scope: Scope, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        self.scope = scope
        try:
            return super().dispatch(request, *args, **kwargs)  # type: ignore[return-value]
        except OtherOrganisation as other:
            return HttpResponseRedirect(other.url)
        except NotAllowed as error:
            raise PermissionDenied(error.detail) from error

    def actor(self, reason: str = "") -> Actor:
        """The reader as services and the audit trail know them."""
        user = self.request.user
        assert isinstance(user, User)
        request_id = request_id_of(self.request)
        return user_actor(user, via=Via.CONSOLE, request_id=request_id, reason=reason)

    def may_write(self, noun: str, **place: str | None) -> bool:
        """Tell whether the reader may change this noun in the page's organisation."""
        return self.scope.access.may_write(noun, self.scope.organisation.pk, **place)

    def require_write(self, noun: str, **place: str | None) -> None:
        """Raise NotAllowed, with the permission that is missing, unless the reader may write."""
        if not self.may_write(noun, **place):
            where = self.scope.organisation.name
            raise NotAllowed(
                f"You lack the permission to change {noun} in {where}. "
                f"An administrator of {where} can give you a role that has it."
            )

    def found(self, rows: QuerySet[AnyRow], pk: str) -> AnyRow:
        """The row of this id among those the reader may see; its organisation is the page's.

        Raises NotFound. An address of another organisation's object, shared by a colleague, leads
        to the same page there.
        """
        row = rows.filter(pk=pk.replace("\0", "")).first()
        if row is None:
            raise NotFound
        home = row.pk if isinstance(row, Organisation) else getattr(row, "organisation_id", None)
        if home is not None and home != self.scope.organisation.pk:
            self._move_to(str(home))
        return row

    def _move_to(self, organisation_id: str) -> None:
        if self.request.method in ("GET", "HEAD"):
            query = self.request.GET.copy()
            query[PARAMETER] = organisation_id
            raise OtherOrganisation(f"{self.request.path}?{query.urlencode()}")
        found = list_organisations(self.scope.access).filter(pk=organisation_id).first()
        if found is None:
            raise NotFound
        self.scope = replace(self.scope, organisation=found)

    def crumbs(self) -> Sequence[Crumb]:
        """Where the page stands; the last is the page itself."""
        return ()

    def render(
        self, context: dict[str, Any], *, template: str | None = None, status: int = 200
    ) -> HttpResponse:
        """The page, with what every page of the shell needs."""
        shared = {
            "scope": self.scope,
            "zone": self.scope.zone,
            "now": timezone.now(),
            "crumbs": self.crumbs(),
        }
        page = template or self.template_name
        return render(self.request, page, {**shared, **context}, status=status)


class OtherOrganisation(Exception):
    """The object belongs to another organisation the reader is in; `url` is its page there."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url
