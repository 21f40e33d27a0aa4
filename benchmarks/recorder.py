"""How many events a second the recorder commits, into a PostgreSQL and from a Valkey of its own.

    .venv/bin/python -m benchmarks.recorder [--events 50000] [--recorders 1]

Services are started in a temporary folder with the settings of an installation (fsync on) and ended
with it. The stream is filled first; the clock runs from the first commit to the last, so that the
start of the recorder's process isn't counted. Every row is counted at the end.
"""

import argparse
import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from redis import Redis

from controlplane.local.guardian import READY, start_guardian
from controlplane.local.places import make_places
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


def make_end(number: int, now_ms: int) -> bytes:
    """One ended request, spread over journals, routes and keys as in a small company."""
    route = number % _ROUTES
    usage = Usage(1_846, 182, 1_024)
    charge = Charge(
        1, f"tgt_{route}", f"pool_{route}", f"mdl_{route}", f"pool_{route}-0", ChargeKind.FINAL,
        usage, now_ms - 900, 880.0, 210.5, 200, None,
        PriceUsed("prc_1", 300_000_000, 900_000_000, 75_000_000), 487_200, 487_200,
    )  # fmt: skip
    origin = Origin(
        "org_1", f"team_{route % 5}", f"proj_{route % 10}", f"{number % 200:026d}", Endpoint.CHAT,
        "chat-default", True, "gw-1", "01jd", 41, f"rt_{route}", f"route-{route}",
    )  # fmt: skip
    decision = {"route": f"route-{route}", "strategy": "weighted", "targets": ["tgt_1"], "u": 0.41}
    end = End(
        f"req_{number:026d}", now_ms, now_ms - 901, origin, Outcome.OK, 200, (charge,), 901.0, None,
        1.2, 212.0, 512, None, decision, f"journal-{number % _JOURNALS}", number // _JOURNALS + 1,
    )  # fmt: skip
    return encode_event(end)


def fill(store: Redis, events: int) -> None:
    """Put the events into the stream."""
    now_ms = time.time_ns() // 1_000_000
    for first in range(0, events, 1_000):
        with store.pipeline(transaction=False) as pipe:
            for number in range(first, min(first + 1_000, events)):
                pipe.xadd(USAGE_STREAM, {USAGE_FIELD: make_end(number, now_ms + number // 10)})
            pipe.execute()


def random_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@contextmanager
def services() -> Iterator[Mapping[str, str]]:
    """Run a PostgreSQL and a state store; yield the environment that finds them."""
    places = make_places(Path(tempfile.mkdtemp(prefix="headworks-benchmark-")))
    guardian = start_guardian(places, "--remove")
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


def measure(environment: Mapping[str, str], events: int, recorders: int) -> float:
    """Drain a full stream and return events a second."""
    command = [sys.executable, _MANAGE]
    subprocess.run([*command, "migrate", "--verbosity", "0"], env=environment, check=True)
    store = Redis.from_url(environment["HEADWORKS_STATE_URL"])
    fill(store, events)
    running = [
        subprocess.Popen([*command, "record_usage"], env=environment, stderr=subprocess.DEVNULL)
        for _ in range(recorders)
    ]
    began, left_then = None, events
    while (left := store.xlen(USAGE_STREAM)) > 0:
        if began is None and left < events:
            began, left_then = time.monotonic(), left
        if any(process.poll() is not None for process in running):
            raise SystemExit("a recorder ended early")
        time.sleep(_POLL_S)
    took_s = time.monotonic() - (began or 0)
    for process in running:
        process.terminate()
        process.wait(10)
    check(environment["HEADWORKS_DATABASE_URL"], events)
    return left_then / took_s


def check(database_url: str, events: int) -> None:
    """Fail unless every event has its row, its charge and its place in the sums."""
    with psycopg.connect(database_url) as connection:
        for query in (
            "SELECT count(*) FROM controlplane_request",
            "SELECT count(*) FROM controlplane_charge",
            "SELECT sum(requests) FROM controlplane_usageminute",
            "SELECT sum(mark) FROM controlplane_journalmark",
        ):
            row = connection.execute(query).fetchone()
            assert row is not None
            assert row[0] == events, f"{query}: {row[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--recorders", type=int, default=1)
    arguments = parser.parse_args()
    with services() as found:
        rate = measure({**os.environ, **found}, arguments.events, arguments.recorders)
    print(f"{arguments.events} events, {arguments.recorders} recorder(s): {rate:,.0f} events/s")


if __name__ == "__main__":
    main()
