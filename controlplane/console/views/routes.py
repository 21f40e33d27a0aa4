"""The pages of routes: where requests go, and what a change of it moves."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.console import flows
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.diffs import shown
from controlplane.console.editing import EditPage
from controlplane.console.formats import count
from controlplane.console.forms.routes import RouteForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import POOLS, ROUTES
from controlplane.console.reviews import Impact
from controlplane.console.route_impact import impact_of_edit, impact_of_removal
from controlplane.console.tables.routes import RouteTable
from controlplane.console.targets import (
    TIMEOUT_LABELS,
    has_times,
    measured_of,
    shares_of,
    times_of,
    times_told,
    told,
)
from controlplane.models import Route
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.impact import list_attempts_by_pool
from controlplane.selectors.routes import list_routes
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.routes import TargetChoice, create_route, delete_route, update_route
from inference.contract.kinds import Strategy

HOUR = timedelta(hours=1)


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
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Route, tab: str) -> Mapping[str, Any]:
        if tab != "overview":
            return {}
        access, organisation = self.scope.access, self.scope.organisation
        since = timezone.now() - HOUR
        found = list_attempts_by_pool(access, organisation, since=since, route_ids=[row.pk])
        attempts = found.get(row.pk, {})
        # attempts are everybody's: a role in a part isn't told of them, and not told 0 either
        is_told = access.reads_organisation(organisation.pk)
        targets = list(row.targets.all())
        shares = shares_of([{"pool": one.pool_id, "weight": one.weight} for one in targets])
        measured = measured_of(attempts)
        slots = {one.pool_id: min(place + 1, 7) for place, one in enumerate(targets)}
        return {
            "flow": flows.draw(shares, slots),
            "attempts": sum(attempts.values()) if is_told else None,
            "is_by_load": row.strategy == Strategy.LEAST_WORK,
            "targets": [
                {
                    "pool": one.pool,
                    "url": POOLS.detail_url(one.pool_id),
                    "weight": one.weight,
                    "share": told(shares[one.pool_id]),
                    "measured": told(measured.get(one.pool_id, 0.0)) if measured else "no data",
                    "attempts": attempts.get(one.pool_id, 0) if measured else None,
                    "slot": slots[one.pool_id],
                    "times": times_told(times_of(one)) if has_times(one) else "",
                }
                for one in targets
            ],
        }


class RouteCreate(CreatePage):
    noun = ROUTES
    form_class = RouteForm
    template_name = "console/routes/form.html"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Route:
        targets = _choices(values.pop("targets"))
        organisation = self.scope.organisation
        return create_route(actor, organisation=organisation, targets=targets, **values)


class RouteEdit(EditPage):
    noun = ROUTES
    selector = staticmethod(list_routes)
    form_class = RouteForm
    template_name = "console/routes/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        if "targets" in changes:
            changes = {**changes, "targets": _choices(changes["targets"])}
        return update_route(
            actor, route_id=row.pk, changes=changes, expected_version=expected_version
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        found = super().restored_from(before)
        if "targets" in found:
            kept = self.form_class(scope=self.scope, row=self.row).pools
            found["targets"] = [one for one in found["targets"] if one["pool"] in kept]
        return found

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_edit(self.scope, row, changes, draft)


class RouteDelete(DeletePage):
    noun = ROUTES
    selector = staticmethod(list_routes)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_route(actor, route_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Route) -> Mapping[str, Any]:
        targets = [f"{one.pool.name} {one.weight}" for one in row.targets.all()]
        return {"name": row.name, "targets": ", ".join(targets)}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_removal(self.scope, row, draft)


def _choices(targets: Sequence[Mapping[str, Any]]) -> list[TargetChoice]:
    return [
        TargetChoice(
            one["pool"],
            one["weight"],
            timeouts={name: one.get(name) for name in TIMEOUT_LABELS},
        )
        for one in targets
    ]


def _silence(keep_alive_ms: int | None) -> Fact:
    label = "Silence before a comment"
    if keep_alive_ms is None:
        return Fact(label, "15", unit="s, once the answer has begun")
    return Fact(label, count(keep_alive_ms), unit="ms")
