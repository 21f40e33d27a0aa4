"""The audit trail: who changed what, and back again."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.forms import Form, Select
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import NoReverseMatch, reverse

from controlplane.console.activity import (
    actions_told,
    nouns_told,
    object_of,
    told,
    verb_of,
)
from controlplane.console.api_calls import reading
from controlplane.console.editing import RESTORE
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import AUDIT, NOUNS
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.tables.audit import AuditTable
from controlplane.errors import NotAllowed
from controlplane.models import AuditEntry
from controlplane.selectors.audit import list_audit, list_audit_of
from controlplane.selectors.filters import AuditFilters
from controlplane.selectors.names import get_named, list_names
from controlplane.selectors.revisions import get_neighbours, get_revision_of_request
from controlplane.services.restores import KINDS

EDITED = frozenset(
    {
        *("models", "prices", "routes", "teams", "projects", "organisations", "pools"),
        *("limits", "budgets", "switches", "caches", "alert_rules"),
    }
)
"""Nouns whose edit form takes the values from before a change."""


def require_audit(page: Page) -> None:
    """Raise NotAllowed unless the reader holds a role in the whole organisation."""
    if not page.scope.access.reads_organisation(page.scope.organisation.pk):
        where = page.scope.organisation.name
        raise NotAllowed(
            f"This is for roles of the whole organisation, and yours in {where} are for teams or "
            f"projects. An administrator of {where} can give you one."
        )


class AuditList(ListPage):
    noun = AUDIT
    selector = staticmethod(list_audit)
    filters = AuditFilters
    table = AuditTable
    order = "-at"
    api_place = "scope"
    hidden_filters = ListPage.hidden_filters | {"scope"}
    api_orders: ClassVar[Mapping[str, str]] = {"at": "id"}
    is_created_here = False
    intro = "Every change with its actor, its reason and its difference; nobody can rewrite it"
    empty = Empty("Nothing was changed yet", "Each change made by page, API or command shows here.")

    def rows(self) -> QuerySet[AuditEntry]:
        """The organisation's changes, and the platform's for its administrators."""
        return list_audit_of(self.scope.access, self.scope.organisation.pk)

    def get(self, request: HttpRequest) -> HttpResponse:
        require_audit(self)
        return super().get(request)

    def fit(self, form: Form) -> None:
        """Offer the trail's own words; an address with another one keeps it."""
        for name, words in (("noun", nouns_told()), ("action", actions_told())):
            asked = str(form.data.get(name, ""))
            other = [(asked, asked)] if asked and asked not in dict(words) else []
            form.fields[name].widget = Select(choices=[("", "any"), *words, *other])

    def extra(self, table: NounTable) -> dict[str, Any]:
        ids = {row.record.object_id for row in table.paginated_rows}
        table.names = list_names(self.scope.access, ids)  # type: ignore[attr-defined]
        return {}


class AuditDetail(Page):
    """One change: its difference, and the way back where there is one."""

    template_name = "console/audit/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(AUDIT.group), Crumb(AUDIT.title, AUDIT.list_url()), Crumb(self.title))

    def get(self, request: HttpRequest, pk: int) -> HttpResponse:
        entry = self.found(list_audit(self.scope.access), str(pk))
        require_audit(self)
        (change,) = told(self.scope.access, [entry])
        row = get_named(self.scope.access, entry.noun, entry.object_id)
        name = getattr(row, "name", None) or (entry.after or entry.before or {}).get("name")
        what = f"{object_of(entry.noun)} {name or entry.object_id}"
        self.title = f"{verb_of(entry.action).capitalize()} {what}"
        asked = QueryDict(mutable=True)
        asked["object_id"] = entry.object_id
        context: dict[str, Any] = {
            "title": self.title,
            "entry": entry,
            "change": change,
            "object_url": _page_of(entry) if row is not None else "",
            "object_words": what,
            "actions": self._actions(entry, row),
            "api": reading(request, self.scope, AUDIT.api_path(), asked, place=""),
        }
        return self.render(context)

    def _actions(self, entry: AuditEntry, row: Any) -> Sequence[Action]:
        is_update = entry.action == "update" and entry.before
        if is_update and row is not None and entry.noun in EDITED and self.may_write(entry.noun):
            url = NOUNS[entry.noun].edit_url(entry.object_id)
            return (Action("Revert this change", f"{url}?{RESTORE}={entry.pk}"),)
        if entry.action == "delete" and entry.noun in KINDS and self.may_write(entry.noun):
            return self._ways_back(entry)
        return ()

    def _ways_back(self, entry: AuditEntry) -> Sequence[Action]:
        """The roll-back to the version before something was removed, if there is one."""
        if not entry.request_id:
            return ()
        revision = get_revision_of_request(self.scope.access, entry.request_id)
        if revision is None or revision.organisation_id != entry.organisation_id:
            return ()
        before, _ = get_neighbours(self.scope.access, revision)
        if before is None:
            return ()
        url = reverse("snapshot-restore", args=[before.version])
        return (Action("Roll back to before this", f"{url}?noun={entry.noun}"),)


def _page_of(entry: AuditEntry) -> str:
    noun = NOUNS.get(entry.noun)
    try:
        return "" if noun is None else noun.detail_url(entry.object_id)
    except NoReverseMatch:
        return ""
