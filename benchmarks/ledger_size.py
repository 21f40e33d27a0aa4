"""How long every page and answer about usage and spending takes over a ledger of ten million rows.

    .venv/bin/python -m benchmarks.ledger_size [--requests 10000000] [--days 90] [--keys 500]
    .venv/bin/python -m benchmarks.ledger_size --kept FOLDER

The second way leaves what was made in that folder, and finds it there the next time.

A PostgreSQL of its own is filled by SQL: requests with a charge each, busy keys and quiet ones, one
in twenty without a price, tags and end users of its own on some; the roll-ups are what the upgrade
makes of them. Then each page and each call of the API is asked for through Django's own client, in
the process, once to warm up and three times for the clock. It fails if the slowest takes longer
than --most-ms.
"""

import argparse
import os
from importlib import import_module
from pathlib import Path

import django
import psycopg

from benchmarks.recorder import postgres_of, services

_SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    "HEADWORKS_STATEMENT_TIMEOUT_MS": "3600000",
}
"""The upgrade of so large a ledger takes longer than a page may."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--most-ms", type=float, default=500)
    parser.add_argument("--kept", type=Path)
    arguments = parser.parse_args()
    with services(arguments.kept) as found:
        os.environ |= {**found, **_SETTINGS}
        django.setup()
        # models can't be imported before
        pages = import_module("benchmarks.ledger_pages")
        pages.prepare(arguments.requests, arguments.days, arguments.keys)
        with psycopg.connect(found["HEADWORKS_DATABASE_URL"]) as connection:
            row = connection.execute(
                "SELECT count(*), pg_database_size(current_database()) FROM controlplane_request"
            ).fetchone()
        assert row is not None
        print(f"{row[0]:,} requests, {row[1] / 1e9:.1f} GB")
        times = pages.measure(arguments.days, postgres_of(Path(found["HEADWORKS_VAR"])))
        for address, one in sorted(times.items(), key=lambda item: -item[1].cpu):
            print(f"{one.median:7.0f} {one.longest:7.0f} ms, CPU {one.cpu:5.0f} ms  {address}")
    for what, figures in (
        ("took longer than", [one.longest for one in times.values()]),
        ("took more CPU time than", [one.cpu for one in times.values()]),
    ):
        print(
            f"{sum(one > arguments.most_ms for one in figures)} {what} {arguments.most_ms:.0f} ms"
        )
    if any(one.longest > arguments.most_ms for one in times.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
