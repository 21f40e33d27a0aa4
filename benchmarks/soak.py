"""A soak: half an hour of mixed traffic with cancels and a kill a minute; then the books are read.

    make soak    or    .venv/bin/python -m benchmarks.soak [--minutes 30] [--rate 15]

A whole installation without an engine, in a temporary folder: two gateways of two processes each,
and two scripted upstreams that answer, fail, stall and break off at random and remember every call.
Afterwards: no counter is above zero, the memory of no process grew by more than 5 %, and the ledger
agrees with what the upstreams say they served.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.soak_books import Books, compare
from benchmarks.soak_load import Load, script
from benchmarks.soak_memory import Memory
from tests.faults.fleet import Gateway, descendants, environment_of
from tests.installation import (
    ROOT,
    Installation,
    free_port,
    processes_of,
    running_installation,
    wait_until,
)
from tests.upstream.fixtures import Upstream, running_upstream

ROUTE, EMBED_ROUTE = "soak", "soak-embed"
PRICE = {"input_nanousd_per_mtok": 3_000_000_000, "output_nanousd_per_mtok": 7_000_000_000}
SECOND_GATEWAY = "gw-second"
GATEWAY_PROCESS = "gateway process"
INFLIGHT = "headworks_gateway_inflight"
PAUSE_S = 5.0
SETTLE_S = 120.0


@dataclass(frozen=True, slots=True)
class Harm:
    """One thing done to one process: `is_pause` stops it for a while instead of killing it."""

    name: str
    words: tuple[str, ...]
    is_pause: bool = False


# Of a kind that has several processes the newest is hit, so that the oldest shows its memory.
HARMS = (
    Harm(GATEWAY_PROCESS, ("inference", "gateway-child")),
    Harm("recorder", ("record_usage",)),
    Harm("state store, stopped for a while", ("state.sock",), is_pause=True),
    Harm(GATEWAY_PROCESS, ("inference", "gateway-child")),
    Harm("supervisor", ("inference", "pools")),
    Harm("database, stopped for a while", ("postgres", "-D"), is_pause=True),
    Harm(GATEWAY_PROCESS, ("inference", "gateway-child")),
    Harm("feed", ("run_feed",)),
    Harm("state store", ("state.sock",)),
    Harm("jobs", ("celery",)),
)


def gateway_at(installation: Installation, name: str, port: int, admin_port: int) -> Gateway:
    where = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}"
    return Gateway(name, installation.var, *where, installation.demo["API_KEY"])


@contextmanager
def second_gateway(installation: Installation) -> Iterator[Gateway]:
    """Another gateway of two processes on the same stores and the same disk."""
    port, admin_port = free_port(), free_port()
    environment = {
        **environment_of(installation.find("inference", "gateway-child")[0]),
        "HEADWORKS_GATEWAY_ID": SECOND_GATEWAY,
        "HEADWORKS_GATEWAY_PORT": str(port),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(admin_port),
        "HEADWORKS_GATEWAY_PROCESSES": "2",
    }
    log = installation.var / "logs" / "second-gateway.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "inference", "gateway"],
            cwd=ROOT,
            env=environment,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        yield gateway_at(installation, SECOND_GATEWAY, port, admin_port)
    finally:
        process.terminate()
        process.wait(90)


def configure(installation: Installation, upstreams: Sequence[Upstream]) -> None:
    """A route for texts and one for embeddings, each over a pool for each upstream, at a price."""
    for route, task in ((ROUTE, "generate"), (EMBED_ROUTE, "embed")):
        model = installation.api("POST", "/models/", {"name": f"{route}-model", "task": task})
        prices = {name: str(value) for name, value in PRICE.items()}
        installation.api("POST", "/prices/", {"model": model["id"], **prices})
        pools = [f"{route}-{number}" for number in range(len(upstreams))]
        for name, upstream in zip(pools, upstreams, strict=True):
            installation.api("POST", "/pools/", pool_of(name, model["name"], upstream))
        installation.api(
            "POST",
            "/routes/",
            {
                "name": route,
                "targets": [{"pool": name, "weight": 1} for name in pools],
                "max_attempts": 3,
                "first_byte_timeout_ms": 3_000,
                "idle_timeout_ms": 3_000,
            },
        )


def pool_of(name: str, model: str, upstream: Upstream) -> dict[str, object]:
    """A static pool at an upstream."""
    kind = {"provisioner": "static", "backend": "vllm"}
    return {"name": name, "model": model, "addresses": [upstream.base_url], **kind}


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def processes_by_line(installation: Installation) -> dict[int, str]:
    """Every process and its command line; stores write over their environment, not their record."""
    found = processes_of(installation.var)
    for path in (installation.var / "run" / "groups").glob("valkey-*.json"):
        with suppress(FileNotFoundError, ValueError):
            pid = int(json.loads(path.read_text())["pid"])
            found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return found


def inflict(harm: Harm, installation: Installation) -> str:
    """Do one harm and say to whom."""
    running = processes_by_line(installation)
    found = [pid for pid, line in running.items() if all(word in line for word in harm.words)]
    found.sort(key=start_time)
    if not found:
        return f"{harm.name}: none runs"
    pid = found[0] if harm.is_pause else found[-1]
    if not harm.is_pause:
        _signal([pid], signal.SIGKILL)
        return f"killed the {harm.name} ({pid})"
    family = descendants(pid)
    _signal(family, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    _signal(family, signal.SIGCONT)
    return f"{harm.name} ({pid})"


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def soak(
    installation: Installation,
    load: Load,
    upstreams: Sequence[Upstream],
    *,
    minutes: float,
    memory: Memory,
    rng: random.Random,
) -> int:
    """Run traffic, change what the upstreams do every few seconds, and do one harm a minute.

    Returns how many gateway processes were killed.
    """
    end = time.monotonic() + minutes * 60
    stopped = threading.Event()
    runner = threading.Thread(target=load.run, args=(stopped,), daemon=True)
    runner.start()
    harms, kills, next_harm = 0, 0, time.monotonic() + 30
    while time.monotonic() < end:
        assert runner.is_alive(), "the callers have ended: nothing was soaked from here on"
        for upstream in upstreams:
            upstream.play(*script(rng))
        memory.sample(processes_by_line(installation))
        if time.monotonic() >= next_harm and end - time.monotonic() > 30:
            harm = HARMS[harms % len(HARMS)]
            said = inflict(harm, installation)
            kills += harm.name == GATEWAY_PROCESS
            print(f"{load.sent:>7} sent  {said}", flush=True)
            harms, next_harm = harms + 1, next_harm + 60
        time.sleep(5)
    for upstream in upstreams:
        upstream.play(script(rng)[-1])
    stopped.set()
    runner.join(120)
    assert not runner.is_alive(), "some callers still wait"
    return kills


def is_at_rest(gateways: Sequence[Gateway], upstreams: Sequence[Upstream]) -> bool:
    """Whether nothing is under way or counted anywhere, and every end went to the stream."""
    if any(upstream.report().open_calls for upstream in upstreams):
        return False
    return all((one.held(), one.backlog(), inflight(one)) == (0, 0, 0.0) for one in gateways)


def inflight(gateway: Gateway) -> float:
    """The gauge of requests under way, added up over the gateway's processes."""
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(INFLIGHT))


def report(load: Load, books: Books, memory: Memory, *, kills: int, minutes: float) -> bool:
    """Print what was found; False if anything is wrong."""
    print(load.summary())
    print(books.summary())
    print(memory.summary())
    faults = [*load.faults(kills=kills), *books.faults, *memory.faults(minutes)]
    for fault in faults[:50]:
        print(f"FAULT: {fault}")
    print("nothing is wrong" if not faults else f"{len(faults)} faults")
    return not faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=15, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headworks-soak-")))
        upstreams = [stack.enter_context(running_upstream()) for _ in range(2)]
        installation = stack.enter_context(
            running_installation(
                folder / "var",
                DEMO_ENGINE="none",
                DEMO_UPSTREAM_URL=upstreams[0].base_url,
                DEMO_UPSTREAM_KEY="none",
                GATEWAY_PROCESSES="2",
            )
        )
        second = stack.enter_context(second_gateway(installation))
        configure(installation, upstreams)
        first = first_gateway(installation)
        gateways = (first, second)
        load = Load(
            [one.url for one in gateways],
            installation.demo["API_KEY"],
            ROUTE,
            EMBED_ROUTE,
            rate=arguments.rate,
            seed=arguments.seed,
        )
        memory = Memory()
        wait_until(load.is_served, 30, "both gateways to serve the route")
        kills = soak(
            installation, load, upstreams, minutes=arguments.minutes, memory=memory, rng=rng
        )
        wait_until(lambda: is_at_rest(gateways, upstreams), SETTLE_S, "all to come to rest")
        wait_until(lambda: is_recorded(installation), SETTLE_S, "the ledger to have everything")
        books = compare(database_of(installation), upstreams, load, price=PRICE)
        is_well = report(load, books, memory, kills=kills, minutes=arguments.minutes)
    sys.exit(0 if is_well else 1)


def first_gateway(installation: Installation) -> Gateway:
    """The gateway that the launcher keeps."""
    ports = (
        installation.settings[f"HEADWORKS_{name}_PORT"] for name in ("GATEWAY", "GATEWAY_ADMIN")
    )
    return gateway_at(installation, "first", *map(int, ports))


def is_recorded(installation: Installation) -> bool:
    """Whether no journal waits to be adopted or to be marked, and the recorder misses nothing."""
    parts = installation.api("GET", "/system/")["parts"]
    (recorder,) = [part for part in parts if part["name"] == "recorder"]
    waits = (recorder["facts"][name] for name in ("stream_entries", "missing_events"))
    journals = list(installation.var.glob("journals/jnl_*"))
    return not any(waits) and len(journals) == len(installation.find("gateway-child"))


def database_of(installation: Installation) -> str:
    recorder = installation.find("record_usage")[0]
    settings: Mapping[str, Any] = environment_of(recorder)
    return str(settings["HEADWORKS_DATABASE_URL"])


if __name__ == "__main__":
    main()
