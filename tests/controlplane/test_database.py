"""How the console talks to its database."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from controlplane.bridge import database
from controlplane.bridge.database import answering_within, bounded_connections


def shown(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return str(cursor.fetchone()[0])


def test_nothing_waits_for_ever(db: None) -> None:
    assert shown("statement_timeout") == "30s"
    assert shown("lock_timeout") == "10s"
    assert shown("idle_in_transaction_session_timeout") == "1min"


def test_a_statement_that_takes_too_long_is_cut_off(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 50")
        with pytest.raises(OperationalError), transaction.atomic():
            cursor.execute("SELECT pg_sleep(5)")


def test_connections_are_few_and_given_back() -> None:
    options = connection.settings_dict["OPTIONS"]["pool"]
    assert (options["min_size"], options["max_size"]) == (0, 10)
    assert connection.settings_dict["CONN_MAX_AGE"] == 0


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that doesn't run inside the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_every_connection_waits_a_little_longer_than_the_server_lets_a_statement_run(
    db: None,
) -> None:
    connection.ensure_connection()
    limit_s = settings.HEADWORKS.statement_timeout_ms / 1_000
    assert connection.connection.answer_within_s == limit_s + 2


def test_a_backend_that_never_answers_is_given_up_and_its_connection_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SLACK_S", 0.2)
    with bounded_connections(100).connect(database_url, autocommit=True) as given:
        cursor = given.cursor()
        cursor.execute("SELECT 1")
        with stopped(given.info.backend_pid):
            began = time.monotonic()
            with pytest.raises(psycopg.OperationalError, match="did not answer in time"):
                cursor.execute("SELECT 2")
            assert 0.3 <= time.monotonic() - began < 5
        assert given.closed


def test_the_pools_question_whether_a_connection_is_good_is_given_up_sooner(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CHECK_S", 0.2)
    with bounded_connections(60_000).connect(database_url, autocommit=True) as given:
        with stopped(given.info.backend_pid):
            began = time.monotonic()
            with pytest.raises(psycopg.OperationalError):
                given.execute("")
            assert time.monotonic() - began < 5
        assert given.closed


def test_a_wait_may_be_let_run_and_is_bounded_again_afterwards(database_url: str) -> None:
    with bounded_connections(100).connect(database_url) as given:
        with answering_within(given, None):
            assert given.answer_within_s is None
            given.execute("SELECT 1")
            assert given.answer_within_s is None
        assert given.answer_within_s == 2.1
        assert "answer_within_s" not in vars(given)
