"""Ladders of several routes: one that can't be looked at costs the others nothing."""

from inference.contract.kinds import DegradationStep
from inference.decisions.degradation.ladder import ENTER_AFTER_S
from inference.queues.ladders import Ladders
from tests.inference.clocks import HandClock
from tests.inference.gateway.rig import configuration, pool_record, route_record

STEPS = (DegradationStep.TRIM_BATCH,)


class Full:
    """Pools with no room; of those in `unknown` there is nothing to tell."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()

    def use_of(self, pool_id: str) -> tuple[int, int | None]:
        if pool_id in self.unknown:
            raise KeyError(pool_id)
        return 1, 1

    def queued_elsewhere(self, _pool_id: str) -> int:
        return 0


def test_a_route_that_cannot_be_looked_at_stays_where_it_is_and_the_others_go_on() -> None:
    names = ("a", "b")
    snapshot = configuration(
        *(pool_record(name, f"http://127.0.0.1:9/{name}") for name in names),
        routes=tuple(
            route_record(name, id=f"rt_{name}", name=name, degradation=STEPS) for name in names
        ),
    )
    pools, clock = Full(), HandClock()
    ladders = Ladders(pools, queued=lambda _: 0, snapshot=lambda: snapshot, clock=clock)

    def look_for_long() -> None:
        for _ in range(2):
            ladders.look()
            clock.move(ENTER_AFTER_S)

    first, second = snapshot.routes.values()
    pools.unknown = {first.targets[0].pool_id}
    look_for_long()
    assert ladders.taken() == {second.id: 1}
    pools.unknown = {second.targets[0].pool_id}
    look_for_long()
    assert ladders.taken() == {first.id: 1, second.id: 1}
