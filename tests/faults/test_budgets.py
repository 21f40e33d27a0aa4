"""Budgets while the store stands still, dies or is emptied, and while a gateway process is killed.

Each budget is of an end user of its own, so that nobody else's spending counts.
"""

import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

import pytest
import structlog

from inference.contract.wire import BUDGETS_SEEDED, LIMITS_DEAD_S
from tests.faults.fleet import LONG, Fleet, Gateway
from tests.faults.streams import Stream
from tests.faults.test_limits import Caller, kill_store, wait_applied
from tests.faults.test_store import store_of
from tests.installation import SOON_S, wait_until
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

log = structlog.get_logger(__name__)

AMPLE = 10**15
LATE_PAST = "headworks_gateway_budget_late_past_nanousd_total"


@pytest.fixture(autouse=True)
def _prices(fleet: Fleet) -> Iterator[None]:
    """What every model costs."""
    api = fleet.installation.api
    price = {"input_nanousd_per_mtok": "20000000", "output_nanousd_per_mtok": "60000000"}
    models = api("GET", "/models/")["results"]
    made = [api("POST", "/prices/", {"model": one["name"], **price}) for one in models]
    yield
    for one in made:
        api("DELETE", f"/prices/{one['id']}/")
    wait_applied(fleet)


@contextmanager
def budgeted(fleet: Fleet, requests: int) -> Iterator[str]:
    """An end user who has spent for one request, and whose budget has room for so many in all."""
    user = f"user-{token_hex(4)}"
    document = {
        "name": user,
        "scopes": [{"subject": "end_user", "subject_id": user}],
        "amount_nanousd": str(AMPLE),
        "period": "month",
    }
    made = fleet.installation.api("POST", "/budgets/", document)
    path = f"/budgets/{made['id']}/"
    try:
        wait_applied(fleet)
        near = fleet.gateways[0]
        wait_until(lambda: near.chat(user=user)[0] == 200, SOON_S, "the budget to be counted")
        row = first_served(fleet, user)
        cost, bound = int(row["cost_nanousd"]), row["decision"]["budgets"]["reserved_nanousd"]
        amount = {"amount_nanousd": str(bound + (requests - 1) * cost)}
        fleet.installation.api("PATCH", path, amount)
        wait_applied(fleet)
        yield user
    finally:
        fleet.installation.api("DELETE", path)
        wait_applied(fleet)


def first_served(fleet: Fleet, user: str) -> Any:
    """The row of the only request of a user that was served."""
    path = f"/requests/?end_user={user}&outcome=ok"
    rows = wait_until(
        lambda: fleet.installation.api("GET", path)["results"], SOON_S, "the first request's row"
    )
    assert len(rows) == 1
    return fleet.installation.api("GET", f"/requests/{rows[0]['id']}/")


def test_a_budget_is_never_passed_while_the_store_stands_still_and_dies(fleet: Fleet) -> None:
    with budgeted(fleet, 30) as user:
        caller = Caller(fleet, user)
        caller.ask(8)  # a store on a busy machine may answer too late for some of them
        assert caller.statuses[200]
        with fleet.stopped(fleet.service("valkey-state")):
            caller.ask_until(503)
        wait_until(lambda: caller.ask() == 200, SOON_S, "the store to be asked again")
        kill_store(fleet)
        caller.ask_until(503)
        caller.ask_until(429)
        assert set(caller.statuses) == {200, 503, 429}
        assert caller.statuses[200] == 30 - 1


def test_a_budget_that_is_put_to_the_test_is_proved_by_every_gateway_process(fleet: Fleet) -> None:
    api = fleet.installation.api
    document = {
        "name": f"tested-{token_hex(4)}",
        "scopes": [{"subject": "end_user", "subject_id": None}],
        "amount_nanousd": str(AMPLE),
        "period": "month",
    }
    path = f"/budgets/{api('POST', '/budgets/', document)['id']}/"
    try:
        wait_applied(fleet)
        wait_until(
            lambda: api("GET", f"{path}status/")["is_checked"], SOON_S, "the store to be told"
        )
        steps = {one["name"]: one for one in api("POST", f"{path}test/", {})["steps"]}
    finally:
        api("DELETE", path)
        wait_applied(fleet)
    for name in ("published", "counts", "warns", "accrues", "blocks", "gateways"):
        assert steps[name]["state"] == "ok", steps[name]
    assert "and less than the $0.000000002 it may cost is left until" in steps["gateways"]["words"]


def test_an_emptied_store_is_told_what_was_spent_and_lets_nobody_pass_a_budget(
    fleet: Fleet,
) -> None:
    with budgeted(fleet, 20) as user, store_of(fleet) as store:
        caller = Caller(fleet, user)
        caller.ask(9)
        assert caller.statuses[200]
        store.unlink(*store.scan_iter(count=1_000))
        caller.ask_until(503)
        wait_until(lambda: store.exists(BUDGETS_SEEDED), SOON_S, "the ledger to be told")
        caller.ask_until(429)
        assert caller.statuses[200] == 20 - 1


def busiest_of(gateway: Gateway) -> int:
    """The process of a gateway that serves the most requests now."""
    told: dict[int, Any] = {one["pid"]: one["vitals"] for one in gateway.debug()["processes"]}
    return max(told, key=lambda pid: told[pid]["requests"])


def late_past_of(gateway: Gateway) -> float:
    """What its metrics say went past budgets, because it came late."""
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics", timeout=SOON_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(one.split()[-1]) for one in lines if one.startswith(LATE_PAST))


def test_a_process_that_was_taken_for_dead_says_what_it_passed_a_budget_by(fleet: Fleet) -> None:
    near, far = fleet.gateways
    with budgeted(fleet, 20) as user:
        fleet.upstream.play(LONG)
        stream = Stream(far.url, far.key, user=user)
        wait_until(lambda: stream.has_begun, SOON_S, "the stream to run")
        fleet.upstream.play(Behaviour())
        assert near.chat(user=user)[0] == 429
        with fleet.stopped([busiest_of(far)]):
            wait_until(lambda: near.chat(user=user)[0] == 200, SOON_S, "what it held to be free")
            wait_until(lambda: near.chat(user=user)[0] == 429, SOON_S, "others to have it")
        stream.wait()
        assert stream.is_whole, "who is in stays in"
        wait_until(lambda: late_past_of(far) > 0, SOON_S, "the gateway to say so")
        (made,) = fleet.installation.api("GET", f"/budgets/?search={user}")["results"]
        (account,) = fleet.installation.api("GET", f"/budgets/{made['id']}/status/")["accounts"]
        assert int(account["late_nanousd"]) >= int(account["late_past_nanousd"]) > 0


def test_what_a_killed_gateway_process_had_reserved_comes_back_after_three_missed_beats(
    fleet: Fleet,
) -> None:
    near, far = fleet.gateways
    with budgeted(fleet, 40) as user:
        fleet.upstream.play(LONG)
        stream = Stream(far.url, far.key, user=user)
        wait_until(lambda: stream.has_begun, SOON_S, "the stream to run")
        fleet.upstream.play(Behaviour())
        assert near.chat(user=user)[0] == 429
        killed = busiest_of(far)
        os.kill(killed, signal.SIGKILL)
        killed_s = time.monotonic()
        stream.wait()
        wait_until(lambda: near.chat(user=user)[0] == 200, SOON_S, "what was reserved to come back")
        took_s = time.monotonic() - killed_s
        log.info("came back", seconds=round(took_s, 2))
        assert LIMITS_DEAD_S - 1.5 <= took_s <= 10 * LIMITS_DEAD_S
        wait_until(lambda: killed not in far.children and len(far.children) == 2, SOON_S, "a child")
