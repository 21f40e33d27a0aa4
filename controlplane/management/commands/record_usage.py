"""`manage.py record_usage`: the recorder process."""

import os
import secrets
import signal
import socket
import time
from types import FrameType

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.bridge.recorder import Recorder, connect_store

_SLICE_S = 0.1

log = structlog.get_logger(__name__)


class Stopping:
    """Whether the process was told to stop; waits end within a tenth of a second of it."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self, number: int, frame: FrameType | None) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_S))


class Command(BaseCommand):
    help = "Drain the event stream into the ledger until told to stop (SIGTERM)."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        stopping = Stopping()
        signal.signal(signal.SIGTERM, stopping.set)
        signal.signal(signal.SIGINT, stopping.set)
        # Never a name used before: entries of the dead are claimed, not inherited.
        consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        store = connect_store(settings.HEADWORKS.state_url.get_secret_value())
        log.info("recorder started", consumer=consumer)
        Recorder(store, consumer, is_stopping=stopping.is_set, wait=stopping.wait).run()
        log.info("recorder stopped", consumer=consumer)
