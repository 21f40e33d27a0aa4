"""Consoles as processes of their own, and a socket before a store that can be cut."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.db import connection

from tests.installation import ROOT, free_port, wait_until

START_S = 120


@dataclass(frozen=True)
class Console:
    """A running console."""

    port: int
    pid: int

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.pid, signal.SIGKILL)

    def ask(
        self, method: str, path: str, document: object = None, **headers: str
    ) -> tuple[int, Any]:
        """One call: the status and the JSON of the answer, or None if it isn't JSON."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if document is None else json.dumps(document)
        if body is not None:
            told["Content-Type"] = "application/json"
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            client.request(method, path, body, told)
            response = client.getresponse()
            text = response.read()
        finally:
            client.close()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(text) if is_json and text else None

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/-/status")[0] in (200, 503)
        except OSError:
            return False


@contextmanager
def running_console(log: Path, **settings: str) -> Iterator[Console]:
    """A console on a free port, on this test's database unless it's told another."""
    port = free_port()
    environment = {**os.environ, "HEADWORKS_DATABASE_URL": database_url_of_test(), **settings}
    line = ("-m", "uvicorn", "controlplane.asgi:application", "--port", str(port))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *line, "--no-proxy-headers", "--lifespan", "off"],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    console = Console(port, process.pid)
    try:
        wait_until(console.answers, START_S, f"the console to answer; see {log.read_text()}")
        yield console
    finally:
        process.terminate()
        process.wait(20)


def database_url_of_test() -> str:
    """The address of the database this test runs on."""
    parts = urlsplit(os.environ["HEADWORKS_DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


class CutSocket:
    """A Unix socket that passes everything on to another, until it's cut, held or silent."""

    def __init__(self, here: Path, there: Path) -> None:
        self._here, self._there = here, there
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._is_held = False
        self._flows = threading.Event()
        self._flows.set()

    def start(self, *, is_held: bool = False) -> None:
        """Listen; held, connections are accepted and nothing is ever answered."""
        self._is_held = is_held
        self._here.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._here))
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Stop listening and end every connection."""
        self._here.unlink(missing_ok=True)
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Inside the block nothing passes, on connections open before or new; then all of it."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self._open.append(near)
            if self._is_held:
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self._there))
            self._open.append(far)
            for source, target in ((near, far), (far, near)):
                relay = threading.Thread(target=self._relay, args=(source, target), daemon=True)
                relay.start()

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def before_database(folder: Path) -> tuple[CutSocket, str]:
    """A socket before PostgreSQL and the database's address through it."""
    parts = urlsplit(database_url_of_test())
    query = dict(parse_qsl(parts.query))
    name = f".s.PGSQL.{query.get('port', '5432')}"
    between = CutSocket(folder / name, Path(query["host"]) / name)
    query["host"] = str(folder)
    return between, urlunsplit(parts._replace(query=urlencode(query, safe="/")))


def before_store(folder: Path, url: str) -> tuple[CutSocket, str]:
    """A socket before a store and the store's address through it."""
    parts = urlsplit(url)
    here = folder / "store.sock"
    between = CutSocket(here, Path(parts.path))
    return between, urlunsplit(parts._replace(path=str(here)))


def took_s(call: Callable[[], object]) -> float:
    """How long a call took."""
    began = time.monotonic()
    call()
    return time.monotonic() - began
