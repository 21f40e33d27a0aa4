"""The ladders of degradation of a process's routes: looked at once a second, read by requests."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import structlog

from inference.contract.kinds import DegradationStep
from inference.contract.snapshot import ConfigSnapshot, RouteRecord
from inference.decisions.degradation.ladder import GROUND, Ladder, climb, saturation_of

PERIOD_S = 1.0

log = structlog.get_logger(__name__)


class Pools(Protocol):
    """What is asked of the fleet."""

    def use_of(self, pool_id: str) -> tuple[int, int | None]:
        """What is under way at a pool's workers, and how much they take; None is without bound."""

    def queued_elsewhere(self, pool_id: str) -> int:
        """How many wait for a pool at the other processes."""


class Ladders:
    """How many steps each route has taken. `queued` is how many wait here for any of some pools.

    `clock` gives seconds that don't go back.
    """

    def __init__(
        self,
        pools: Pools,
        *,
        queued: Callable[[Iterable[str]], int],
        snapshot: Callable[[], ConfigSnapshot | None],
        clock: Callable[[], float],
    ) -> None:
        self._pools = pools
        self._queued = queued
        self._snapshot = snapshot
        self._clock = clock
        self._ladders: dict[str, Ladder] = {}

    def steps(self, route: RouteRecord) -> tuple[DegradationStep, ...]:
        """The steps that are in force at a route."""
        ladder = self._ladders.get(route.id)
        return () if ladder is None else route.degradation[: ladder.taken]

    def taken(self) -> Mapping[str, int]:
        """How many steps are in force by route; those without any are left out."""
        return {name: one.taken for name, one in self._ladders.items() if one.taken}

    async def run(self) -> None:
        """Look every period until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(PERIOD_S)

    def look(self) -> None:
        """Look once; what changes is logged. A route that can't be looked at stays where it is."""
        snapshot = self._snapshot()
        if snapshot is None:
            return
        now = self._clock()
        before, self._ladders = self._ladders, {}
        for route in _degradable(snapshot):
            ladder = before.get(route.id, GROUND)
            try:
                after = self._climbed(route, ladder, now=now, version=snapshot.version)
            except Exception:
                log.exception("ladder of a route could not be looked at", route_id=route.id)
                after = ladder
            if after is not GROUND:
                self._ladders[route.id] = after

    def _climbed(self, route: RouteRecord, before: Ladder, *, now: float, version: int) -> Ladder:
        saturation = self._saturation(route)
        after = climb(before, saturation, steps=len(route.degradation), now=now)
        if after.taken != before.taken:
            _tell(route, before, after, saturation=saturation, version=version)
        return after

    def _saturation(self, route: RouteRecord) -> float:
        """Of all pools that its targets and its rules' may go to."""
        pool_ids = _pools_of(route)
        uses = [self._pools.use_of(one) for one in pool_ids]
        slots = [most for _, most in uses]
        elsewhere = sum(self._pools.queued_elsewhere(one) for one in pool_ids)
        return saturation_of(
            busy=sum(busy for busy, _ in uses),
            waiting=self._queued(pool_ids) + elsewhere,
            slots=None if None in slots else sum(most or 0 for most in slots),
        )


def _degradable(snapshot: ConfigSnapshot) -> Iterator[RouteRecord]:
    return (one for one in snapshot.routes.values() if one.degradation and one.is_enabled)


def _pools_of(route: RouteRecord) -> list[str]:
    targets = [*route.targets, *(target for rule in route.rules for target in rule.targets)]
    return list(dict.fromkeys(one.pool_id for one in targets if one.weight > 0))


def _tell(
    route: RouteRecord, before: Ladder, after: Ladder, *, saturation: float, version: int
) -> None:
    step = route.degradation[max(before.taken, after.taken) - 1 : max(before.taken, after.taken)]
    facts = {
        "route_id": route.id,
        "step": step[0].value if step else None,
        "steps_taken": after.taken,
        "saturation": round(saturation, 3),
        "snapshot_version": version,
    }
    if after.taken > before.taken:
        log.warning("degradation step taken", **facts)
    else:
        log.info("degradation step given back", **facts)
