"""A migrated database cluster and the collected static files, kept for later runs.

`python -m tests.stock` makes them if need be. Migrating and collecting take seconds, which every
run, and every installation that tests start, would take. What they come to is decided by the files
this is keyed by. Who finds none does it all by itself.
"""

import base64
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import psycopg

from controlplane.local.guardian import READY, start_guardian
from controlplane.local.places import Places, make_places, tail_of
from controlplane.local.postgres import (
    Postgres,
    is_answering,
    prepare_postgres,
    start_postgres,
)
from controlplane.local.problems import LocalProblem

MIGRATED = "migrated"
"""The database that those of tests are copies of; that of an installation is migrated as well."""

_ROOT = Path(__file__).resolve().parents[1]
_KEPT = _ROOT / ".pytest_cache" / "stock"
_MADE_OF = (
    *("controlplane/migrations", "controlplane/models", "controlplane/decisions"),
    *("dashboards/static", "dashboards/static_files.py"),
    *("controlplane/settings.py", "controlplane/apps.py", "controlplane/local/postgres.py"),
    *("requirements.txt", "tests/stock.py"),
)
START_S = 90.0
_COMMAND_S = 300.0
_POLL_S = 0.01


def _kept() -> Path:
    """Where the cluster of this tree lies, if it is there."""
    found = hashlib.sha256()
    for name in _MADE_OF:
        place = _ROOT / name
        for file in sorted(filter(_is_source, place.rglob("*"))) if place.is_dir() else [place]:
            found.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes())
    return _KEPT / found.hexdigest()[:16]


def _is_source(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts


def take(places: Places) -> bool:
    """Put copies where a new installation has them; False if there are none to copy."""
    kept = _kept()
    if not kept.exists():
        return False
    partial = places.var / "copied"
    done = subprocess.run(["cp", "-a", kept, partial], capture_output=True, check=False)
    if done.returncode == 0:
        for made in partial.iterdir():
            made.rename(places.var / made.name)
    # or another run has just made newer ones, of other files
    shutil.rmtree(partial)
    return done.returncode == 0


def make() -> None:
    """Make them unless they are there; former ones are removed."""
    kept = _kept()
    if kept.exists():
        return
    shutil.rmtree(_KEPT, ignore_errors=True)
    _KEPT.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
        places = make_places(Path(folder))
        with _running(places) as server:
            for command in (("migrate_safely",), ("collectstatic", "--no-input")):
                _manage(server, *command)
            with psycopg.connect(server.url, autocommit=True, dbname="postgres") as connection:
                connection.execute(f"CREATE DATABASE {MIGRATED} TEMPLATE headworks")
        whole = _KEPT / "whole"
        whole.mkdir()
        for part in (places.postgres, places.var / "static"):
            part.rename(whole / part.name)
        whole.rename(kept)


@contextmanager
def _running(places: Places) -> Iterator[Postgres]:
    """A server inside the block, which a guardian ends however we do."""
    guardian = guarded(places)
    try:
        server = prepare_postgres(places, is_for_tests=True)
        process = start_postgres(server)
        wait_until(lambda: is_answering(server), places.log("postgres"))
        yield server
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait(START_S)
        process.wait(START_S)


def guarded(places: Places, *options: str) -> Popen[bytes]:
    """A guardian of what is started there; closing its standard input ends it all."""
    guardian = start_guardian(places, *options)
    assert guardian.stdout is not None
    if guardian.stdout.readline().decode().strip() != READY:
        raise LocalProblem(tail_of(places.log("guardian")))
    return guardian


def wait_until(is_so: Callable[[], bool], log: Path) -> None:
    """Return once it is true of what writes this log, or raise LocalProblem with its end."""
    deadline = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > deadline:
            raise LocalProblem(f"no answer after {START_S:.0f} s; {log} ends:\n{tail_of(log)}")
        time.sleep(_POLL_S)


def random_key() -> str:
    """A key as settings have it."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _manage(server: Postgres, *arguments: str) -> None:
    """Run a command in a process of its own, whose other settings are never used."""
    nowhere = f"unix://{server.places.var}/none.sock"
    settings = {
        "VAR": str(server.places.var),
        "DATABASE_URL": server.url,
        "STATE_URL": nowhere,
        "SECRET_KEY": secrets.token_hex(32),
        "DATA_KEY": random_key(),
        "KEY_PEPPERS": f"1:{random_key()}",
    }
    subprocess.run(
        [sys.executable, "manage.py", *arguments, "--verbosity", "0"],
        cwd=_ROOT,
        env=os.environ | {f"HEADWORKS_{name}": value for name, value in settings.items()},
        check=True,
        timeout=_COMMAND_S,
    )


if __name__ == "__main__":
    make()
