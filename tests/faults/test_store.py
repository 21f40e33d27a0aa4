"""The state store stands still, dies, comes back empty, or is out of one gateway's reach.

Streams run on both gateways. No caller notices, and the ledger has every request once.
"""

import os
import signal
import time
from functools import partial

import pytest
from redis import Redis

from inference.contract import wire
from tests.faults.fleet import Fleet, all_ok, ask_all, environment_of
from tests.faults.stores import administered_store
from tests.installation import SOON_S, wait_until

pytestmark = pytest.mark.fault

PAUSE_MS = 15_000


def store_of(fleet: Fleet) -> Redis:
    """The store as the control plane uses it."""
    recorder = fleet.find("record_usage")[0]
    return Redis.from_url(environment_of(recorder)["HEADWORKS_STATE_URL"])


def test_a_store_that_accepts_and_never_answers_is_noticed_by_no_caller(fleet: Fleet) -> None:
    with fleet.under_load() as streams, fleet.stopped(fleet.service("valkey-state")):
        expected = ask_all(fleet)
        for one in streams:
            one.wait()
        expected |= ask_all(fleet)
    fleet.settle(all_ok(streams) | expected)


def test_a_paused_store_is_noticed_by_no_caller_and_gets_the_ends_afterwards(fleet: Fleet) -> None:
    with administered_store(fleet) as admin:
        fleet.take_stock()
        with fleet.under_load() as streams:
            paused_s = time.monotonic()
            admin.execute_command("CLIENT", "PAUSE", PAUSE_MS, "ALL")
            expected = ask_all(fleet)
            for one in streams:
                one.wait()
            expected |= ask_all(fleet)
            assert time.monotonic() - paused_s < PAUSE_MS / 1000  # all that while it was paused
            admin.ping()  # it waits like everybody's
            assert time.monotonic() - paused_s >= PAUSE_MS / 1000
        fleet.settle(all_ok(streams) | expected)


@pytest.mark.parametrize("name", ["valkey-state", "valkey-cache"])
def test_a_killed_store_is_noticed_by_no_caller_and_is_started_again(
    fleet: Fleet, name: str
) -> None:
    with fleet.under_load() as streams:
        (killed,) = fleet.service(name)
        os.kill(killed, signal.SIGKILL)
        expected = ask_all(fleet)
    fleet.settle(all_ok(streams) | expected)
    assert fleet.service(name) != [killed]


def test_an_emptied_store_is_filled_again_and_the_ledger_misses_nothing(fleet: Fleet) -> None:
    with store_of(fleet) as store, fleet.under_load() as streams:
        names = list(store.scan_iter(count=1_000))
        store.unlink(*names)
        expected = ask_all(fleet)
        for one in streams:
            one.wait()
        wait_until(partial(store.exists, wire.MANIFEST), SOON_S, "the manifest to be back")
    fleet.settle(all_ok(streams) | expected)


def test_a_gateway_whose_store_never_answers_serves_and_books_it_later(fleet: Fleet) -> None:
    with fleet.under_load() as streams:
        with fleet.stopped([fleet.link.process.pid]):
            expected = ask_all(fleet)
            for one in streams:
                one.wait()
            expected |= ask_all(fleet)
    fleet.settle(all_ok(streams) | expected)


def test_a_gateway_cut_off_from_the_store_serves_on_the_last_configuration_and_books_it_later(
    fleet: Fleet,
) -> None:
    near, far = fleet.gateways
    (before,) = far.applied()
    with fleet.under_load() as streams:
        with fleet.cut_off():
            expected = ask_all(fleet)
            fleet.change_route(accounting="strict")
            for one in streams:
                one.wait()
            assert far.applied() == {before}
            expected |= ask_all(fleet)
    fleet.change_route(accounting="lenient")
    wait_until(lambda: far.applied() == near.applied() != {before}, SOON_S, "the newest to apply")
    fleet.settle(all_ok(streams) | expected)
