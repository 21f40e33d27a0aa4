"""The pages of cache policies and purges."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.compiler.caches import matches_of
from controlplane.console.api_calls import reading
from controlplane.console.bypass import as_rules, bypass_words
from controlplane.console.cache_impact import impact_of_policy, impact_of_purge
from controlplane.console.cache_what_if import what_if_context
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import ACTIVITY, DetailPage, Fact, State, Tab
from controlplane.console.editing import EditPage
from controlplane.console.formats import count
from controlplane.console.forms.caches import PolicyForm, PurgeForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import CACHES, PURGES
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.reviews import Check, Impact, checks_of
from controlplane.console.rule_lines import names_in
from controlplane.console.tables.caches import PolicyTable, PurgeTable, state_of_policy
from controlplane.decisions.caches import (
    SCOPE_WORDS,
    purge_words,
    seconds_words,
    tiers_words,
    ttl_words,
)
from controlplane.decisions.route_rules import when_document
from controlplane.errors import NotAllowed
from controlplane.models import CachePolicy, Purge, Route
from controlplane.selectors.cache_filters import PolicyFilters, PurgeFilters
from controlplane.selectors.caches import list_policies, list_policy_names, list_purges
from controlplane.services.actors import Actor
from controlplane.services.caches import create_policy, delete_policy, update_policy
from controlplane.services.drafts import Draft
from controlplane.services.purges import create_purge

WHAT_IF = "what-if"

TABS = (
    ("Policies", "caches", False),
    ("Savings", "cache-savings", True),
    ("Purges", "purges", True),
)
"""Label and address of each, and whether it is for roles of the whole organisation."""


def tabs_for(page: Page, current: str) -> Sequence[tuple[str, str, bool]]:
    """The tabs of the caches that the reader may see."""
    reads_all = page.scope.access.reads_organisation(page.scope.organisation.pk)
    return [
        (label, reverse(name), name == current)
        for label, name, is_for_whole in TABS
        if reads_all or not is_for_whole
    ]


def require_whole(page: Page) -> None:
    """Raise NotAllowed unless the reader holds a role in the whole organisation."""
    if not page.scope.access.reads_organisation(page.scope.organisation.pk):
        where = page.scope.organisation.name
        raise NotAllowed(
            f"This is for roles of the whole organisation, and yours in {where} are for teams or "
            f"projects. An administrator of {where} can give you one."
        )


class PolicyList(ListPage):
    noun = CACHES
    selector = staticmethod(list_policies)
    filters = PolicyFilters
    table = PolicyTable
    template_name = "console/caches/list.html"
    hidden_filters = ListPage.hidden_filters | {"name"}
    intro = "Which answers are kept, where, for whom and for how long"
    empty = Empty(
        "Nothing is cached",
        "A policy says which answers are kept and for how long. Make one, then give it to a route. "
        "One without tiers only counts what repeats, to see what caching would be worth.",
    )

    def actions(self) -> Sequence[Action]:
        found = list(super().actions())
        if self.may_write(PURGES.key):
            found.insert(0, Action("Purge", PURGES.create_url(), "danger"))
        return found

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, PolicyTable)
        mine = Route.objects.filter(organisation=self.scope.organisation)
        named = mine.filter(cache_policy__isnull=False).values_list("name", "pk")
        table.routes = dict(named)
        return {"cache_tabs": tabs_for(self, CACHES.key)}


class PolicyDetail(DetailPage):
    noun = CACHES
    selector = staticmethod(list_policies)
    is_name_mono = False
    template_name = "console/caches/detail.html"
    tabs = (Tab("overview", "Overview"), Tab(WHAT_IF, "What if"), Tab(ACTIVITY, "Activity"))

    def tabs_of(self, row: CachePolicy) -> Sequence[Tab]:
        if self.scope.access.reads_organisation(self.scope.organisation.pk):
            return self.tabs
        # it is told of everybody's traffic
        return tuple(tab for tab in self.tabs if tab.name != WHAT_IF)

    def extra(self, row: CachePolicy, tab: str) -> Mapping[str, Any]:
        return what_if_context(self.scope, row) if tab == WHAT_IF else {}

    def api_call(self, row: CachePolicy, tab: str) -> str:
        if tab == WHAT_IF:
            path = f"{CACHES.api_path(row.pk)}what-if/"
            return reading(self.request, self.scope, path, place="")
        return super().api_call(row, tab)

    def state_of(self, row: CachePolicy) -> State:
        return state_of_policy(row)

    def facts_of(self, row: Any) -> Sequence[Fact]:
        limit = row.false_hits_max_percent
        conditions = [when_document(one) for one in matches_of(row.bypass)]
        names = names_in(self.scope, as_rules(conditions)) if conditions else {}
        zone = self.scope.organisation.time_zone
        passed = "; ".join(bypass_words(one, names, zone) for one in conditions)
        return (
            Fact("Routes", ", ".join(row.route_names) or "none has it"),
            Fact("Keeps answers", tiers_words(row.tiers)),
            Fact("Shared by", SCOPE_WORDS[row.scope]),
            Fact("For", ttl_words(row.ttl_s)),
            Fact("Answers drawn by chance", "kept" if row.stores_sampled else "not kept"),
            Fact("Answers that call tools", "kept" if row.stores_tool_calls else "not kept"),
            Fact("Largest answer", count(row.max_entry_bytes), unit="bytes"),
            Fact("Least similarity", f"{row.similarity_min:g}"),
            Fact("Checked", f"{row.check_percent:g}", unit="% of hits by meaning"),
            Fact("False hits, at most", *(("not held",) if limit is None else (f"{limit:g}",)),
                 unit="" if limit is None else "%"),
            Fact("When a budget is used up", _out_of_budget(row)),
            Fact("Served while renewed", seconds_words(row.stale_s)),
            Fact("Memory", count(row.memory_percent), unit="% of each gateway's"),
            Fact("Caches in front", seconds_words(row.edge_s)),
            Fact("Passed over", passed or "nothing"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )  # fmt: skip

    def actions_of(self, row: CachePolicy) -> Sequence[Action]:
        found = list(super().actions_of(row))
        if self.may_write(PURGES.key):
            url = f"{PURGES.create_url()}?kind=policy&value={row.pk}"
            found.insert(0, Action("Purge", url, "danger"))
        return found


def _out_of_budget(row: CachePolicy) -> str:
    return "served, as it costs nothing" if row.serves_out_of_budget else "refused like any other"


class PolicyCreate(CreatePage):
    noun = CACHES
    form_class = PolicyForm
    template_name = "console/caches/form.html"
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> CachePolicy:
        settings = PolicyForm.settings_of(values)
        return create_policy(actor, organisation=self.scope.organisation, **settings)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_policy(self.scope, PolicyForm.settings_of(changes), draft)


class PolicyEdit(EditPage):
    noun = CACHES
    selector = staticmethod(list_policies)
    form_class = PolicyForm
    template_name = "console/caches/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_policy(
            actor,
            policy_id=row.pk,
            changes=PolicyForm.settings_of(changes),
            expected_version=expected_version,
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        found = super().restored_from(before)
        times = before.get("ttl_s") or {}
        return found | {f"ttl_{task}_s": seconds for task, seconds in times.items()}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        values = PolicyForm.settings_of({**PolicyForm.initial_of(row), **changes})
        return impact_of_policy(self.scope, values, draft, row)


class PolicyDelete(DeletePage):
    noun = CACHES
    selector = staticmethod(list_policies)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_policy(actor, policy_id=row.pk, expected_version=expected_version)

    def values_of(self, row: CachePolicy) -> Mapping[str, Any]:
        return {"name": row.name, "tiers": row.tiers, "scope": SCOPE_WORDS[row.scope]}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = Check("info", "What was kept under it is never served again.")
        return Impact(checks=(told, *checks_of(draft, CACHES.key)))


class PurgeList(ListPage):
    noun = PURGES
    selector = staticmethod(list_purges)
    filters = PurgeFilters
    table = PurgeTable
    template_name = "console/caches/list.html"
    order = "-created_at"
    api_orders: ClassVar[Mapping[str, str]] = {"created_at": "id"}
    hidden_filters = ListPage.hidden_filters | {"value"}
    intro = "What was taken out of the caches; told for 31 days, longer than anything is kept"
    empty = Empty(
        "Nothing was purged",
        "A purge takes out what is kept under a policy, in a namespace or with a tag, or one "
        "entry: what was asked before it is never served again.",
    )

    def actions(self) -> Sequence[Action]:
        if not self.may_write(PURGES.key):
            return ()
        return (Action("Purge", PURGES.create_url(), "danger"),)

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(CACHES.group), Crumb(CACHES.title, CACHES.list_url()), Crumb(PURGES.title))

    def get(self, request: HttpRequest) -> HttpResponse:
        require_whole(self)
        return super().get(request)

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, PurgeTable)
        shown = [row.record for row in table.paginated_rows]
        table.names = list_policy_names(self.scope.access, shown)
        return {"cache_tabs": tabs_for(self, PURGES.key)}


class PurgeDetail(DetailPage):
    noun = PURGES
    selector = staticmethod(list_purges)
    is_name_mono = False
    is_edited = False
    is_deleted = False

    def title_of(self, row: Purge) -> str:
        names = list_policy_names(self.scope.access, (row,))
        return f"Purge of {purge_words(row.kind, row.value, names.get(row.value))}"

    def facts_of(self, row: Purge) -> Sequence[Fact]:
        return (
            Fact("Kind", row.get_kind_display()),
            Fact("Value", row.value, is_mono=True),
            Fact("Why", row.reason or "not said"),
            Fact("By", row.made_by),
            Fact("Epoch", str(row.epoch), is_mono=True),
            Fact("Id", row.pk, is_mono=True),
        )


class PurgeCreate(CreatePage):
    noun = PURGES
    form_class = PurgeForm
    template_name = "console/caches/purge.html"
    is_reviewed = True
    verb = "Purge"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Purge:
        return create_purge(actor, organisation=self.scope.organisation, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_purge(self.scope, changes, draft)
