"""Log lines: one JSON object each, on standard error, without a secret in any of them."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from inference.contract.sealing import without_secrets

# uvicorn speaks of every start and stop; what it warns of is worth a line.
_LIBRARIES_LEVEL = logging.WARNING


def configure_logging(level: str, *, process: str) -> None:
    """Send all logs of this process to standard error; `process` is on every line."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _naming(process),
        structlog.processors.format_exc_info,
        scrub,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(_level_number(level)),
        # one write a line: the gateway's processes share one log
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processor=structlog.processors.JSONRenderer()
        )
    )
    logging.basicConfig(handlers=[handler], level=_LIBRARIES_LEVEL, force=True)


def scrub(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Blank out anything in a log line that looks like a credential."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = without_secrets(value)
    return event


def _naming(process: str) -> structlog.typing.Processor:
    def name(
        _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event.setdefault("process", process)
        return event

    return name


def _level_number(level: str) -> int:
    return logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
