"""Viewers: 150 open live pages, new once a second, and whether any misses a message unnoticed.

    .venv/bin/python -m benchmarks.viewers [--viewers 150] [--seconds 60]

PostgreSQL, Valkey, one console and the feed run as real processes in a temporary folder, with two
gateways' records written every 0.4 s. Half of the viewers watch the overview, the rest one of three
pools. Like the page, a viewer reads its document first, and again when a number is missing.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.recorder import services

ROOT = Path(__file__).parents[1]
_READY_S = 60.0
_POLL_S = 0.1


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_serving(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/-/status", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


@contextmanager
def processes(environment: Mapping[str, str], port: int) -> Iterator[Mapping[str, int]]:
    """Run console and feed; yield their process ids by name."""
    lines = {
        "console": ["-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)],
        "feed": ["manage.py", "run_feed"],
    }
    running = {
        name: subprocess.Popen(
            [sys.executable, *line],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, line in lines.items()
    }
    try:
        deadline = time.monotonic() + _READY_S
        while not is_serving(port):
            if time.monotonic() > deadline:
                raise SystemExit("the console does not serve")
            time.sleep(_POLL_S)
        yield {name: process.pid for name, process in running.items()}
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viewers", type=int, default=150)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    port = free_port()
    with services() as found:
        environment = {**os.environ, **found, "HEADWORKS_CONSOLE_PORT": str(port)}
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        with processes(environment, port) as pids:
            numbers = (arguments.viewers, arguments.seconds, port, *pids.values())
            load = [sys.executable, "-m", "benchmarks.viewers_load", *map(str, numbers)]
            subprocess.run(load, cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()
