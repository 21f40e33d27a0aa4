"""Drains while a gateway is cut off from the store and goes on using what it knows."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.faults.fleet import SECOND, Fleet
from tests.faults.streams import Stream
from tests.installation import SOON_S, wait_until
from tests.upstream.fixtures import Upstream, running_upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

NAME = "measured"
WATCHED_S = 3.0
"""Some rounds of the supervisor's measurements, its vitals and its decisions."""


@dataclass(frozen=True)
class Measured:
    """A static worker that tells how much it has, as a vLLM server does."""

    fleet: Fleet
    engine: Upstream
    pool_id: str

    def state(self) -> str:
        """Its state by the directory."""
        (worker,) = self.fleet.installation.api("GET", f"/pools/{self.pool_id}/")["workers"]
        return str(worker["state"])

    def drain(self) -> None:
        self.fleet.installation.api("PATCH", f"/pools/{self.pool_id}/", {"cordoned": [0]})


@pytest.fixture
def measured(fleet: Fleet) -> Iterator[Measured]:
    """One in a pool of its own, behind a route that both gateways know."""
    api = fleet.installation.api
    with running_upstream("--tells-load") as engine:
        kind = {"provisioner": "static", "backend": "vllm"}
        pool = api(
            "POST",
            "/pools/",
            {"name": NAME, "model": NAME, "addresses": [engine.base_url], **kind},
        )
        route = api("POST", "/routes/", {"name": NAME, "targets": [{"pool": NAME, "weight": 1}]})
        for gateway in fleet.gateways:
            wait_until(lambda one=gateway: one.chat(model=NAME)[0] == 200, SOON_S, "the new route")
        fleet.take_stock()
        yield Measured(fleet, engine, pool["id"])
        api("DELETE", f"/routes/{route['id']}/")
        api("DELETE", f"/pools/{pool['id']}/")


def test_a_drain_goes_by_the_workers_own_count_while_a_gateway_cannot_be_heard(
    fleet: Fleet, measured: Measured
) -> None:
    _, far = fleet.gateways
    measured.engine.play(Behaviour(cut_after=3, ending="hang"))
    stream = Stream(far.url, far.key, NAME)
    wait_until(lambda: stream.has_begun, SOON_S, "the stream to run")
    with fleet.cut_off():
        measured.drain()
        wait_until(lambda: fleet.coverage() == (1, 2, [SECOND]), SOON_S, "it to be missed")
        until = time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            assert (measured.state(), measured.engine.report().open_calls) == ("draining", 1)
            time.sleep(0.2)
        stream.leave()
        measured.engine.wait_for(lambda report: report.open_calls == 0)
        wait_until(lambda: measured.state() == "drained", SOON_S, "the drain to be over")
        assert fleet.coverage() == (1, 2, [SECOND])
    fleet.settle({stream.event_id: "cancelled"})
