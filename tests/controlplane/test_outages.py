"""The console when what it stands on is away: honest, quick, and back by itself."""

from pathlib import Path

import pytest
from django.conf import settings

from tests.controlplane.conftest import Caller
from tests.controlplane.consoles import (
    Console,
    before_database,
    before_store,
    running_console,
    took_s,
)
from tests.installation import wait_until

pytestmark = pytest.mark.slow

UNKNOWN = "hwt_" + "0" * 26 + "." + "a" * 43
SESSION = {"cookie": f"{settings.SESSION_COOKIE_NAME}=abcdefghijklmnopqrstuvwxyz012345"}


def ask_pools(console: Console, token: str) -> tuple[int, object]:
    status, body = console.ask("GET", "/api/v1/pools/", authorization=f"Bearer {token}")
    return status, body and body.get("code")


def test_without_its_database_from_its_start_or_later_the_api_says_503_and_recovers(
    transactional_db: None, admin: Caller, folder: Path, tmp_path: Path
) -> None:
    between, url = before_database(folder)

    def serves(console: Console) -> None:
        wait_until(lambda: ask_pools(console, admin.token)[0] == 200, 15, "the API to serve")
        assert ask_pools(console, UNKNOWN) == (401, "authentication_failed")
        assert console.ask("GET", "/-/status")[0] == 200

    with running_console(tmp_path / "log", HEADWORKS_DATABASE_URL=url) as console:
        # it starts without one
        assert ask_pools(console, admin.token)[0] == 503
        between.start()
        serves(console)
        between.cut()
        for token in (admin.token, UNKNOWN):
            assert ask_pools(console, token) == (503, "database_unavailable")
        status, body = console.ask("GET", "/-/status")
        assert (status, body["down"]) == (503, ["database"])
        between.start()
        serves(console)
        # one that never answers is an outage and not a wait; a connection is open now, and idle
        with between.silent():
            for _ in range(3):
                answers: list[tuple[int, object]] = []
                assert took_s(lambda into=answers: into.append(ask_pools(console, UNKNOWN))) < 10
                assert answers == [(503, "database_unavailable")]
        serves(console)
    between.cut()


def sessions_wait_for_the_store_and_tokens_do_not(console: Console, admin: Caller) -> None:
    assert ask_pools(console, admin.token) == (200, None)
    assert took_s(lambda: console.ask("GET", "/api/v1/pools/", **SESSION)) < 5
    status, body = console.ask("GET", "/api/v1/pools/", **SESSION)
    assert (status, body["code"]) == (503, "state_unavailable")
    assert took_s(lambda: console.ask("GET", "/-/status")) < 3
    status, body = console.ask("GET", "/-/status", **SESSION)
    assert (status, body["down"]) == (503, ["state"])
    page, _ = console.ask("GET", "/-/status", accept="text/html", **SESSION)
    assert page == 503


def test_without_the_state_store_tokens_work_sessions_dont_and_the_status_says_why(
    transactional_db: None,
    admin: Caller,
    folder: Path,
    tmp_path: Path,
    collected_files: None,
) -> None:
    """From its start, whether it is gone or accepts and never answers, and edits aren't held up."""
    between, url = before_store(folder, settings.HEADWORKS.state_url.get_secret_value())

    def edit(console: Console, name: str) -> None:
        told = {"authorization": f"Bearer {admin.token}"}
        assert console.ask("POST", "/api/v1/models/", {"name": name}, **told)[0] == 201

    def comes_back(console: Console) -> None:
        between.cut()
        between.start()
        wait_until(
            lambda: console.ask("GET", "/api/v1/pools/", **SESSION)[0] == 401, 10, "sessions"
        )

    between.start(is_held=True)
    with running_console(tmp_path / "log", HEADWORKS_STATE_URL=url) as console:
        assert took_s(lambda: edit(console, "first")) < 5
        comes_back(console)
        for is_held in (False, True):
            between.cut()
            if is_held:
                between.start(is_held=True)
            sessions_wait_for_the_store_and_tokens_do_not(console, admin)
            assert took_s(lambda name=f"m{is_held:d}": edit(console, name)) < 5
            comes_back(console)
    between.cut()
