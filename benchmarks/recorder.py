"""How many events a second the recorder commits, into a PostgreSQL and from a Valkey of its own.

    .venv/bin/python -m benchmarks.recorder [--events 50000] [--recorders 1] [--full]

Services are started in a temporary folder with the settings of an installation (fsync on) and ended
with it. The stream is filled first; the clock runs from the first commit to the last, so that the
start of the recorder's process isn't counted. Every row is counted at the end. `--full` has end
users, tags and rules in the events and six budgets that count them. The CPU time of the recorders
and of PostgreSQL is of the same stretch; on a busy machine it says more than the rate.
"""

import argparse
import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, LiteralString

import django
import psycopg
from redis import Redis

from benchmarks.gateway.processes import cpu_s
from controlplane.local.guardian import READY, start_guardian
from controlplane.local.places import find_places, make_places
from controlplane.local.postgres import is_answering as is_postgres_answering
from controlplane.local.postgres import prepare_postgres, start_postgres
from controlplane.local.valkey import STATE, Store, StoreUser, start_store
from controlplane.local.valkey import is_answering as is_store_answering
from inference.contract.codec import encode_event
from inference.contract.events import Charge, End, Origin, PriceUsed, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome
from inference.contract.wire import USAGE_FIELD, USAGE_STREAM

_MANAGE = str(Path(__file__).parents[1] / "manage.py")
_JOURNALS = 4
_ROUTES = 20
_POLL_S = 0.05


_BUDGETS = {
    "organisation": "month",
    "team": "month",
    "project": "week",
    "key": "month",
    "end_user": "day",
    "tag": "month",
}
"""What each budget counts apart, and for how long."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What was measured: events a second, and CPU time of a thousand events in ms."""

    events_s: float
    recorders_ms: float
    postgres_ms: float


def make_end(number: int, now_ms: int, organisation_id: str, *, is_full: bool) -> bytes:
    """One ended request, spread over journals, routes and keys as in a small company.

    A full one has an end user, of three for each key, every fourth two tags and a rule as well.
    """
    named: dict[str, Any] = {}
    if is_full:
        named["end_user"] = f"user-{number % 200}-{number % 3}"
        if number % 4 == 0:
            named |= {"tags": ("night", f"tag-{number % 30}"), "rule_id": f"rule_{number % 5}"}
    route = number % _ROUTES
    usage = Usage(1_846, 182, 1_024)
    charge = Charge(
        1, f"tgt_{route}", f"pool_{route}", f"mdl_{route}", f"pool_{route}-0", ChargeKind.FINAL,
        usage, now_ms - 900, 880.0, 210.5, 200, None,
        PriceUsed("prc_1", 300_000_000, 900_000_000, 75_000_000), 487_200, 487_200,
    )  # fmt: skip
    origin = Origin(
        organisation_id, f"team_{route % 5}", f"proj_{route % 10}", f"{number % 200:026d}",
        Endpoint.CHAT, "chat-default", True, "gw-1", "01jd", 41, f"rt_{route}",
        f"route-{route}", **named,
    )  # fmt: skip
    decision = {"route": f"route-{route}", "strategy": "weighted", "targets": ["tgt_1"], "u": 0.41}
    end = End(
        f"req_{number:026d}", now_ms, now_ms - 901, origin, Outcome.OK, 200, (charge,), 901.0, None,
        1.2, 212.0, 512, None, decision, f"journal-{number % _JOURNALS}", number // _JOURNALS + 1,
    )  # fmt: skip
    return encode_event(end)


def fill(store: Redis, events: int, organisation_id: str, *, is_full: bool) -> None:
    """Put the events into the stream."""
    now_ms = time.time_ns() // 1_000_000
    for first in range(0, events, 1_000):
        with store.pipeline(transaction=False) as pipe:
            for number in range(first, min(first + 1_000, events)):
                at_ms = now_ms + number // 10
                end = make_end(number, at_ms, organisation_id, is_full=is_full)
                pipe.xadd(USAGE_STREAM, {USAGE_FIELD: end})
            pipe.execute()


def random_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@contextmanager
def services(kept: Path | None = None) -> Iterator[Mapping[str, str]]:
    """Run a PostgreSQL and a state store; yield the environment that finds them.

    Their folder goes with them, but for one that is to be `kept`.
    """
    places = make_places(kept or Path(tempfile.mkdtemp(prefix="headworks-benchmark-")))
    guardian = start_guardian(places, *(() if kept else ("--remove",)))
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    assert guardian.stdout.readline().decode().strip() == READY
    user = StoreUser("bench", secrets.token_hex(16), "alldbs ~* &* +@all")
    state, postgres = Store(STATE, places, (user,)), prepare_postgres(places)
    processes = [start_postgres(postgres), start_store(state), guardian]
    while not (is_postgres_answering(postgres) and is_store_answering(state)):
        time.sleep(_POLL_S)
    try:
        yield {
            "HEADWORKS_VAR": str(places.var),
            "HEADWORKS_DATABASE_URL": postgres.url,
            "HEADWORKS_STATE_URL": state.url("bench"),
            "HEADWORKS_SECRET_KEY": secrets.token_hex(32),
            "HEADWORKS_DATA_KEY": random_key(),
            "HEADWORKS_KEY_PEPPERS": f"1:{random_key()}",
        }
    finally:
        guardian.stdin.close()
        for process in processes:
            process.wait(30)


def make_budgets() -> str:
    """Make an organisation with a budget of each kind, counted from now on; returns its id."""
    django.setup()
    # models can't be imported before
    actors = import_module("controlplane.services.actors")
    budgets = import_module("controlplane.services.budgets")
    accounts = import_module("controlplane.services.budget_accounts")
    organisations = import_module("controlplane.services.organisations")
    actor = actors.system_actor("benchmark", via=actors.Via.COMMAND)
    organisation = organisations.create_organisation(actor, name="Measured")
    for subject, period in _BUDGETS.items():
        budget = budgets.create_budget(
            actor,
            organisation=organisation,
            name=subject,
            scopes=[{"subject": subject, "subject_id": None}],
            amount_nanousd=10**15,
            period=period,
        )
        accounts.begin_to_count(budget, datetime.now(UTC))
    return str(organisation.pk)


def measure(environment: Mapping[str, str], events: int, recorders: int, *, is_full: bool) -> Rate:
    """Drain a full stream."""
    command = [sys.executable, _MANAGE]
    subprocess.run([*command, "migrate", "--verbosity", "0"], env=environment, check=True)
    organisation_id = make_budgets() if is_full else "org_1"
    store = Redis.from_url(environment["HEADWORKS_STATE_URL"])
    fill(store, events, organisation_id, is_full=is_full)
    postgres = postgres_of(Path(environment["HEADWORKS_VAR"]))
    running = [
        subprocess.Popen([*command, "record_usage"], env=environment, stderr=subprocess.DEVNULL)
        for _ in range(recorders)
    ]

    def taken() -> tuple[float, float, float]:
        return time.monotonic(), sum(cpu_s(one.pid) for one in running), cpu_s(postgres)

    while (left_then := store.xlen(USAGE_STREAM)) == events:
        ensure_alive(running)
        time.sleep(_POLL_S)
    before = taken()
    while store.xlen(USAGE_STREAM) > 0:
        ensure_alive(running)
        time.sleep(_POLL_S)
    took_s, recorders_s, postgres_s = (
        now - then for now, then in zip(taken(), before, strict=True)
    )
    for process in running:
        process.terminate()
        process.wait(10)
    check(environment["HEADWORKS_DATABASE_URL"], events, is_full=is_full)
    ms = 1_000_000 / left_then
    return Rate(left_then / took_s, recorders_s * ms, postgres_s * ms)


def ensure_alive(running: Sequence["subprocess.Popen[bytes]"]) -> None:
    if any(process.poll() is not None for process in running):
        raise SystemExit("a recorder ended early")


def postgres_of(var: Path) -> int:
    """The server's first process."""
    return int((find_places(var).postgres / "postmaster.pid").read_text().splitlines()[0])


_EACH = (
    "SELECT count(*) FROM controlplane_request",
    "SELECT count(*) FROM controlplane_charge",
    "SELECT sum(requests) FROM controlplane_usageminute",
    "SELECT sum(requests) FROM controlplane_usagehour WHERE dimension = 'key'",
    "SELECT sum(requests) FROM controlplane_usageday WHERE dimension = 'key'",
    "SELECT sum(mark) FROM controlplane_journalmark",
)
_EACH_NAMED = (
    "SELECT sum(requests) FROM controlplane_usagenamed WHERE dimension = 'end_user'",
    "SELECT 4 * sum(requests) FROM controlplane_usagenamed WHERE dimension = 'tag'",
)
_OF_BUDGET = """
SELECT sum(attempts) FROM controlplane_budgetaccount
WHERE budget_id = (SELECT id FROM controlplane_budget WHERE name = %s)
"""


def check(database_url: str, events: int, *, is_full: bool) -> None:
    """Fail unless every event has its row, its charge and its place in the sums."""
    with psycopg.connect(database_url) as connection:

        def ensure(query: LiteralString, most: int, *asked: str) -> None:
            row = connection.execute(query, asked).fetchone()
            assert row is not None
            assert row[0] == most, f"{query}: {row[0]}"

        for query in (*_EACH, *(_EACH_NAMED if is_full else ())):
            ensure(query, events)
        for subject in _BUDGETS if is_full else ():
            ensure(
                _OF_BUDGET, events // 2 if subject == "tag" else events, subject
            )  # two of every fourth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--recorders", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    with services() as found:
        os.environ |= {**found, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
        rate = measure(
            dict(os.environ), arguments.events, arguments.recorders, is_full=arguments.full
        )
    print(
        f"{arguments.events} events, {arguments.recorders} recorder(s): {rate.events_s:,.0f} "
        f"events/s; CPU of 1,000 events: {rate.recorders_ms:.0f} ms recorders, "
        f"{rate.postgres_ms:.0f} ms PostgreSQL"
    )


if __name__ == "__main__":
    main()
