"""How the console talks to its database."""

import pytest
from django.db import OperationalError, connection, transaction


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
