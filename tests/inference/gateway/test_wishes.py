"""What a gateway's process reads of its own gateway in the configuration."""

from dataclasses import replace

import pytest

from inference.contract.snapshot import ConfigSnapshot, GatewayRecord
from inference.gateway.control import Wanted
from inference.gateway.wishes import Wishes
from tests.inference.gateway.rig import configuration, pool_record


def snapshot_of(*gateways: GatewayRecord) -> ConfigSnapshot:
    plain = configuration(pool_record("a", "http://127.0.0.1:9/v1"))
    return replace(plain, gateways={one.id: one for one in gateways})


def test_only_what_changed_of_its_own_gateway_is_told() -> None:
    told: list[Wanted] = []
    wishes = Wishes("gw-1", generation=None, tell=told.append)
    for gateways in (
        (),
        (GatewayRecord("gw-2", restart_generation=9),),
        (GatewayRecord("gw-1", restart_generation=1),),
        (GatewayRecord("gw-1", restart_generation=1),),
        (GatewayRecord("gw-1", restart_generation=1, is_drained=True),),
    ):
        wishes.apply_snapshot(snapshot_of(*gateways))
    assert told == [Wanted(0, False), Wanted(1, False), Wanted(1, True)]


@pytest.mark.parametrize(("given", "is_now"), [(None, 4), (0, 0), (3, 3)])
def test_a_process_is_of_the_restart_it_was_started_for_or_of_the_first_it_read(
    given: int | None, is_now: int
) -> None:
    wishes = Wishes("gw-1", generation=given, tell=lambda _wanted: None)
    assert wishes.restart_generation == (given or 0)
    wishes.apply_snapshot(snapshot_of(GatewayRecord("gw-1", restart_generation=4)))
    wishes.apply_snapshot(snapshot_of(GatewayRecord("gw-1", restart_generation=5)))
    assert wishes.restart_generation == is_now
