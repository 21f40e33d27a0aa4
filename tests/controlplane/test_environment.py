"""Process settings: a bad value is told by its variable's name, never by what it holds."""

import base64
import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.environment import ProcessSettings, as_broker, with_database
from tests.installation import ROOT


def key(length: int = 32) -> str:
    return base64.urlsafe_b64encode(b"k" * length).decode()


WHOLE = {
    "HEADWORKS_SECRET_KEY": "s" * 40,
    "HEADWORKS_DATA_KEY": key(),
    "HEADWORKS_KEY_PEPPERS": f"2:{key()},1:{key()}",
    "HEADWORKS_DATABASE_URL": "postgresql://user:pw@db.internal:5433/headworks?sslmode=require",
    "HEADWORKS_STATE_URL": "unix://control:pw@/run/state.sock?db=0",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [one for one in os.environ if one.startswith("HEADWORKS_")]:
        monkeypatch.delenv(name)
    for name, value in WHOLE.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_ledger_is_kept_for_as_long_as_budgets_are_counted_from_it(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("HEADWORKS_LEDGER_DAYS", "185")
    assert ProcessSettings.load().ledger_days == 185
    environment.setenv("HEADWORKS_LEDGER_DAYS", "184")
    with pytest.raises(ImproperlyConfigured, match="HEADWORKS_LEDGER_DAYS"):
        ProcessSettings.load()


def test_the_least_environment_gives_safe_defaults(environment: pytest.MonkeyPatch) -> None:
    settings = ProcessSettings.load()
    assert settings.allowed_hosts == ("localhost", "127.0.0.1", "[::1]")
    assert settings.trusted_origins == ()
    assert (settings.https, settings.allow_remote_code) == (False, False)
    assert settings.reserved_ports == {8300, 8400, 8401}
    assert list(settings.peppers) == [2, 1]
    assert settings.connection == {
        "user": "user",
        "password": "pw",
        "host": "db.internal",
        "port": "5433",
        "dbname": "headworks",
        "sslmode": "require",
    }


@pytest.mark.parametrize(
    ("host", "own"),
    [("10.0.0.5", ["10.0.0.5"]), ("fd00::5", ["[fd00::5]"]), ("0.0.0.0", []), ("::", [])],
)
def test_a_console_answers_to_the_address_it_listens_on(
    host: str, own: list[str], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("HEADWORKS_CONSOLE_HOST", host)
    assert list(ProcessSettings.load().hosts) == ["localhost", "127.0.0.1", "[::1]", *own]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SECRET_KEY", None, "is not set"),
        ("SECRET_KEY", "short", "at least 32"),
        ("DATA_KEY", None, "is not set"),
        ("DATA_KEY", "!!", "URL-safe base64"),
        ("DATA_KEY", key(16), "must hold 32 bytes, not 16"),
        ("KEY_PEPPERS", key(), "VERSION:KEY"),
        ("KEY_PEPPERS", f"1:{key(31)}", "must hold 32 bytes, not 31"),
        ("DATABASE_URL", None, "is not set"),
        ("DATABASE_URL", "mysql://user@/db", "postgresql://"),
        ("DATABASE_URL", "sqlite:///db", "postgresql://"),
        ("DATABASE_URL", "postgresql://host", "names no database"),
        ("STATE_URL", None, "is not set"),
        ("STATE_URL", "http://host", "redis://"),
        ("CONSOLE_PORT", "99999", "65535"),
        ("CONSOLE_PORT", "http", "integer"),
        ("OWN_PORTS", "1,x", "port numbers"),
        ("HTTPS", "maybe", "boolean"),
        ("LOG_LEVEL", "loud", "pattern"),
        ("STATEMENT_TIMEOUT_MS", "0", "100"),
    ],
)
def test_a_bad_value_is_told_by_its_name(
    name: str, value: str | None, told: str, environment: pytest.MonkeyPatch
) -> None:
    variable = f"HEADWORKS_{name}"
    if value is None:
        environment.delenv(variable)
    else:
        environment.setenv(variable, value)
    with pytest.raises(ImproperlyConfigured) as caught:
        ProcessSettings.load()
    message = str(caught.value)
    assert message.startswith(variable)
    assert told in message
    assert value is None or len(value) < 6 or value not in message


def test_every_bad_value_is_told_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("HEADWORKS_SECRET_KEY")
    environment.setenv("HEADWORKS_CONSOLE_PORT", "x")
    with pytest.raises(ImproperlyConfigured) as caught:
        ProcessSettings.load()
    told = str(caught.value).split("; ")
    assert [line.split(":")[0].split(" ")[0] for line in told] == [
        "HEADWORKS_SECRET_KEY",
        "HEADWORKS_CONSOLE_PORT",
    ]


def test_secrets_are_in_no_repr(environment: pytest.MonkeyPatch) -> None:
    text = repr(ProcessSettings.load())
    for secret in ("pw", key(), "s" * 40):
        assert secret not in text


@pytest.mark.slow
def test_a_command_ends_with_the_variables_name_and_no_traceback(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.delenv("HEADWORKS_DATA_KEY")
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "HEADWORKS_DATA_KEY is not set"


@pytest.mark.parametrize(
    ("url", "number", "expected"),
    [
        ("unix:///run/s.sock?db=0", 3, "unix:///run/s.sock?db=3"),
        ("unix://u:p@/run/s.sock", 1, "unix://u:p@/run/s.sock?db=1"),
        ("redis://u:p@host:6379/0", 2, "redis://u:p@host:6379/2"),
        ("rediss://host?ssl_cert_reqs=none", 1, "rediss://host/1?ssl_cert_reqs=none"),
    ],
)
def test_another_database_of_the_same_store(url: str, number: int, expected: str) -> None:
    assert with_database(url, number) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("unix://u:p@/run/s.sock?db=1", "redis+socket://u:p@/run/s.sock?virtual_host=1"),
        ("redis://host/1", "redis://host/1"),
    ],
)
def test_a_store_as_celery_spells_it(url: str, expected: str) -> None:
    assert as_broker(url) == expected


def test_the_broker_is_a_database_of_the_state_store_unless_it_is_named(
    environment: pytest.MonkeyPatch,
) -> None:
    assert (
        ProcessSettings.load().broker == "redis+socket://control:pw@/run/state.sock?virtual_host=1"
    )
    environment.setenv("HEADWORKS_BROKER_URL", "redis://elsewhere/4")
    assert ProcessSettings.load().broker == "redis://elsewhere/4"


def deploy_check(**more: str) -> Any:
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_the_deployment_check_is_clean_behind_https() -> None:
    done = deploy_check(HEADWORKS_HTTPS="1")
    assert done.returncode == 0, done.stderr
