"""One object: its title with its state, who changed it last, tabs, facts, activity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone

from controlplane.console.activity import SHOWN, changes_of, last_change
from controlplane.console.api_calls import reading
from controlplane.console.budget_notices import Notice, notices_of
from controlplane.console.filtering import address
from controlplane.console.nouns import AUDIT, Noun
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.propagation import applied_context
from controlplane.selectors.access import Access
from controlplane.selectors.budget_warnings import chain_of
from controlplane.selectors.switches import get_switch_on

TAB, OLDER = "tab", "before"
ACTIVITY = "activity"
_SWITCHED = {
    "projects": "project",
    "keys": "key",
    "models": "model",
    "routes": "route",
    "pools": "pool",
}
"""Nouns that a kill switch can turn off, as it calls them."""


@dataclass(frozen=True, slots=True)
class State:
    """An object's state: a word, its icon and its tone."""

    words: str
    icon: str = "ok"
    tone: str = "ok"


@dataclass(frozen=True, slots=True)
class Fact:
    """One labelled value. `url` makes it a link, `is_mono` what a machine reads."""

    label: str
    value: str
    url: str = ""
    unit: str = ""
    is_mono: bool = False


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab: its name in the address, its label, and its own address if it is another page."""

    name: str
    label: str
    url: str = ""


class DetailPage(Page):
    """One object. A subclass names noun and selector, and tells state and facts.

    A template of the noun's own extends console/detail.html and fills its block `overview`, or
    adds tabs: `tabs` names them, the block `tab` draws the one of the address.
    """

    template_name = "console/detail.html"
    noun: ClassVar[Noun]
    selector: ClassVar[Callable[[Access], QuerySet[Any]]]
    tabs: ClassVar[Sequence[Tab]] = (Tab("overview", "Overview"), Tab(ACTIVITY, "Activity"))
    is_edited: ClassVar[bool] = True
    is_deleted: ClassVar[bool] = True
    is_name_mono: ClassVar[bool] = True
    tells_budgets: ClassVar[bool] = False

    def title_of(self, row: Any) -> str:
        return str(row.name)

    def state_of(self, row: Any) -> State | None:
        """The chip beside the title."""
        return None

    def facts_of(self, row: Any) -> Sequence[Fact]:
        """What the object is, a line each."""
        return ()

    def figures_of(self, row: Any) -> Sequence[Fact]:
        """The strip of facts above the panels."""
        return ()

    def extra(self, row: Any, tab: str) -> Mapping[str, Any]:
        """What a template of the noun's own needs besides, for the tab that is shown."""
        return {}

    def place_of(self, row: Any) -> Mapping[str, str]:
        """The team and project the object stands in, for the question who may change it."""
        return {}

    def notices_of(self, row: Any) -> Sequence[Notice]:
        """Banners about budgets that count for the object and are nearly or wholly used up."""
        if not self.tells_budgets:
            return ()
        return notices_of(self.scope, chain_of(row), timezone.now())

    def tabs_of(self, row: Any) -> Sequence[Tab]:
        return self.tabs

    def actions_of(self, row: Any) -> Sequence[Action]:
        """Buttons of the header, for those who may write."""
        if not self.may_write(self.noun.key, **self.place_of(row)):
            return ()
        found = []
        if self.is_deleted:
            found.append(Action("Delete", self.noun.delete_url(row.pk), "danger"))
        if self.is_edited:
            found.append(Action("Edit", self.noun.edit_url(row.pk), "primary", "edit"))
        return found

    def api_call(self, row: Any, tab: str) -> str:
        """The REST call that answers what the tab shows."""
        if tab != ACTIVITY:
            return reading(self.request, self.scope, self.noun.api_path(row.pk), place="")
        asked = QueryDict(mutable=True)
        asked.update({"noun": self.noun.key, "object_id": str(row.pk), "ordering": "-id"})
        return reading(self.request, self.scope, AUDIT.api_path(), asked, place="")

    def get_row(self, pk: str) -> Any:
        """The object, or NotFound."""
        return self.found(type(self).selector(self.scope.access), pk)

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Show the tab of the address."""
        row = self.get_row(pk)
        tabs = self.tabs_of(row)
        asked = request.GET.get(TAB, "")
        tab = asked if asked in {one.name for one in tabs} else tabs[0].name
        path = self.noun.detail_url(row.pk)
        self.title = self.title_of(row)
        context: dict[str, Any] = {
            "noun": self.noun,
            "row": row,
            "title": self.title,
            "is_name_mono": self.is_name_mono,
            "state": self.state_of(row),
            "last": self._last_change(row),
            "last_url": f"{path}?{TAB}={ACTIVITY}",
            "tabs": [_linked(one, path, is_first=one is tabs[0]) for one in tabs],
            "tab": tab,
            "off": self._off(row),
            "actions": self.actions_of(row),
            "api": self.api_call(row, tab),
            "budget_notices": self.notices_of(row),
            **applied_context(request),
            **self.extra(row, tab),
        }
        if tab == ACTIVITY:
            context |= self._activity(row, path)
        else:
            context |= {"facts": self.facts_of(row), "figures": self.figures_of(row)}
        return self.render(context)

    def _off(self, row: Any) -> Any:
        """The kill switch that turns the object off, if one does."""
        subject = _SWITCHED.get(self.noun.key)
        if subject is None:
            return None
        home = self.scope.organisation.pk
        return get_switch_on(self.scope.access, home, subject, str(row.pk))

    def crumbs(self) -> Sequence[Crumb]:
        return (
            Crumb(self.noun.group),
            Crumb(self.noun.title, self.noun.list_url()),
            Crumb(self.title),
        )

    def _reads_audit(self) -> bool:
        return self.scope.access.reads_organisation(self.scope.organisation.pk)

    def _last_change(self, row: Model) -> Any:
        if not self._reads_audit():
            return None
        return last_change(self.scope.access, row, self.noun.key)

    def _activity(self, row: Model, path: str) -> dict[str, Any]:
        if not self._reads_audit():
            return {"changes": None}
        given = self.request.GET.get(OLDER, "")
        before_id = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        changes = changes_of(self.scope.access, row, self.noun.key, before_id=before_id)
        older = ""
        if len(changes) == SHOWN:
            older = address(path, self.request.GET, **{OLDER: str(changes[-1].entry.pk)})
        return {"changes": changes, "older_changes": older}


def _linked(tab: Tab, path: str, *, is_first: bool) -> Tab:
    if tab.url:
        return tab
    return Tab(tab.name, tab.label, path if is_first else f"{path}?{TAB}={tab.name}")
