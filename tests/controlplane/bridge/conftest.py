"""Recorders on a real store and a real database."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection, connections
from redis import Redis
from redis.exceptions import ResponseError

from controlplane.bridge.recorder import Recorder, connect_store
from inference.contract.wire import USAGE_GROUP, USAGE_STREAM
from tests.controlplane.ledger_events import NOON

MANAGE = Path(__file__).parents[3] / "manage.py"
PATIENCE_S = 300.0


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Poll until it is so, ever more rarely, or fail saying what wasn't."""
    began = time.monotonic()
    while not is_so():
        waited_s = time.monotonic() - began
        assert waited_s < PATIENCE_S, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(max(0.01, min(waited_s / 8, 0.25)))


def environment_of_process() -> dict[str, str]:
    """What a process of ours is started with to work on this test's database."""
    url = urlsplit(settings.HEADWORKS.database_url.get_secret_value())
    database = url._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    return {**os.environ, "HEADWORKS_DATABASE_URL": database}


@dataclass
class Recording:
    """Recorders of one test: in this process step by step, or as threads and processes."""

    store: Redis
    now: datetime = NOON
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def recorder(
        self,
        name: str = "test",
        *,
        is_stopping: Callable[[], bool] = lambda: False,
        **options: int,
    ) -> Recorder:
        return Recorder(
            connect_store(settings.HEADWORKS.state_url.get_secret_value()),
            name,
            is_stopping=is_stopping,
            wait=lambda seconds: None,
            now=lambda: self.now,
            **options,
        )

    def drain(self, recorder: Recorder | None = None) -> None:
        """Record until nothing is left."""
        recorder = recorder or self.recorder()
        recorder.step()
        while self.left:
            recorder.step()

    @property
    def left(self) -> int:
        return int(self.store.xlen(USAGE_STREAM))

    @property
    def consumers(self) -> list[bytes]:
        """The names of those who read the stream; none before there is a group."""
        try:
            found: Any = self.store.xinfo_consumers(USAGE_STREAM, USAGE_GROUP)
        except ResponseError:
            return []
        return [one["name"] for one in found]

    def start_process(self) -> subprocess.Popen[bytes]:
        """A recorder as an operating-system process on this test's database."""
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), "record_usage"],
            env=environment_of_process(),
            stderr=subprocess.DEVNULL,
        )
        self.running.append(process)
        return process

    def start_thread(self, recorder: Recorder) -> Thread:
        """A recorder that works in the background until it is told to stop."""

        def work() -> None:
            try:
                recorder.run()
            finally:
                connections.close_all()

        thread = Thread(target=work)
        thread.start()
        return thread


@pytest.fixture
def recording(transactional_db: None, state_store: Redis) -> Iterator[Recording]:
    found = Recording(state_store)
    yield found
    for process in found.running:
        process.kill()
        process.wait()
