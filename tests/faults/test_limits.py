"""Limits while the store stands still, dies or is emptied, and while a gateway process is killed.

Each limit is on an end user of its own, so that nobody else's requests count.
"""

import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from secrets import token_hex
from typing import Any

import pytest

from inference.contract import wire
from tests.faults.fleet import LONG, Fleet, Gateway
from tests.faults.streams import Stream
from tests.faults.test_store import store_of
from tests.installation import SOON_S, call, wait_until
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault


@contextmanager
def limited(fleet: Fleet, amount: int, **fields: object) -> Iterator[str]:
    """An end user who is limited so inside the block."""
    user = f"user-{token_hex(4)}"
    document = {
        "name": user,
        "subject": "end_user",
        "subject_id": user,
        "amount": amount,
        "unit": "requests",
        "window": "day",
        **fields,
    }
    made = fleet.installation.api("POST", "/limits/", document)
    try:
        wait_applied(fleet)
        yield user
    finally:
        fleet.installation.api("DELETE", f"/limits/{made['id']}/")
        wait_applied(fleet)


def wait_applied(fleet: Fleet) -> None:
    """Return once both gateways run the newest version."""
    newest = fleet.installation.api("GET", "/snapshots/?page_size=1")["results"][0]["version"]
    for gateway in fleet.gateways:
        wait_until(lambda one=gateway: one.applied() == {newest}, SOON_S, "the limit to be known")


@dataclass
class Caller:
    """Asks the gateways in turn and keeps what it was told."""

    fleet: Fleet
    user: str
    statuses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._gateways = cycle(self.fleet.gateways)

    def ask(self, times: int = 1) -> int:
        """The last status of so many requests."""
        status = 0
        for _ in range(times):
            status, _, _ = next(self._gateways).chat(user=self.user)
            self.statuses[status] += 1
        return status

    def ask_until(self, *statuses: int) -> None:
        """Ask until each gateway has answered so."""
        wait_until(lambda: self.ask() in statuses and self.ask() in statuses, SOON_S, f"{statuses}")


def ask_marked(gateway: Gateway, user: str) -> str:
    """The id of a request that a limit was not asked for, as its answer says."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "ping"}], "user": user}
    with call("POST", f"{gateway.url}/v1/chat/completions", gateway.key, body) as answer:
        assert answer.headers["x-headworks-limits"] == "unenforced"
        return str(answer.headers["x-request-id"])


def metric(gateway: Gateway, name: str) -> float:
    """A metric of one gateway, all its series added up."""
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics", timeout=SOON_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(f"headworks_gateway_{name}") and not line.startswith("#")
    )


def unenforced(fleet: Fleet) -> float:
    return sum(metric(one, "limits_unenforced_total") for one in fleet.gateways)


def is_asking(fleet: Fleet) -> bool:
    """Whether every process asks the store again."""
    return all(metric(one, "limits_away") == 0 for one in fleet.gateways)


def kill_store(fleet: Fleet) -> None:
    (killed,) = fleet.service("valkey-state")
    os.kill(killed, signal.SIGKILL)


def test_a_strict_limit_is_never_passed_while_the_store_stands_still_and_dies(
    fleet: Fleet,
) -> None:
    with limited(fleet, 60, enforcement="strict") as user:
        caller = Caller(fleet, user)
        caller.ask(16)
        assert caller.statuses == {200: 16}
        with fleet.stopped(fleet.service("valkey-state")):
            caller.ask_until(503)
        wait_until(partial(is_asking, fleet), SOON_S, "the store to be asked again")
        caller.ask(8)
        kill_store(fleet)
        caller.ask_until(503)
        wait_until(partial(is_asking, fleet), SOON_S, "the store to be asked again")
        caller.ask_until(429)
        assert set(caller.statuses) == {200, 503, 429}
        assert caller.statuses[200] == 60


def test_a_lenient_limit_serves_marks_and_counts_meanwhile_and_holds_again_afterwards(
    fleet: Fleet,
) -> None:
    with limited(fleet, 10) as user:
        caller = Caller(fleet, user)
        before = unenforced(fleet)
        with fleet.stopped(fleet.service("valkey-state")):
            assert caller.ask(30) == 200
            assert caller.statuses == {200: 30}
            marked = ask_marked(fleet.gateways[0], user)
        assert unenforced(fleet) - before >= 20
        row = fleet.installation.wait_for_request(marked, SOON_S)
        assert row["decision"]["limits"]["unenforced"]
        wait_until(partial(is_asking, fleet), SOON_S, "the store to be asked again")
        caller.ask_until(429)


def test_an_emptied_store_lets_nobody_pass_a_strict_limit(fleet: Fleet) -> None:
    with limited(fleet, 40, enforcement="strict") as user, store_of(fleet) as store:
        caller = Caller(fleet, user)
        caller.ask(20)
        store.unlink(*store.scan_iter(count=1_000))
        caller.ask_until(503)
        wait_until(partial(store.exists, wire.SEEDED_AT), SOON_S, "the store to be seeded")
        wait_until(partial(is_asking, fleet), SOON_S, "the store to be asked again")
        caller.ask_until(429)
        assert caller.statuses[200] == 40


def test_the_slots_of_a_killed_gateway_process_come_back(fleet: Fleet) -> None:
    near, far = fleet.gateways
    with limited(fleet, 1, unit="parallel", window=None, enforcement="strict") as user:
        fleet.upstream.play(LONG)
        stream = Stream(far.url, far.key, user=user)
        wait_until(lambda: stream.has_begun, SOON_S, "the stream to run")
        fleet.upstream.play(Behaviour())
        assert near.chat(user=user)[0] == 429
        told: dict[int, Any] = {one["pid"]: one["vitals"] for one in far.debug()["processes"]}
        killed = max(told, key=lambda pid: told[pid]["requests"])
        os.kill(killed, signal.SIGKILL)
        stream.wait()
        wait_until(lambda: near.chat(user=user)[0] == 200, SOON_S, "the slot to come back")
        wait_until(lambda: killed not in far.children and len(far.children) == 2, SOON_S, "a child")
        assert near.chat(user=user)[0] == 200
