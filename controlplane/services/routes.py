"""Edits of routes."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from controlplane.decisions.service_levels import OBJECTIVE_BOUNDS
from controlplane.models import CachePolicy, Organisation, Route
from controlplane.models.routes import ROUTE_CACHE_BOUNDS
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.route_rules import place_rules, with_told_rules
from controlplane.services.route_targets import TargetChoice, place_targets, told_targets
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names
from inference.contract.params import ROUTE_BOUNDS

__all__ = ["RouteSettings", "TargetChoice", "create_route", "delete_route", "update_route"]

_EDITABLE = frozenset(
    (
        *("name", "targets", "strategy", "is_enabled", "accounting"),
        *("aliases", "rules", "default_task", "degradation", "cache_policy"),
        *ROUTE_CACHE_BOUNDS,
        *ROUTE_BOUNDS,
        *OBJECTIVE_BOUNDS,
    )
)


class RouteSettings(TypedDict, total=False):
    """What a route can be given besides its name and targets; see `RouteRecord`."""

    strategy: str
    is_enabled: bool
    accounting: str
    default_max_output_tokens: int
    max_attempts: int
    connect_timeout_ms: int
    first_byte_timeout_ms: int
    idle_timeout_ms: int
    total_timeout_ms: int | None
    retry_budget_percent: int
    max_wait_penalty: float
    keep_alive_ms: int | None
    max_queue_wait_ms: int
    max_queued: int
    hedge_after_ms: int | None
    aliases: Sequence[str]
    default_task: str
    degradation: Sequence[str]
    cache_policy: CachePolicy | None
    similarity_min: float | None
    objective_availability_percent: float | None
    objective_first_token_p50_ms: int | None
    objective_first_token_p99_ms: int | None


def create_route(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    targets: Sequence[TargetChoice],
    rules: Sequence[Mapping[str, Any]] = (),
    **route_settings: Unpack[RouteSettings],
) -> Route:
    """Make a route; raises Invalid or ProblemsFound (fields as `targets.0.pool`).

    `rules` are documents as `route_rules` takes them.
    """
    with configuration_edit():
        route = Route(organisation=organisation, name=name, **_listed(route_settings))
        route.rules = place_rules(route, rules)
        rows.insert(route)
        place_targets(route, targets)
        after = {**with_told_rules(edits.values_of(route)), "targets": told_targets(route)}
        edits.conclude(actor, "create", "routes", route, after=after)
    return route


def update_route(
    actor: Actor,
    *,
    route_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Route:
    """Change the fields that are named; `targets` and `rules` replace the whole list.

    Raises Invalid, ProblemsFound, NotFound or VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        route = rows.lock(Route, route_id, expected_version=expected_version)
        values = _listed(changes)
        told_before = told_targets(route)
        if "targets" in values:
            place_targets(route, values.pop("targets"))
        if "rules" in values:
            values["rules"] = place_rules(route, values["rules"])
        told_after = told_targets(route)
        changed = rows.change(route, values, touch=told_before != told_after)
        if changed is not None:
            before, after = map(with_told_rules, changed)
            if told_before != told_after:
                before["targets"], after["targets"] = told_before, told_after
            edits.conclude(actor, "update", "routes", route, before=before, after=after)
    return route


def delete_route(actor: Actor, *, route_id: str, expected_version: int | None = None) -> None:
    """Remove a route with its limits and switch; keys restricted to it keep their other routes."""
    with configuration_edit():
        route = rows.lock(Route, route_id, expected_version=expected_version)
        before = {**with_told_rules(edits.values_of(route)), "targets": told_targets(route)}
        remove_what_names(actor, route.organisation_id, "route", [route.pk])
        rows.remove(route)
        edits.conclude(actor, "delete", "routes", route, before=before)


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with their lists as the columns hold them."""
    lists = {name: list(values[name]) for name in ("aliases", "degradation") if name in values}
    return {**values, **lists}
