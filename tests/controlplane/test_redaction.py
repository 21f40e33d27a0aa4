"""Secrets are masked by name, by shape and by value, in logs and in what is kept."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator

import pytest
import structlog
from django.http import HttpRequest

from controlplane.logs import logging_settings
from controlplane.redaction import MASK, scrub, scrub_text

KEY = "hw_01jd2m8v8c9q4t6w3x5y7z0abc.s3cr3t-Part_of43characters"
TOKEN = "hwt_01jd2m8v8c9q4t6w3x5y7z0abc.s3cr3t-Part_of43characters"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"key {KEY} was used", f"key {MASK} was used"),
        (f"Authorization: Bearer {TOKEN}", f"Authorization: {MASK}"),
        ("bearer abc.def", MASK),
        ("sk-proj-abcdefgh12345 leaked", f"{MASK} leaked"),
        ("postgresql://user:pw@host/db", f"postgresql://{MASK}@host/db"),
        ("redis://:pw@host", f"redis://{MASK}@host"),
        ("nothing here, hw_ or hwt_ alone", "nothing here, hw_ or hwt_ alone"),
        (
            "the id hw_01jd2m8v8c9q4t6w3x5y7z0abc stays",
            "the id hw_01jd2m8v8c9q4t6w3x5y7z0abc stays",
        ),
    ],
)
def test_secrets_are_known_by_their_shape(text: str, expected: str) -> None:
    assert scrub_text(text) == expected


def test_secrets_are_known_by_the_name_of_their_field() -> None:
    told = {
        "credential": "x",
        "password": "x",
        "new_password": "x",
        "api_key": "x",
        "Authorization": "x",
        "has_credential": True,
        "credential_last4": "1234",
        "key_id": "key_1",
        "digest": None,
        "nested": [{"secret": "x", "name": "y"}],
    }
    assert scrub(told) == {
        "credential": MASK,
        "password": MASK,
        "new_password": MASK,
        "api_key": MASK,
        "Authorization": MASK,
        "has_credential": True,
        "credential_last4": "1234",
        "key_id": "key_1",
        "digest": None,
        "nested": [{"secret": MASK, "name": "y"}],
    }


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Where the log goes, configured as in the console, with one known secret."""
    out = io.StringIO()
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    logging.config.dictConfig(logging_settings("DEBUG", ("known-secret-value",)))
    for handler in root.handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(out)
    yield out
    root.handlers[:], level = before
    root.setLevel(level)


def last(lines: io.StringIO) -> dict[str, object]:
    event: dict[str, object] = json.loads(lines.getvalue().splitlines()[-1])
    return event


def test_a_log_line_is_json_with_secrets_masked(lines: io.StringIO) -> None:
    log = structlog.get_logger("tests")
    log.info("called", key=KEY, credential="x", url="http://a/?k=known-secret-value")
    event = last(lines)
    assert (event["event"], event["level"], event["logger"]) == ("called", "info", "tests")
    assert (event["key"], event["credential"]) == (MASK, MASK)
    assert event["url"] == f"http://a/?k={MASK}"
    assert str(event["timestamp"]).endswith("Z")


def test_a_library_that_logs_a_secret_is_masked_too(lines: io.StringIO) -> None:
    logging.getLogger("library").warning("sent %s", TOKEN, extra={"password": "x"})
    event = last(lines)
    assert (event["event"], event["password"]) == (f"sent {MASK}", MASK)


def test_a_traceback_is_masked_too(lines: io.StringIO) -> None:
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError:
        structlog.get_logger("tests").exception("failed")
    assert KEY not in lines.getvalue()
    assert "ValueError" in str(last(lines)["exception"])


def test_a_request_is_told_by_its_path_and_id(lines: io.StringIO) -> None:
    request = HttpRequest()
    request.method, request.path = "GET", "/api/v1/pools/"
    request.headworks_id = "call_1"  # type: ignore[attr-defined]
    logging.getLogger("django.request").warning("Not Found", extra={"request": request})
    event = last(lines)
    assert (event["request_id"], event["method"], event["path"]) == (
        *("call_1", "GET", "/api/v1/pools/"),
    )


def test_queries_are_never_logged(lines: io.StringIO) -> None:
    logging.getLogger("django.db.backends").debug("SELECT %s", "a value")
    assert lines.getvalue() == ""
