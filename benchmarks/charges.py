"""Charges and budgets against what was served: `python -m benchmarks.charges`.

10,000 requests, streams and plain, at two gateways of two processes each, under several budgets
that reserve. Some callers leave, upstreams fail, stall and break off, attempts are repeated, and
two gateway processes are killed. Then every charge is held beside what the upstreams recorded of
the call, and every budget's counter beside the ledger: to the nano-dollar, and nothing held.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.charges_books import Budgets, read_budgets
from benchmarks.soak import (
    EMBED_ROUTE,
    HARMS,
    PRICE,
    ROUTE,
    SETTLE_S,
    configure,
    database_of,
    first_gateway,
    inflict,
    is_at_rest,
    is_recorded,
    second_gateway,
)
from benchmarks.soak_books import compare
from benchmarks.soak_load import OVER, Load, script
from tests.faults.fleet import Gateway, environment_of
from tests.installation import Installation, running_installation, wait_until
from tests.upstream.fixtures import Upstream, running_upstream

USERS = ("ann", "bob", "cem", "dee", "tight")
TAGS = ("day", "night", "day,eval")
AMPLE = 10**15
COUNTED_S = 300.0
"""A killed process's journal is adopted within a minute, and a round of comparing takes as long."""


def budget(name: str, period: str, *subjects: str, **values: Any) -> Mapping[str, Any]:
    """One that counts each of these apart, unless a value says otherwise."""
    scopes = [{"subject": one, "subject_id": None} for one in subjects]
    told = {"scopes": scopes, "amount_nanousd": str(AMPLE), "period": period}
    return {"name": name, **told, **values}


def budgets_for(requests: int) -> Sequence[Mapping[str, Any]]:
    """Six budgets with room for everybody, one of them without a say, and one that runs out."""
    # a request costs some 180 microdollars; its end user asks a fifth of all
    tight = str(requests * 180_000 // 5 // 3)
    only = [{"subject": "end_user", "subject_id": "tight"}]
    return (
        budget("all", "month", "organisation"),
        budget("told", "quarter", "organisation", action="notify"),
        budget("keys", "month", "key"),
        budget("users", "day", "end_user"),
        budget("tags", "week", "tag"),
        budget("models", "month", "model"),
        budget("users on routes", "month", "end_user", "route"),
        budget("tight", "month", scopes=only, amount_nanousd=tight),
    )


def make_budgets(
    installation: Installation, requests: int, gateways: Sequence[Gateway]
) -> Sequence[Any]:
    """The budgets, made and known to every gateway."""
    made = [installation.api("POST", "/budgets/", one) for one in budgets_for(requests)]
    newest = installation.api("GET", "/snapshots/?page_size=1")["results"][0]["version"]
    for one in gateways:
        wait_until(lambda one=one: one.applied() == {newest}, 30, "the budgets to apply")
    return made


def run(
    installation: Installation,
    load: Load,
    upstreams: Sequence[Upstream],
    *,
    kills: int,
    rng: random.Random,
) -> None:
    """Send all of it, with so many kills, spread evenly."""
    runner = threading.Thread(target=load.run, args=(threading.Event(),), daemon=True)
    assert load.most is not None
    marks = [load.most * (number + 1) // (kills + 1) for number in range(kills)]
    runner.start()
    while load.sent < load.most:
        assert runner.is_alive(), "the callers have ended"
        for upstream in upstreams:
            upstream.play(*script(rng))
        if marks and load.sent >= marks[0]:
            del marks[0]
            print(f"{load.sent:>7} sent  {inflict(HARMS[0], installation)}", flush=True)
        time.sleep(2)
    assert not marks, "it was over too soon for the kills"
    runner.join(120)
    assert not runner.is_alive(), "some callers still wait"


def settled_budgets(
    installation: Installation, store: "Redis[bytes]", made: Sequence[Any], since: datetime
) -> Budgets:
    """The budgets once every counter is what the ledger has, or as they are after all patience."""
    database = database_of(installation)
    end_s = time.monotonic() + COUNTED_S
    while True:
        found = read_budgets(database, store, made, since)
        if not found.unsettled or time.monotonic() > end_s:
            return found
        time.sleep(2)


def past(found: Budgets, made: Sequence[Any]) -> list[str]:
    """Budgets that spent more than their amount.

    What killed processes had spent and not told is let pass: the ledger added it afterwards.
    """
    faults = []
    for one in made:
        if one["action"] != "block":
            continue
        most = int(one["amount_nanousd"]) + found.added(one["id"].removeprefix("bud_"))
        spent = [(place, purse.spent) for place, purse in found.purses.items()]
        faults += [
            f"{place} spent {each} of {one['amount_nanousd']}"
            for place, each in spent
            if place[0] == one["name"] and each > most
        ]
    return faults


def charge_and_compare(
    stack: ExitStack, requests: int, *, rate: float, kills: int, seed: int = 1
) -> tuple[list[str], Budgets]:
    """Set all up, run it, read the books: everything that is wrong, and the budgets."""
    rng = random.Random(seed)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headworks-charges-")))
    upstreams = [stack.enter_context(running_upstream()) for _ in range(2)]
    settings = {"DEMO_ENGINE": "none", "DEMO_UPSTREAM_URL": upstreams[0].base_url}
    settings |= {"DEMO_UPSTREAM_KEY": "none", "GATEWAY_PROCESSES": "2"}
    installation = stack.enter_context(running_installation(folder / "var", **settings))
    second = stack.enter_context(second_gateway(installation))
    configure(installation, upstreams)
    gateways = (first_gateway(installation), second)
    told = environment_of(installation.find("record_usage")[0])
    store = stack.enter_context(Redis.from_url(told["HEADWORKS_STATE_URL"]))
    load = Load(
        [one.url for one in gateways],
        installation.demo["API_KEY"],
        ROUTE,
        EMBED_ROUTE,
        rate=rate,
        seed=seed,
        users=USERS,
        tags=TAGS,
        most=requests,
    )
    since = datetime.now(UTC)
    made = make_budgets(installation, requests, gateways)
    wait_until(load.is_served, 60, "both gateways to serve under the budgets")
    began_s = time.monotonic()
    run(installation, load, upstreams, kills=kills, rng=rng)
    ended_s = time.monotonic()
    wait_until(lambda: is_at_rest(gateways, upstreams), SETTLE_S, "all to come to rest")
    wait_until(lambda: is_recorded(installation), SETTLE_S, "the ledger to have everything")
    books = compare(database_of(installation), upstreams, load, price=PRICE)
    budgets = settled_budgets(installation, store, made, since)
    print(f"in {ended_s - began_s:.0f} s, settled {time.monotonic() - ended_s:.0f} s later")
    print(load.summary(), books.summary(), budgets.summary(), sep="\n")
    faults = [*load.faults(kills=kills), *books.faults, *budgets.faults, *budgets.unsettled]
    faults += past(budgets, made)
    if not load.outcomes[OVER]:
        faults.append("no budget refused anybody")
    return faults, budgets


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.charges", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=40, help="requests a second")
    parser.add_argument("--kills", type=int, default=2, help="of gateway processes")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with ExitStack() as stack:
        faults, budgets = charge_and_compare(
            stack, asked.requests, rate=asked.rate, kills=asked.kills, seed=asked.seed
        )
    if budgets.corrections and not asked.kills:
        faults.append(f"counters had to be corrected: {budgets.corrections}")
    for fault in faults[:50]:
        print(f"FAULT: {fault}")
    print("nothing is wrong" if not faults else f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
