"""The console when what it stands on is away: honest, quick, and back by itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from controlplane.local.places import make_places
from controlplane.local.postgres import is_answering, prepare_postgres, start_postgres
from tests.controlplane.conftest import Caller
from tests.controlplane.consoles import (
    Console,
    before_database,
    before_store,
    running_console,
    took_s,
)
from tests.installation import ROOT, wait_until

pytestmark = pytest.mark.slow

UNKNOWN = "hwt_" + "0" * 26 + "." + "a" * 43


def ask_pools(console: Console, token: str) -> tuple[int, object]:
    status, body = console.ask("GET", "/api/v1/pools/", authorization=f"Bearer {token}")
    return status, body and body.get("code")


def test_without_its_database_the_api_says_503_to_everybody_and_recovers(
    transactional_db: None, admin: Caller, folder: Path, tmp_path: Path
) -> None:
    between, url = before_database(folder)
    between.start()
    with running_console(tmp_path / "log", HEADWORKS_DATABASE_URL=url) as console:
        assert ask_pools(console, admin.token) == (200, None)
        assert ask_pools(console, UNKNOWN) == (401, "authentication_failed")
        between.cut()
        for token in (admin.token, UNKNOWN):
            assert ask_pools(console, token) == (503, "database_unavailable")
        status, body = console.ask("GET", "/-/status")
        assert (status, body["down"]) == (503, ["database"])
        between.start()
        wait_until(lambda: ask_pools(console, admin.token)[0] == 200, 10, "the API to recover")
        assert ask_pools(console, UNKNOWN)[0] == 401
        assert console.ask("GET", "/-/status")[0] == 200
    between.cut()


def test_a_console_starts_without_its_database_and_serves_when_it_comes(
    transactional_db: None, admin: Caller, folder: Path, tmp_path: Path
) -> None:
    between, url = before_database(folder)
    with running_console(tmp_path / "log", HEADWORKS_DATABASE_URL=url) as console:
        assert ask_pools(console, admin.token)[0] == 503
        between.start()
        wait_until(lambda: ask_pools(console, admin.token)[0] == 200, 10, "the API to serve")
    between.cut()


@pytest.mark.parametrize("is_held", [False, True], ids=["gone", "never answering"])
def test_without_the_state_store_tokens_work_sessions_dont_and_the_status_says_why(
    is_held: bool,
    transactional_db: None,
    admin: Caller,
    folder: Path,
    tmp_path: Path,
    collected_files: None,
) -> None:
    between, url = before_store(folder, settings.HEADWORKS.state_url.get_secret_value())
    between.start()
    session = {"cookie": f"{settings.SESSION_COOKIE_NAME}=abcdefghijklmnopqrstuvwxyz012345"}
    with running_console(tmp_path / "log", HEADWORKS_STATE_URL=url) as console:
        assert console.ask("GET", "/api/v1/pools/", **session)[0] == 401
        between.cut()
        if is_held:
            between.start(is_held=True)
        assert ask_pools(console, admin.token) == (200, None)
        assert took_s(lambda: console.ask("GET", "/api/v1/pools/", **session)) < 5
        status, body = console.ask("GET", "/api/v1/pools/", **session)
        assert (status, body["code"]) == (503, "state_unavailable")
        assert took_s(lambda: console.ask("GET", "/-/status")) < 3
        status, body = console.ask("GET", "/-/status", **session)
        assert (status, body["down"]) == (503, ["state"])
        page, _ = console.ask("GET", "/-/status", accept="text/html", **session)
        assert page == 503
        between.cut()
        between.start()
        wait_until(
            lambda: console.ask("GET", "/api/v1/pools/", **session)[0] == 401, 10, "sessions"
        )
    between.cut()


def test_a_state_store_that_never_answers_does_not_hold_up_an_edit(
    transactional_db: None, admin: Caller, folder: Path, tmp_path: Path
) -> None:
    between, url = before_store(folder, settings.HEADWORKS.state_url.get_secret_value())
    between.start(is_held=True)
    headers = {"authorization": f"Bearer {admin.token}"}
    with running_console(tmp_path / "log", HEADWORKS_STATE_URL=url) as console:

        def make() -> None:
            made, _ = console.ask("POST", "/api/v1/models/", {"name": "m"}, **headers)
            assert made == 201

        assert took_s(make) < 5
    between.cut()


@pytest.fixture
def own_server(folder: Path) -> Iterator[tuple[int, str]]:
    """A PostgreSQL of this test's own with our tables: its pid and address."""
    server = prepare_postgres(make_places(folder / "own"), is_for_tests=True)
    process = start_postgres(server)
    try:
        wait_until(lambda: is_answering(server), 30, "PostgreSQL to answer")
        environment = {**os.environ, "HEADWORKS_DATABASE_URL": server.url}
        line = (sys.executable, "manage.py", "migrate_safely", "--verbosity", "0")
        subprocess.run(line, cwd=ROOT, env=environment, check=True, timeout=120)
        yield process.pid, server.url
    finally:
        # a fast shutdown, which doesn't wait for the console's connections
        process.send_signal(signal.SIGINT)
        process.wait(30)


@contextmanager
def stopped(server_pid: int) -> Iterator[None]:
    """A server of which no process runs inside the block; connections are still accepted."""
    found: list[int] = []

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        found.append(pid)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            stop(int(child))

    try:
        stop(server_pid)
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


def test_a_database_that_never_answers_is_an_outage_and_not_a_wait(
    db: None, own_server: tuple[int, str], tmp_path: Path
) -> None:
    pid, url = own_server
    with running_console(tmp_path / "log", HEADWORKS_DATABASE_URL=url) as console:
        # a connection of the pool is open now, and idle
        assert ask_pools(console, UNKNOWN) == (401, "authentication_failed")
        with stopped(pid):
            for _ in range(3):
                answers: list[tuple[int, object]] = []
                assert took_s(lambda into=answers: into.append(ask_pools(console, UNKNOWN))) < 10
                assert answers == [(503, "database_unavailable")]
        wait_until(lambda: ask_pools(console, UNKNOWN)[0] == 401, 15, "the API to recover")
