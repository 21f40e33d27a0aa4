"""A whole installation under test: the launcher as its user starts it, in a folder of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from controlplane.local.places import make_places
from tests.stock import take

ROOT = Path(__file__).resolve().parents[1]
READY_LINE = "Ctrl-C stops everything"
POLL_S = 0.05
SOON_S = 120.0
"""What anything may take that takes no time: processes are started on a machine that does more."""
# Below what Linux lends (from 32768), above what engines of the demonstration take. Processes that
# run tests side by side take theirs from parts of their own.
_PARTS = 5
_PART = 1 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw"))
FREE_PORTS = range(28_000 + _PART % _PARTS, 32_768, _PARTS)
# a test's own embedded services must not leak into the installation it starts
KEPT_SETTINGS = ("HEADWORKS_ENGINE_CACHE",)

_given_ports = set[int]()


def free_port() -> int:
    """A port nothing listens on now, and that no system lends to an outgoing connection.

    None is given twice: whoever asked first may not listen yet.
    """
    for port in SystemRandom().sample(FREE_PORTS, 100):
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given_ports.add(port)
            return port
    pytest.fail("no port is free")


def wait_until(
    condition: Callable[[], Any], within_s: float, what: str, *, every_s: float = POLL_S
) -> Any:
    """Poll until the condition gives something true and return it, or fail saying what for."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:.0f} s: {what}")
        time.sleep(every_s)
    return value


def processes_of(var: Path) -> dict[int, str]:
    """Every living process started for the installation in this folder, by pid."""
    mark = f"HEADWORKS_VAR={var}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            settings = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mark in settings and command and int(entry.name) != os.getpid():
            found[int(entry.name)] = command
    return found


@dataclass
class Installation:
    """A running launcher and how to reach what it started."""

    var: Path
    process: subprocess.Popen[bytes]
    output: Path
    settings: Mapping[str, str]
    demo: dict[str, str] = field(default_factory=dict)

    def wait_ready(self, within_s: float) -> None:
        """Return once the launcher says that all is up, or fail with what it printed."""
        deadline = time.monotonic() + within_s
        while READY_LINE not in self.output.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the installation did not start:\n{self.output.read_text()}")
            time.sleep(POLL_S)
        lines = (self.var / "demo.env").read_text().split()
        self.demo = dict(line.split("=", 1) for line in lines)

    def find(self, *words: str) -> list[int]:
        """Pids of its processes whose command line has all these words."""
        running = processes_of(self.var)
        return [pid for pid, line in running.items() if all(word in line for word in words)]

    def api(self, method: str, path: str, document: object = None) -> Any:
        """Call the REST API as its token; a refusal is an `HTTPError`."""
        url = f"{self.demo['CONSOLE_URL']}/api/v1{path}"
        return call_json(method, url, self.demo["API_TOKEN"], document)

    def chat(self, **fields: object) -> tuple[str, Any]:
        """Ask the gateway for a completion as the demo key: the request's id and the answer."""
        url = f"{self.demo['GATEWAY_URL']}/v1/chat/completions"
        body = {"messages": [{"role": "user", "content": "ping"}], **fields}
        with call("POST", url, self.demo["API_KEY"], body) as answer:
            return answer.headers["x-request-id"], json.load(answer)

    def wait_for_request(self, event_id: str, within_s: float = SOON_S) -> Any:
        """The ledger's row of a request, as the REST API tells it once it is up and knows it."""

        def found() -> Any:
            try:
                return self.api("GET", f"/requests/{event_id}/")
            except urllib.error.HTTPError as refusal:
                refusal.close()
            except OSError:
                pass  # a console that is just being started again
            return None

        return wait_until(found, within_s, f"a ledger row for {event_id}")

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = SOON_S) -> None:
        """Signal the launcher and wait until nothing of the installation is left."""
        self.process.send_signal(number)
        wait_until(lambda: not processes_of(self.var), within_s, "everything to end")
        self.process.wait(SOON_S)


def call(method: str, url: str, token: str, document: object = None) -> Any:
    """Make one call with a bearer token; the answer is open and a refusal an `HTTPError`."""
    data = None if document is None else json.dumps(document).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    return urllib.request.urlopen(request, timeout=SOON_S)


def call_json(method: str, url: str, token: str, document: object = None) -> Any:
    """`call`, and the answer's document; None when it has no body."""
    with call(method, url, token, document) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def start_installation(var: Path, **settings: str) -> Installation:
    """Start the launcher on this folder; ports are free ones unless given."""
    outer = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HEADWORKS_") or name in KEPT_SETTINGS
    }
    ports = {
        "HEADWORKS_CONSOLE_PORT": str(free_port()),
        "HEADWORKS_GATEWAY_PORT": str(free_port()),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(free_port()),
    }
    # most tests need no semantic cache, and its helper takes a second of a core to start
    ports["HEADWORKS_HELPER"] = "off"
    given = {f"HEADWORKS_{name}": value for name, value in settings.items()}
    environment = {**outer, **ports, **given, "HEADWORKS_VAR": str(var)}
    output = var.with_suffix(".out")
    with output.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "controlplane.local", "run"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Installation(var, process, output, environment)


@contextmanager
def running_installation(
    var: Path,
    *,
    within_s: float = 300,
    end_by: signal.Signals = signal.SIGTERM,
    **settings: str,
) -> Iterator[Installation]:
    """An installation that is up inside the block and wholly gone after it.

    A new one finds its database migrated, if there is such a one in stock.
    The end is one more test: the launcher gets this signal, and leaves nothing whatever it was.
    """
    if not var.exists():
        take(make_places(var))
    installation = start_installation(var, **settings)
    try:
        installation.wait_ready(within_s)
        yield installation
    finally:
        try:
            if installation.process.poll() is None:
                installation.stop(end_by)
            wait_until(lambda: not processes_of(var), SOON_S, "everything to end")
        finally:
            # for those who come after: what failed is told all the same
            for pid in processes_of(var):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            installation.process.wait(SOON_S)
    assert installation.process.returncode == (-end_by if end_by == signal.SIGKILL else 0)
