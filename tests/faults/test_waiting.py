"""Requests wait for workers with room on every gateway while a process of one is killed."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.faults.fleet import Fleet, Gateway
from tests.faults.streams import Stream
from tests.faults.test_gateway_child import journalled_openings
from tests.installation import SOON_S, wait_until

pytestmark = pytest.mark.fault

SLOTS = 8


@contextmanager
def narrow(fleet: Fleet, slots: int) -> Iterator[None]:
    """The only worker of the demo's route takes so many requests at once inside the block."""
    api = fleet.installation.api
    (pool,) = api("GET", "/pools/")["results"]
    _change(fleet, pool["id"], slots)
    try:
        yield
    finally:
        _change(fleet, pool["id"], None)


def _change(fleet: Fleet, pool_id: str, slots: int | None) -> None:
    fleet.installation.api("PATCH", f"/pools/{pool_id}/", {"worker_concurrency": slots})
    version = fleet.installation.api("GET", "/snapshots/")["results"][0]["version"]
    for gateway in fleet.gateways:
        wait_until(lambda one=gateway: one.applied() == {version}, SOON_S, "the new version")


def waiting(gateway: Gateway) -> int:
    """How many requests wait for a worker at a gateway."""
    vitals = [one["vitals"] for one in gateway.debug()["processes"]]
    return sum(sum(one.get("queued", {}).values()) for one in vitals if one)


def test_a_killed_child_takes_those_who_wait_in_it_alone_and_the_others_share_the_slots(
    fleet: Fleet,
) -> None:
    peaks = [0]

    def are_waiting(streams: Sequence[Stream]) -> bool:
        begun = sum(one.has_begun for one in streams)
        return begun >= SLOTS // 2 and begun + sum(map(waiting, fleet.gateways)) == len(streams)

    with (
        narrow(fleet, SLOTS),
        fleet.under_load(restarted={("gateway-child",)}, is_running=are_waiting) as streams,
    ):
        told = {one["pid"]: one["vitals"] for one in fleet.gateways[1].debug()["processes"]}
        killed = max(told, key=lambda pid: sum(told[pid]["inflight"].values()))
        os.kill(killed, signal.SIGKILL)
        opened = journalled_openings(fleet) - fleet.known
        while any(one.thread.is_alive() for one in streams):
            peaks.append(fleet.upstream.report().open_calls)
        # a probe of the worker is a call as well, and for up to two seconds nobody knows of the
        # process that takes the killed one's place
        assert max(peaks) <= SLOTS + 2
        broken = [one for one in streams if not one.is_whole]
        assert broken
        assert all(one in streams[1::2] for one in broken)
        whole = {one.event_id for one in streams if one.is_whole}
        assert len(whole) == len(streams) - len(broken)
        expected = {**dict.fromkeys(opened, "lost_gateway"), **dict.fromkeys(whole, "ok")}
    fleet.settle(expected)
    for gateway in fleet.gateways:
        wait_until(lambda one=gateway: waiting(one) == 0, SOON_S, "nobody to wait")
