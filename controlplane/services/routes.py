"""Edits of routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from controlplane.errors import Invalid
from controlplane.models import Organisation, Pool, Route, RouteTarget
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from inference.contract.params import MAX_WEIGHT, ROUTE_BOUNDS, TARGET_BOUNDS

MAX_TARGETS = 100
"""More destinations than one route can be reasoned about; a bound for the list's sake."""

_EDITABLE = frozenset(
    (
        *("name", "targets", "strategy", "is_enabled", "accounting"),
        *ROUTE_BOUNDS,
    )
)


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """One destination as asked for. `pool` is a row or the name or id of one.

    `id` names a target the route has already and keeps its identity; without it, a target of the
    same pool keeps its own. `timeouts` are those of `params.TARGET_BOUNDS` that were named, None
    for the route's; a target the route has keeps the others.
    """

    pool: Pool | str
    weight: int
    id: str | None = None
    timeouts: Mapping[str, int | None] = field(default_factory=dict)


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


def create_route(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    targets: Sequence[TargetChoice],
    **route_settings: Unpack[RouteSettings],
) -> Route:
    """Make a route; raises Invalid or ProblemsFound (fields as `targets.0.pool`)."""
    with configuration_edit():
        route = rows.insert(Route(organisation=organisation, name=name, **route_settings))
        _place_targets(route, targets)
        after = {**edits.values_of(route), "targets": told_targets(route)}
        edits.conclude(actor, "create", "routes", route, after=after)
    return route


def update_route(
    actor: Actor,
    *,
    route_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Route:
    """Change the fields that are named; `targets` (TargetChoice) replaces the whole list.

    Raises Invalid, ProblemsFound, NotFound or VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        route = rows.lock(Route, route_id, expected_version=expected_version)
        values = dict(changes)
        told_before = told_targets(route)
        if "targets" in values:
            _place_targets(route, values.pop("targets"))
        told_after = told_targets(route)
        changed = rows.change(route, values, touch=told_before != told_after)
        if changed is not None:
            before, after = changed
            if told_before != told_after:
                before["targets"], after["targets"] = told_before, told_after
            edits.conclude(actor, "update", "routes", route, before=before, after=after)
    return route


def delete_route(actor: Actor, *, route_id: str, expected_version: int | None = None) -> None:
    """Remove a route; a key that was restricted to it keeps the rest of its routes, if any."""
    with configuration_edit():
        route = rows.lock(Route, route_id, expected_version=expected_version)
        before = {**edits.values_of(route), "targets": told_targets(route)}
        rows.remove(route)
        edits.conclude(actor, "delete", "routes", route, before=before)


def told_targets(route: Route) -> list[dict[str, object]]:
    """The targets as the audit trail tells them, with the time-outs that are their own."""
    found = RouteTarget.objects.filter(route=route).order_by("position")
    return [
        {"id": one.pk, "pool": one.pool_id, "weight": one.weight, **own_timeouts(one)}
        for one in found
    ]


def own_timeouts(target: RouteTarget) -> dict[str, int]:
    """The time-outs in which a target differs from its route."""
    named = {name: getattr(target, name) for name in TARGET_BOUNDS}
    return {name: value for name, value in named.items() if value is not None}


def _place_targets(route: Route, choices: Sequence[TargetChoice]) -> None:
    """Make the route's targets those asked for, in their order; the rest go."""
    if len(choices) > MAX_TARGETS:
        raise Invalid.field("targets", f"A route has at most {MAX_TARGETS} targets.")
    existing = {target.pk: target for target in RouteTarget.objects.filter(route=route)}
    placed = _pair_up(route, choices, existing)
    kept = {target.pk for target in placed}
    RouteTarget.objects.filter(route=route).exclude(pk__in=kept).delete()
    for target in placed:
        if target.pk in existing:
            target.save(update_fields=["pool", "weight", "position", *TARGET_BOUNDS])
        else:
            target.save(force_insert=True)


def _pair_up(
    route: Route, choices: Sequence[TargetChoice], existing: Mapping[str, RouteTarget]
) -> list[RouteTarget]:
    by_pool = {target.pool_id: target for target in existing.values()}
    placed: list[RouteTarget] = []
    for position, choice in enumerate(choices):
        pool = _pool_of(route, choice, position)
        target = _target_of(choice, position, existing) or by_pool.get(pool.pk)
        if target is None or target in placed:
            target = RouteTarget(organisation_id=route.organisation_id, route=route)
        if pool.pk in {other.pool_id for other in placed}:
            raise Invalid.field(f"targets.{position}.pool", "The route has this pool twice.")
        target.pool, target.weight, target.position = pool, choice.weight, position
        _time(target, choice.timeouts, position)
        placed.append(target)
    return placed


def _time(target: RouteTarget, timeouts: Mapping[str, int | None], position: int) -> None:
    """Set the time-outs that were named, or raise Invalid at them."""
    for name, value in timeouts.items():
        problem = None if value is None else TARGET_BOUNDS[name].problem_with(value)
        if problem is not None:
            raise Invalid.field(f"targets.{position}.{name}", problem)
        setattr(target, name, value)


def _target_of(
    choice: TargetChoice, position: int, existing: Mapping[str, RouteTarget]
) -> RouteTarget | None:
    if choice.id is None:
        return None
    if choice.id not in existing:
        raise Invalid.field(f"targets.{position}.id", "The route has no such target.")
    return existing[choice.id]


def _pool_of(route: Route, choice: TargetChoice, position: int) -> Pool:
    if not 0 <= choice.weight <= MAX_WEIGHT:
        message = f"A weight must be between 0 and {MAX_WEIGHT:,}."
        raise Invalid.field(f"targets.{position}.weight", message)
    if isinstance(choice.pool, Pool):
        return choice.pool
    pools = Pool.objects.filter(organisation_id=route.organisation_id)
    found = pools.filter(pk=choice.pool).first() or pools.filter(name=choice.pool).first()
    if found is None:
        raise Invalid.field(f"targets.{position}.pool", "There is no pool of this name or id.")
    return found
