"""The pages of routes: where requests go, and what a change of it moves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.compiler import rules_of
from controlplane.console.api_calls import live_call
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import ACTIVITY, DetailPage, Fact, State, Tab
from controlplane.console.diffs import shown
from controlplane.console.formats import count, minute
from controlplane.console.forms.routes import RouteForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import CACHES, ROUTES
from controlplane.console.reviews import Impact
from controlplane.console.route_edits import as_edit
from controlplane.console.route_flow import Aim, Branch, branch_of, slots_of
from controlplane.console.route_impact import impact_of_edit, impact_of_removal
from controlplane.console.rule_lines import conditions_of, names_in, targets_words
from controlplane.console.rule_split import SPAN_WORDS, lines_of, splits_for, words_of
from controlplane.console.tables.routes import RouteTable
from controlplane.console.targets import as_listed, measured_of, told
from controlplane.console.what_if import WhatIfPage
from controlplane.decisions.route_rules import condition_words, document_of
from controlplane.models import Route
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.impact import list_attempts_by_pool
from controlplane.selectors.live_queues import get_steps
from controlplane.selectors.pools import list_pools
from controlplane.selectors.routes import list_routes
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.routes import create_route, delete_route, update_route
from inference.contract.kinds import Strategy

LIVE = "live"

HOUR = timedelta(hours=1)
SPANS = (timedelta(minutes=15), timedelta(days=1))
"""The stretches over which shares are measured on a route's page."""

EVERYTHING_ELSE = "Everything else"


class RouteList(ListPage):
    noun = ROUTES
    selector = staticmethod(list_routes)
    filters = RouteFilters
    table = RouteTable
    intro = "The names callers ask for, and the pools their requests go to"
    empty = Empty(
        "There is no route",
        "A route is what callers write in `model`. It sends requests to pools by weight, and to "
        "the next one if the first fails.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, RouteTable)
        shown = [row.record.pk for row in table.paginated_rows]
        access, organisation = self.scope.access, self.scope.organisation
        if access.reads_organisation(organisation.pk):
            since = timezone.now() - HOUR
            table.measure(list_attempts_by_pool(access, organisation, since=since, route_ids=shown))
        return {}


class RouteDetail(DetailPage):
    noun = ROUTES
    selector = staticmethod(list_routes)
    template_name = "console/routes/detail.html"
    tabs = (Tab("overview", "Overview"), Tab(LIVE, "Live"), Tab(ACTIVITY, "Activity"))

    def tabs_of(self, row: Route) -> Sequence[Tab]:
        if self.scope.access.reads_organisation(self.scope.organisation.pk):
            return self.tabs
        # live figures tell of everybody's traffic
        return tuple(tab for tab in self.tabs if tab.name != LIVE)

    def api_call(self, row: Route, tab: str) -> str:
        if tab == LIVE:
            return live_call(self.request, self.scope, route=row.pk)
        return super().api_call(row, tab)

    def state_of(self, row: Route) -> State:
        return State("On") if row.is_enabled else State("Off", "stop", "idle")

    def facts_of(self, row: Route) -> Sequence[Fact]:
        total = row.total_timeout_ms
        return (
            Fact("Strategy", row.get_strategy_display()),
            Fact("Wait for a cached prompt", shown("max_wait_penalty", row.max_wait_penalty)),
            Fact("Accounting", row.get_accounting_display()),
            Fact("Attempts, at most", count(row.max_attempts)),
            Fact("Retry budget", count(row.retry_budget_percent), unit="% of requests"),
            Fact("Output if unnamed", count(row.default_max_output_tokens), unit="tokens"),
            Fact("Connecting", count(row.connect_timeout_ms), unit="ms"),
            Fact("First token", count(row.first_byte_timeout_ms), unit="ms"),
            Fact("Between tokens", count(row.idle_timeout_ms), unit="ms"),
            Fact("Whole request", *(("no limit",) if total is None else (count(total),))),
            _silence(row.keep_alive_ms),
            *_waiting(row),
            *_caches(row),
            Fact("Task", row.get_default_task_display()),
            Fact("Aliases", ", ".join(row.aliases) or "none"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Route, tab: str) -> Mapping[str, Any]:
        if tab != "overview":
            return {}
        branches = self._branches(row)
        measured = self._measured(row)
        steps = get_steps(self.scope.access, row, timezone.now())
        splits = splits_for(self.scope, row) if len(branches) > 1 else None
        branches = [replace(one, took=words_of(one.rule_id, splits)) for one in branches]
        return {
            "branches": branches,
            "steps": "" if steps is None else ", ".join(_words(one) for one in steps.names),
            "steps_since": ""
            if steps is None or steps.since is None
            else minute(steps.since, self.scope.zone),
            "rule_spans": list(SPAN_WORDS.values()),
            "rule_lines": () if splits is None else lines_of(branches, splits),
            "rule_requests": "" if splits is None else count(splits["24h"].requests),
            "has_rules": len(branches) > 1,
            "has_tiers": any(branch.fallbacks for branch in branches),
            "attempts": None if measured is None else sum(measured[-1].values()),
            "is_by_load": row.strategy == Strategy.LEAST_WORK,
            "rows": [
                {"branch": branch, "aim": aim, "measured": _shares_of(aim, measured)}
                for branch in branches
                for aim in branch.aims
            ],
        }

    def _branches(self, row: Route) -> Sequence[Branch]:
        """The rules in order, then the route's own targets."""
        rules = [document_of(rule) for rule in rules_of(row.rules)]
        own = as_listed(row.targets.all())
        lists = [*(rule["targets"] for rule in rules), own]
        slots = slots_of(lists)
        found = list_pools(self.scope.access).filter(pk__in=list(slots))
        pools = {pool.pk: pool for pool in found.select_related("model")}
        names = names_in(self.scope, rules) if rules else {}
        zone = self.scope.organisation.time_zone
        branches = [
            branch_of(
                rule["name"],
                condition_words(conditions_of(rule), names, zone) or ("any request",),
                rule["targets"],
                pools,
                slots,
                is_enabled=rule["is_enabled"],
                rule_id=rule["id"],
            )
            for rule in rules
        ]
        title = EVERYTHING_ELSE if rules else row.name
        return [*branches, branch_of(title, (), own, pools, slots)]

    def _measured(self, row: Route) -> Sequence[Mapping[str, int]] | None:
        """Attempts by pool over each of SPANS; None for a role in a part of the organisation."""
        access, organisation = self.scope.access, self.scope.organisation
        # attempts are everybody's: such a role isn't told of them, and not told 0 either
        if not access.reads_organisation(organisation.pk):
            return None
        now = timezone.now()
        return [
            list_attempts_by_pool(access, organisation, since=now - span, route_ids=[row.pk]).get(
                row.pk, {}
            )
            for span in SPANS
        ]


class RouteCreate(CreatePage):
    noun = ROUTES
    form_class = RouteForm
    template_name = "console/routes/form.html"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Route:
        return create_route(actor, organisation=self.scope.organisation, **as_edit(values))


class RouteEdit(WhatIfPage):
    noun = ROUTES
    selector = staticmethod(list_routes)
    form_class = RouteForm
    template_name = "console/routes/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_route(
            actor, route_id=row.pk, changes=as_edit(changes), expected_version=expected_version
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        found = super().restored_from(before)
        if "targets" in found:
            kept = self.form_class(scope=self.scope, row=self.row).pools
            found["targets"] = [one for one in found["targets"] if one["pool"] in kept]
        if "rules" in found:
            there = {rule.id for rule in rules_of(self.row.rules)}
            found["rules"] = [
                {**rule, "id": rule["id"] if rule["id"] in there else ""} for rule in found["rules"]
            ]
        return found

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_edit(self.scope, row, changes, draft)


class RouteDelete(DeletePage):
    noun = ROUTES
    selector = staticmethod(list_routes)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_route(actor, route_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Route) -> Mapping[str, Any]:
        names = {one.pool_id: one.pool.name for one in row.targets.all()}
        targets = targets_words(as_listed(row.targets.all()), names.__getitem__)
        rules = ", ".join(rule.name for rule in rules_of(row.rules))
        more = {"rules": rules} if rules else {}
        return {"name": row.name, "targets": targets, **more}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_removal(self.scope, row, draft)


def _shares_of(aim: Aim, measured: Sequence[Mapping[str, int]] | None) -> Sequence[str]:
    """The share of a target's pool over each of SPANS, "" where there is nothing to tell."""
    if measured is None:
        return [""] * len(SPANS)
    shares = [measured_of(attempts) for attempts in measured]
    return [told(one.get(aim.pool_id, 0.0)) if one else "" for one in shares]


def _words(step: str) -> str:
    return step.replace("_", " ")


def _waiting(row: Route) -> Sequence[Fact]:
    """What becomes of requests when workers are busy."""
    hedge = row.hedge_after_ms
    steps = ", ".join(_words(step) for step in row.degradation)
    return (
        Fact("Waiting, at most", count(row.max_queue_wait_ms), unit="ms"),
        Fact("Requests waiting, at most", count(row.max_queued), unit="a process"),
        Fact("Second worker after", *(("never",) if hedge is None else (count(hedge),)),
             unit="" if hedge is None else "ms"),
        Fact("While saturated", steps or "serves as ever"),
    )  # fmt: skip


def _caches(row: Route) -> Sequence[Fact]:
    """By which policy answers are kept, and the threshold that is its own."""
    policy = row.cache_policy
    if policy is None:
        return (Fact("Cache policy", "none: nothing is kept"),)
    own = row.similarity_min
    words = f"{policy.similarity_min if own is None else own:g}"
    whose = "as its policy says" if own is None else "its own"
    return (
        Fact("Cache policy", policy.name, url=CACHES.detail_url(policy.pk)),
        Fact("Least similarity", words, unit=whose),
    )


def _silence(keep_alive_ms: int | None) -> Fact:
    label = "Silence before a comment"
    if keep_alive_ms is None:
        return Fact(label, "15", unit="s, once the answer has begun")
    return Fact(label, count(keep_alive_ms), unit="ms")
