"""A worker of two is killed: before it sent anything, and in the middle of its streams."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.faults.fleet import LONG, Fleet
from tests.faults.streams import Stream
from tests.installation import ROOT, SOON_S, wait_until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

PAIR = "pair"


@dataclass
class Worker:
    """An upstream that can be killed and started again where it was."""

    process: subprocess.Popen[str] = field(init=False)
    upstream: Upstream = field(init=False)

    def __post_init__(self) -> None:
        self.start(0)

    def start(self, port: int) -> None:
        command = [sys.executable, "-m", "tests.upstream.server", "--port", str(port)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.upstream = Upstream(int(self.process.stdout.readline()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_worker() -> Iterator[Worker]:
    worker = Worker()
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


@pytest.fixture
def pair(fleet: Fleet) -> Iterator[tuple[Worker, Worker]]:
    """Two workers of one model, a pool each, behind one route that both gateways know."""
    api = fleet.installation.api
    with running_worker() as first, running_worker() as second:
        pools = [
            api(
                "POST",
                "/pools/",
                {
                    "name": f"{PAIR}-{number}",
                    "provisioner": "static",
                    "model": PAIR,
                    "addresses": [worker.upstream.base_url],
                },
            )
            for number, worker in enumerate((first, second))
        ]
        targets = [{"pool": pool["name"], "weight": 1} for pool in pools]
        route = api("POST", "/routes/", {"name": PAIR, "targets": targets})
        knows = [(lambda one=gateway: one.chat(model=PAIR)[0] == 200) for gateway in fleet.gateways]
        for known in knows:
            wait_until(known, SOON_S, "the new route")
        fleet.take_stock()
        yield first, second
        api("DELETE", f"/routes/{route['id']}/")
        for pool in pools:
            api("DELETE", f"/pools/{pool['id']}/")


def test_a_worker_killed_before_it_sent_anything_is_tried_elsewhere(
    fleet: Fleet, pair: tuple[Worker, Worker]
) -> None:
    silent, other = pair
    silent.upstream.play(Behaviour(delay_ms=60_000))
    other.upstream.play(LONG)

    def are_sent(streams: Sequence[Stream]) -> bool:
        held = silent.upstream.report().open_calls
        return held > 0 and held + sum(one.has_begun for one in streams) == len(streams)

    with fleet.under_load(model=PAIR, is_running=are_sent) as streams:
        moved = {id(one) for one in streams if not one.has_begun}
        silent.kill()
    assert all(one.is_whole for one in streams)
    rows = fleet.settle({one.event_id: "ok" for one in streams})
    assert {rows[one.event_id]["attempts"] for one in streams if id(one) in moved} == {2}
    assert {rows[one.event_id]["attempts"] for one in streams if id(one) not in moved} == {1}


def test_a_worker_killed_in_a_stream_ends_it_with_an_error_and_no_other(
    fleet: Fleet, pair: tuple[Worker, Worker]
) -> None:
    for worker in pair:
        worker.upstream.play(LONG)
    killed, _ = pair
    with fleet.under_load(model=PAIR) as streams:
        broken = killed.upstream.report().open_calls
        killed.kill()
    whole = [one for one in streams if one.is_whole]
    ended = [one for one in streams if not one.is_whole]
    assert len(ended) == broken > 0
    assert all(one.has_error_frame for one in ended)
    fleet.settle({one.event_id: "ok" for one in whole} | {one.event_id: "error" for one in ended})
