"""System checks."""

import base64

import pytest
from django.conf import settings

from controlplane.checks import check_engine, check_secrets, check_stored_secrets
from tests.controlplane.conftest import POOL, Caller

pytestmark = pytest.mark.slow


def with_settings(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    monkeypatch.setattr(settings, "HEADWORKS", type(settings.HEADWORKS)(**values))


def fresh_key() -> str:
    return base64.urlsafe_b64encode(b"another".ljust(32, b"-")).decode()


def test_a_sound_installation_has_no_findings(admin: Caller) -> None:
    admin.made("/pools/", {**POOL, "credential": "secret-of-upstream"})
    admin.made("/keys/", {"name": "k"})
    assert check_secrets(None) == check_engine(None) == []
    assert check_stored_secrets(None, databases=["default"]) == []


def test_a_data_key_that_opens_nothing_stored_is_an_error(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.made("/pools/", {**POOL, "credential": "secret-of-upstream"})
    with_settings(monkeypatch, data_key=fresh_key())
    assert [one.id for one in check_stored_secrets(None, databases=["default"])] == [
        "headworks.E005"
    ]
    assert check_stored_secrets(None) == []


def test_a_pepper_that_was_dropped_is_a_warning(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.made("/keys/", {"name": "k"})
    with_settings(monkeypatch, key_peppers=f"2:{fresh_key()}")
    found = check_stored_secrets(None, databases=["default"])
    assert [(one.id, "[1]" in one.msg) for one in found] == [("headworks.W001", True)]


def test_a_pepper_that_is_the_data_key_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = fresh_key()
    with_settings(monkeypatch, data_key=shared, key_peppers=f"1:{shared}")
    assert [one.id for one in check_secrets(None)] == ["headworks.E003"]


def test_another_engine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3")
    assert [one.id for one in check_engine(None)] == ["headworks.E004"]
