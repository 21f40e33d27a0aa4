"""A gateway process is killed, or stands still, while streams run on both gateways."""

import os
import signal

import pytest

from inference.contract.codec import decode_opening
from tests.faults.fleet import Fleet, all_ok, ask_all, is_ready
from tests.installation import SOON_S, processes_of, wait_until

pytestmark = pytest.mark.fault


def journalled_openings(fleet: Fleet) -> set[str]:
    """The ids of all requests whose opening stands in a journal."""
    lines = (
        line
        for gateway in fleet.gateways
        for segment in gateway.var.glob("journals/*/*.jnl")
        for line in segment.read_bytes().splitlines()
    )
    return {decode_opening(line[2:]).event_id for line in lines if line.startswith(b"O ")}


def test_a_killed_child_breaks_its_own_streams_alone_and_the_ledger_has_every_opening(
    fleet: Fleet,
) -> None:
    with fleet.under_load(restarted={("gateway-child",)}) as streams:
        ids = {one.event_id for one in streams}
        assert journalled_openings(fleet) >= ids
        told = {one["pid"]: one["vitals"] for one in fleet.gateways[1].debug()["processes"]}
        killed = max(told, key=lambda pid: sum(told[pid]["inflight"].values()))
        os.kill(killed, signal.SIGKILL)
        for one in streams:
            one.wait()
        broken = {one.event_id for one in streams if not one.is_whole}
        assert broken
        assert broken <= {one.event_id for one in streams[1::2]}
    fleet.settle(
        {
            **dict.fromkeys(ids - broken, "ok"),
            **dict.fromkeys(broken, "lost_gateway"),
        }
    )
    assert killed not in fleet.gateways[1].children
    wait_until(lambda: len(fleet.gateways[1].children) == 2, SOON_S, "a new child")


def test_a_killed_parent_breaks_no_stream_and_another_takes_its_place(fleet: Fleet) -> None:
    first = fleet.gateways[0]
    with fleet.under_load(restarted={("inference gateway ",), ("gateway-child",)}) as streams:
        mine = processes_of(first.var)
        (parent,) = [pid for pid, line in mine.items() if "inference gateway " in line]
        os.kill(parent, signal.SIGKILL)
        for one in streams:
            one.wait()
        wait_until(lambda: is_ready(first), SOON_S, "the next parent's processes to take requests")
        expected = ask_all(fleet)
    fleet.settle(all_ok(streams) | expected)
