"""Commands and jobs, run as the processes they are."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from celery.schedules import schedule
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from redis import Redis

from controlplane.bridge import publisher
from controlplane.celery import app
from controlplane.errors import DatabaseBehind
from controlplane.models import ConfigRevision
from controlplane.tasks.heartbeat import HEARTBEAT_KEY
from inference.contract import wire
from tests.controlplane.consoles import before_store, database_url_of_test
from tests.installation import ROOT, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def empty_database() -> Iterator[str]:
    """The address of a database with nothing in it."""
    server = os.environ["HEADWORKS_DATABASE_URL"]
    name = f"empty_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as own:
        own.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        own.execute(f"DROP DATABASE {name} WITH (FORCE)")


def start(database_url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "HEADWORKS_DATABASE_URL": database_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_of_two_processes_that_migrate_an_empty_database_one_does_and_both_succeed(
    empty_database: str,
) -> None:
    line = ("manage.py", "migrate_safely", "--verbosity", "1")
    processes = [start(empty_database, *line) for _ in range(2)]
    outputs = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    migrated = [out for out, _ in outputs if "Applying controlplane.0001_initial" in out]
    assert len(migrated) == 1
    assert sum("No migrations to apply" in out for out, _ in outputs) == 1


def session_facts() -> tuple[str, str, int, float | None]:
    """The session's time limits, its advisory locks, and how long this side waits for it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), count(*)"
            " FILTER (WHERE locktype = 'advisory') FROM pg_locks WHERE pid = pg_backend_pid()"
        )
        statement, lock, advisory = cursor.fetchone()
    return statement, lock, advisory, getattr(connection.connection, "answer_within_s", None)


def test_migrating_again_leaves_the_session_as_it_was(db: None) -> None:
    connection.ensure_connection()
    before = session_facts()
    call_command("migrate_safely", verbosity=0)
    assert session_facts() == before
    assert before[:3] == ("30s", "10s", 0)
    call_command("migrate_safely", verbosity=0)
    assert session_facts() == before


def test_the_models_have_no_unwritten_migration(db: None) -> None:
    assert apps.get_app_config("controlplane").label == "controlplane"
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_the_first_publishing_makes_a_version_and_the_next_one_does_not(
    db: None, state_store: Redis
) -> None:
    call_command("publish_configuration", verbosity=0)
    call_command("publish_configuration", verbosity=0)
    assert ConfigRevision.objects.count() == 1
    assert state_store.hget(wire.MANIFEST, "version") == b"1"
    assert state_store.exists(wire.LINEAGE, wire.SEEDED_AT) == 2


def test_publishing_says_so_when_the_store_is_away(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "publish", lambda: publisher.Publication.UNAVAILABLE)
    with pytest.raises(CommandError, match="the state store is not answering"):
        call_command("publish_configuration", verbosity=0)


def test_a_start_on_a_database_that_is_behind_comes_up_to_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []

    def run(name: str, **options: object) -> None:
        if name == "seed_demo":
            raise DatabaseBehind("Nothing can be edited now.")
        done.append(name)

    monkeypatch.setattr("controlplane.management.commands.prepare.call_command", run)
    out = StringIO()
    call_command("prepare", secrets_file=tmp_path / "seeded", stdout=out)
    assert done == ["collectstatic", "migrate_safely", "publish_configuration"]
    assert "demonstration not set up: Nothing can be edited now.\n" in out.getvalue()


def test_jobs_speak_json_alone_and_their_clock_is_in_code() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.timezone == "UTC"
    periods = {name: entry["schedule"] for name, entry in app.conf.beat_schedule.items()}
    assert periods["republish"] == 5.0
    assert not any(isinstance(period, schedule) for period in periods.values())
    longest = app.conf.task_time_limit
    assert app.conf.broker_transport_options["visibility_timeout"] > longest


def test_a_worker_loads_every_task_of_the_clock() -> None:
    for module in app.conf.imports:
        import_module(module)
    homes = {
        one["task"]: app.tasks[one["task"]].__module__ for one in app.conf.beat_schedule.values()
    }
    # whatever other tests have imported, a worker has but these
    assert set(homes.values()) <= set(app.conf.imports), homes


@contextmanager
def running_jobs(folder: Path, **settings: str) -> Iterator[None]:
    """A Celery worker with its beat, on this test's database."""
    line = ("-m", "celery", "-A", "controlplane.celery", "worker", "-B")
    options = ("-s", str(folder / "schedule"), "--without-gossip", "--without-mingle")
    environment = {**os.environ, "HEADWORKS_DATABASE_URL": database_url_of_test(), **settings}
    with (folder / "log").open("wb") as out:
        jobs = subprocess.Popen(
            [sys.executable, *line, *options],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        jobs.terminate()
        jobs.wait(120)


def test_jobs_beat_publish_what_the_store_lost_and_survive_its_absence(
    transactional_db: None, state_store: Redis, state_url: str, tmp_path: Path, folder: Path
) -> None:
    call_command("publish_configuration", verbosity=0)
    state_store.flushdb()
    between, url = before_store(folder, state_url)
    between.start()

    def newer_than(at: float) -> bool:
        beat = state_store.get(HEARTBEAT_KEY)
        return beat is not None and float(beat) > at

    with running_jobs(tmp_path, HEADWORKS_STATE_URL=url, HEADWORKS_BROKER_URL=""):
        began = time.time()
        wait_until(lambda: newer_than(began), 60, "a heartbeat")
        wait_until(lambda: state_store.exists(wire.SEEDED_AT), 60, "the configuration")
        assert state_store.hget(wire.MANIFEST, "version") == b"1"
        between.cut()
        wait_until(lambda: b"Connection" in (tmp_path / "log").read_bytes(), 30, "a complaint")
        between.start()
        back = time.time()
        wait_until(lambda: newer_than(back), 60, "a heartbeat after the outage")
    between.cut()
