"""Which targets a list asks for: those of a route and those of its rules, by the same rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q

from controlplane.errors import Invalid
from controlplane.models import Pool, Route, RouteTarget
from controlplane.models.rows import target_id
from inference.contract.params import MAX_TIERS, MAX_WEIGHT, TARGET_BOUNDS
from inference.contract.snapshot import TargetRecord

MAX_TARGETS = 100
"""More destinations than one route can be reasoned about; a bound for the list's sake."""


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """One destination as asked for. `pool` is a row or the name or id of one.

    `id` names a target that is there already and keeps its identity; without it, a target of the
    same pool keeps its own. `timeouts` are those of `params.TARGET_BOUNDS` that were named, None
    for the route's; a target that is there keeps the others, and its `tier` where that is None.
    """

    pool: Pool | str
    weight: int
    id: str | None = None
    timeouts: Mapping[str, int | None] = field(default_factory=dict)
    tier: int | None = None


class Pools:
    """The organisation's pools that choices name, by name or id; read by one query."""

    def __init__(self, organisation_id: str, choices: Iterable[TargetChoice]) -> None:
        asked = {one.pool for one in choices if isinstance(one.pool, str)}
        found = Pool.objects.filter(organisation_id=organisation_id)
        rows = found.filter(Q(pk__in=asked) | Q(name__in=asked)) if asked else ()
        self._ids = {row.name: row.pk for row in rows} | {row.pk: row.pk for row in rows}

    def id_of(self, choice: TargetChoice, place: str) -> str:
        """The id of the choice's pool, or Invalid."""
        if isinstance(choice.pool, Pool):
            return choice.pool.pk
        found = self._ids.get(choice.pool)
        if found is None:
            raise Invalid.field(f"{place}.pool", "There is no pool of this name or id.")
        return found


def chosen_targets(
    pools: Pools, choices: Sequence[TargetChoice], existing: Sequence[TargetRecord], place: str
) -> list[TargetRecord]:
    """The targets of a list as asked for, those that are there with their ids; raises Invalid.

    `place` is where the list stands, as `targets` or `rules.0.targets`.
    """
    if len(choices) > MAX_TARGETS:
        raise Invalid.field(place, f"A route has at most {MAX_TARGETS} targets.")
    left = {one.id: one for one in existing}
    by_id = {one.id: one for one in existing}
    claimed = {one.id for one in choices if one.id is not None}
    placed: list[TargetRecord] = []
    for position, choice in enumerate(choices):
        here = f"{place}.{position}"
        if not 0 <= choice.weight <= MAX_WEIGHT:
            message = f"A weight must be between 0 and {MAX_WEIGHT:,}."
            raise Invalid.field(f"{here}.weight", message)
        pool = pools.id_of(choice, here)
        if choice.id is not None and choice.id not in by_id:
            raise Invalid.field(f"{here}.id", "The route has no such target.")
        same = [one for one in left.values() if one.pool_id == pool and one.id not in claimed]
        same.sort(key=lambda one: one.tier != choice.tier)
        kept = left.get(choice.id) if choice.id is not None else next(iter(same), None)
        target = _target(choice, pool, kept, here)
        left.pop(target.id, None)
        if any((one.pool_id, one.tier) == (target.pool_id, target.tier) for one in placed):
            raise Invalid.field(f"{here}.pool", "This tier of the route has this pool twice.")
        placed.append(target)
    return placed


def _target(choice: TargetChoice, pool: str, kept: TargetRecord | None, place: str) -> TargetRecord:
    tier = choice.tier if choice.tier is not None else (0 if kept is None else kept.tier)
    if not 0 <= tier < MAX_TIERS:
        raise Invalid.field(f"{place}.tier", f"It must be between 0 and {MAX_TIERS - 1}.")
    times = {name: None if kept is None else getattr(kept, name) for name in TARGET_BOUNDS}
    for name, value in choice.timeouts.items():
        problem = None if value is None else TARGET_BOUNDS[name].problem_with(value)
        if problem is not None:
            raise Invalid.field(f"{place}.{name}", problem)
        times[name] = value
    own_id = target_id() if kept is None else kept.id
    return TargetRecord(own_id, pool, choice.weight, **times, tier=tier)


def record_of(row: RouteTarget) -> TargetRecord:
    """A target's row as gateways are given it."""
    times = {name: getattr(row, name) for name in TARGET_BOUNDS}
    return TargetRecord(row.pk, row.pool_id, row.weight, **times, tier=row.tier)


def place_targets(route: Route, choices: Sequence[TargetChoice]) -> None:
    """Make the route's own targets those asked for, in their order; the rest go."""
    rows = {row.pk: row for row in RouteTarget.objects.filter(route=route)}
    pools = Pools(route.organisation_id, choices)
    placed = chosen_targets(pools, choices, [record_of(row) for row in rows.values()], "targets")
    kept = {target.id for target in placed}
    RouteTarget.objects.filter(route=route).exclude(pk__in=kept).delete()
    for position, target in enumerate(placed):
        row = rows.get(target.id)
        is_new = row is None
        if row is None:
            row = RouteTarget(id=target.id, organisation_id=route.organisation_id, route=route)
        row.pool_id, row.weight, row.tier = target.pool_id, target.weight, target.tier
        row.position = position
        for name in TARGET_BOUNDS:
            setattr(row, name, getattr(target, name))
        if is_new:
            row.save(force_insert=True)
        else:
            row.save(update_fields=["pool", "weight", "tier", "position", *TARGET_BOUNDS])


def told_targets(route: Route) -> list[dict[str, object]]:
    """The route's own targets as the audit trail tells them."""
    found = RouteTarget.objects.filter(route=route).order_by("position")
    return [told_target(record_of(row)) for row in found]


def told_target(target: TargetRecord) -> dict[str, object]:
    """A target as the audit trail tells it: its tier if it is a fallback, and its own time-outs."""
    times = {name: getattr(target, name) for name in TARGET_BOUNDS}
    own = {name: value for name, value in times.items() if value is not None}
    tier = {"tier": target.tier} if target.tier else {}
    return {"id": target.id, "pool": target.pool_id, "weight": target.weight, **tier, **own}
