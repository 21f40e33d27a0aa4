"""Log lines as JSON on standard error, secrets masked, the request's id on each."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from django.http import HttpRequest
from structlog.typing import Processor, WrappedLogger

from controlplane.redaction import scrub_fields


class Redaction:
    """A processor that masks secrets by name, by shape and by the values it was given."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def __call__(
        self, logger: WrappedLogger, name: str, event: MutableMapping[str, Any]
    ) -> Mapping[str, Any]:
        kept = {key: value for key, value in event.items() if key.startswith("_")}
        said = {key: value for key, value in event.items() if not key.startswith("_")}
        return {**scrub_fields(said, self._known), **kept}


def tell_request(
    logger: WrappedLogger, name: str, event: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    """Put a request into words: Django logs it when its own context is gone already."""
    request = event.pop("request", None)
    if isinstance(request, HttpRequest):
        event.setdefault("request_id", getattr(request, "headworks_id", ""))
        event.update(method=request.method, path=request.path)
    return event


def _first_steps() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def configure_structlog() -> None:
    """Send structlog's events through the standard library, so that there is one way out."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_first_steps(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_settings(level: str, known_secrets: tuple[str, ...]) -> dict[str, Any]:
    """Django's LOGGING: every logger to one handler, every line JSON and scrubbed."""
    last_steps: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        Redaction(known_secrets),
        structlog.processors.JSONRenderer(default=str),
    ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [
                    *_first_steps(),
                    structlog.stdlib.ExtraAdder(),
                    tell_request,
                ],
                "processors": last_steps,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": level},
            # queries hold values; they are never logged, whatever the level
            "django.db.backends": {"level": "WARNING"},
            # the sweeps run every few seconds; only what goes wrong with them is worth a line
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            # the web server brings handlers of its own, which know no JSON and mask nothing
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.access": {"handlers": [], "propagate": True},
            # one line a request would repeat what the web server writes
            "django.server": {"level": "WARNING"},
        },
    }
