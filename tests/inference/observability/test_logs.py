"""Log lines of a process: one JSON object each, without a secret in any."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import logging
import structlog
from inference.observability.logs import configure_logging
configure_logging("info", process="gateway-child/1")
log = structlog.get_logger("x")
log.debug("not shown")
log.info("started", slot=1, note="key hw_0123abc.SECRET-part and hwt_9.SECRET_too")
log.warning("odd", header="Authorization: Bearer SECRET", other="basic SECRET", none=None)
try:
    raise ValueError("hw_0123abc.SECRET")
except ValueError:
    log.exception("failed")
logging.getLogger("uvicorn.error").info("not shown")
logging.getLogger("uvicorn.error").warning("hw_1.SECRET %s", "there")
"""


def test_every_line_is_an_object_with_its_process_and_no_secret() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert "SECRET" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["started", "odd", "failed", "hw_1.*** there"]
    assert [line["level"] for line in lines] == ["info", "warning", "error", "warning"]
    assert {line["process"] for line in lines} == {"gateway-child/1"}
    assert lines[0]["note"] == "key hw_0123abc.*** and hwt_9.***"
    assert lines[1]["header"] == "Authorization: Bearer ***"
    assert "ValueError: hw_0123abc.***" in lines[2]["exception"]
