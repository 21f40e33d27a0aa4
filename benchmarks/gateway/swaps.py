"""A large configuration at start and while serving: `python -m benchmarks.gateway.swaps`.

    .venv/bin/python -m benchmarks.gateway.swaps [--keys 10000] [--routes 1000] [--swaps 5]

Told are the time from the start of a gateway's parent to its first answer, with the configuration
on disk; how long requests take, the slowest above all, while a new configuration in which every key
and route is another is swapped in each second, and while none is; and the longest step of the loop
in such a swap, in CPU time, which other load disturbs least. The gateway has core 0 to itself; load
generator, mock workers and state store have core 1.
"""

import argparse
import asyncio
import json
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import structlog
import uvloop
from redis import Redis

from benchmarks.gateway import ours
from benchmarks.gateway.__main__ import GATEWAY_CORE, LOAD_CORE
from benchmarks.gateway.loads import HERE, WORKERS, compile_programs, mock_workers
from benchmarks.gateway.processes import cpu_s, free_ports, wait_for
from inference.contract import wire
from inference.fleet.registry import FleetRegistry
from inference.snapshots.holder import SnapshotHolder
from inference.workers.connections import Connections

STARTS = 3
CONNECTIONS, REQUESTS_S = 32, 300


class Published:
    """A SnapshotSource that asks the state store as this process's own."""

    def __init__(self, store: "Redis[bytes]") -> None:
        self._store = store

    async def manifest(self) -> bytes | None:
        return self._store.hget(wire.MANIFEST, "sealed")

    async def section(self, digest: str) -> bytes | None:
        await asyncio.sleep(0)
        return self._store.get(wire.section_key(digest))


def main() -> None:
    arguments = _arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    tokens, first = ours.tokens_of(arguments.keys), free_ports(WORKERS)
    workers = range(first, first + WORKERS)
    with tempfile.TemporaryDirectory(prefix="headworks-benchmark-") as name, ExitStack() as stack:
        folder = Path(name)
        compile_programs(folder)
        stack.enter_context(mock_workers(folder, first, core=LOAD_CORE))
        store = stack.enter_context(ours.store(folder, core=LOAD_CORE))
        admin = stack.enter_context(ours.recording(store))

        def publish(version: int) -> None:
            ours.publish(admin, workers, version=version, tokens=tokens, routes=arguments.routes)

        publish(1)
        with started(store, folder):
            pass  # which leaves the configuration on disk
        times = []
        for _ in range(STARTS):
            with started(store, folder) as (port, took):
                times.append(took)
                if len(times) == STARTS:
                    calm = ask(folder, port, seconds=arguments.swaps)
                    asking = begin_asking(folder, port, seconds=arguments.swaps)
                    for version in range(2, 2 + arguments.swaps):
                        time.sleep(1)
                        publish(version)
                    swapped = json.loads(asking.communicate()[0])
        print(f"start to first answer, s: {', '.join(times)}")
        for what, said in (("no swap", calm), ("a swap each second", swapped)):
            waits = ", ".join(f"{name} {said[name] / 1e3:.2f}" for name in ("p50", "p99", "max"))
            print(f"{what}, ms a request: {waits}; {said['err'] + said['bad']} failed")
        steps = uvloop.run(longest_steps(admin, publish, swaps=arguments.swaps))
        print(f"longest step of a swap, CPU ms: {', '.join(f'{one:.1f}' for one in steps)}")


@contextmanager
def started(store: Path, folder: Path) -> Iterator[tuple[int, str]]:
    """A gateway; yields its port, and how long it took from its start to its first answer."""
    port, began_s = free_ports(1), time.monotonic()
    with ours.running(port, store, folder, core=GATEWAY_CORE) as pid:
        wait_for(lambda: _is_ready(port), "the gateway", poll_s=0.002)
        took_s = time.monotonic() - began_s
        yield port, f"{took_s:.2f} ({cpu_s(pid):.2f} of CPU)"


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def begin_asking(folder: Path, port: int, *, seconds: float) -> "subprocess.Popen[bytes]":
    """Ask at an even pace, whatever comes back, for so long and a second for warming up."""
    numbers = map(str, (port, CONNECTIONS, seconds, 1))
    body = HERE / "bodies" / "short.json"
    command = ("taskset", "-c", LOAD_CORE, folder / "load", *numbers, body, ours.TOKEN)
    return subprocess.Popen((*command, str(REQUESTS_S)), stdout=subprocess.PIPE)


def ask(folder: Path, port: int, *, seconds: float) -> dict[str, float]:
    said: dict[str, float] = json.loads(
        begin_asking(folder, port, seconds=seconds).communicate()[0]
    )
    return said


async def longest_steps(
    admin: "Redis[bytes]", publish: Callable[[int], None], *, swaps: int
) -> Sequence[float]:
    """The longest time that each swap let nothing else run, in milliseconds of CPU time."""
    loop, steps = asyncio.get_running_loop(), []
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    fleet = FleetRegistry(origin_of=connections.origin_of, data_key=ours.DATA_KEY)
    holder = SnapshotHolder(ours.DATA_KEY)
    holder.subscribe(fleet.apply_snapshot)
    await holder.take(Published(admin))

    longest = last_s = 0.0
    timer: asyncio.Handle | None = None

    def turn() -> None:
        nonlocal longest, last_s, timer
        now_s = time.thread_time()
        longest, last_s = max(longest, now_s - last_s), now_s
        timer = loop.call_soon(turn)

    for number in range(swaps):
        publish(1_000 + number)
        longest, last_s = 0.0, time.thread_time()
        turn()
        assert await holder.take(Published(admin))
        assert timer is not None
        timer.cancel()
        steps.append(longest * 1e3)
    return steps


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--routes", type=int, default=1_000)
    parser.add_argument("--swaps", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
