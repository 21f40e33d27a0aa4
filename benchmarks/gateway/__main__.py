"""This gateway against its peers, in one run on one core: `python -m benchmarks.gateway`.

    .venv/bin/python -m benchmarks.gateway [--peers nginx,vllm-router] [--seconds 5] [--rounds 3]
    .venv/bin/python -m benchmarks.gateway --installs
    .venv/bin/python -m benchmarks.gateway --before ../other-tree --processes 2 --peers ''
    .venv/bin/python -m benchmarks.gateway --reservations --only rates,streams --peers ''

Each gateway has core 0 to itself while it is measured and is frozen otherwise; load generator, mock
workers and state store have core 1. They are measured in turn, forth and back (A B C C B A), and
medians are printed with their ratio to this gateway's. CPU is user and system time of the gateway's
processes for each request (in streams: for each chunk), which other load disturbs least.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

from redis import Redis

from benchmarks.gateway.loads import (
    LATENCIES,
    RATES,
    STREAMS,
    TOKENS,
    WORKERS,
    Load,
    Result,
    compile_programs,
    mock_workers,
    run,
)
from benchmarks.gateway.ours import RESERVING
from benchmarks.gateway.peers import PEERS, Contender, Headworks, Place
from benchmarks.gateway.processes import NotStarted, free_ports, freeze, thaw, wait_for
from benchmarks.gateway.store_calls import calls_of, told

GATEWAY_CORE, LOAD_CORE, BOTH_CORES = "0", "1", "0,1"
DIRECT = "direct"
RESERVED = "reserving"
LOADS = {"rates": RATES, "latencies": LATENCIES, "streams": STREAMS, "tokens": TOKENS}

Results = dict[tuple[str, str], list[Result]]
Calls = dict[tuple[str, str], Counter[str]]
"""What was asked of a contender's state store under a load, in all its turns."""


def main() -> None:
    arguments = _arguments()
    if arguments.installs:
        for peer in PEERS:
            print(f"{peer.name}: {'found' if peer.found() else peer.install}")
        return
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    names = [peer.name for peer in PEERS if peer.found()]
    if arguments.peers is not None:
        names = [name for name in arguments.peers.split(",") if name]
    contenders: list[Contender] = [Headworks(LOAD_CORE)]
    if arguments.before is not None:
        contenders.append(Headworks(LOAD_CORE, "before", root=arguments.before.resolve()))
    if arguments.processes > 1:
        name = f"{arguments.processes} processes"
        contenders.append(Headworks(LOAD_CORE, name, processes=arguments.processes))
    if arguments.reservations:
        contenders.append(Headworks(LOAD_CORE, RESERVED, changes=RESERVING))
    contenders += [peer for peer in PEERS if peer.name in names]
    loads = [load for kind in arguments.only.split(",") for load in LOADS[kind]]
    with tempfile.TemporaryDirectory(prefix="headworks-benchmark-") as folder:
        results, calls = measure(
            contenders, loads, Path(folder), seconds=arguments.seconds, rounds=arguments.rounds
        )
    show(results, loads)
    for (name, load), own in calls.items():
        thousands = sum(one.requests for one in results[name, load]) / 1_000
        print(f"\n{load}, {name}: of the store for 1,000 requests {told(own, thousands)}")


def measure(
    contenders: Sequence[Contender],
    loads: Sequence[Load],
    folder: Path,
    *,
    seconds: float,
    rounds: int,
) -> tuple[Results, Calls]:
    """Run every load against every contender, `rounds` times forth and back."""
    compile_programs(folder)
    results: Results = defaultdict(list)
    calls: Calls = defaultdict(Counter)
    stores: dict[str, Redis[bytes]] = {}
    first = free_ports(WORKERS)
    workers = range(first, first + WORKERS)
    with ExitStack() as stack:
        stack.enter_context(mock_workers(folder, first, core=LOAD_CORE))
        places: dict[str, tuple[int, str, int | None]] = {DIRECT: (first, "none", None)}
        for one in contenders:
            place = Place(free_ports(1), workers, folder / one.name)
            cores = BOTH_CORES if one.processes > 1 else GATEWAY_CORE
            pid = stack.enter_context(one.running(place, core=cores))
            try:
                wait_for(partial(_answers, place.port, one.key), one.name)
            except NotStarted as problem:
                print(f"left out: {problem}", file=sys.stderr, flush=True)
            else:
                places[one.name] = (place.port, one.key, pid)
                if isinstance(one, Headworks):
                    stores[one.name] = stack.enter_context(one.store(place))
            freeze(pid)
        for load in loads:
            for name in _turns(list(places), rounds):
                port, key, pid = places[name]
                asked = calls_of(stores[name]) if name in stores else Counter()
                if pid is not None:
                    thaw(pid)
                result = run(
                    load, programs=folder, port=port, key=key, seconds=seconds, core=LOAD_CORE,
                    pid=pid,
                )  # fmt: skip
                if pid is not None:
                    freeze(pid)
                if name in stores:
                    calls[name, load.name] += calls_of(stores[name]) - asked
                results[name, load.name].append(result)
                print(f"{load.name}: {name}: {result}", file=sys.stderr, flush=True)
    return results, calls


def show(results: Results, loads: Sequence[Load]) -> None:
    """Print medians, and each one's ratio to this gateway."""
    names = dict.fromkeys(name for name, _ in results)
    for load in loads:
        unit = "chunks/s" if load.is_stream else "requests/s"
        print(
            f"\n{load.name}\n{'':14}{unit:>12}{'CPU µs':>10}{'p50 ms':>10}{'p99 ms':>10}{'ours':>8}"
        )
        ours = median(one.rate for one in results["headworks", load.name])
        for name in names:
            runs = results[name, load.name]
            rate = median(one.rate for one in runs)
            cells = (
                f"{rate:12,.0f}{median(one.cpu for one in runs):10.1f}"
                f"{median(one.p50 for one in runs) / 1e3:10.2f}"
                f"{median(one.p99 for one in runs) / 1e3:10.2f}"
            )
            failed = sum(one.failed for one in runs)
            ratio = f"{ours / rate:8.2f}" if rate else f"{'-':>8}"
            print(f"{name:14}{cells}{ratio}{f'  {failed} failed' if failed else ''}")


def _turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    for number in range(rounds):
        yield from names if number % 2 == 0 else reversed(names)


def _answers(port: int, key: str) -> bool:
    body = (Path(__file__).parent / "bodies" / "short.json").read_bytes()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    asked = Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    try:
        with urlopen(asked, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="names, separated by commas; all found ones if not given")
    parser.add_argument("--before", type=Path, help="another tree of this project, as a peer")
    parser.add_argument(
        "--processes", type=int, default=1, help="this gateway with so many too, on both cores"
    )
    parser.add_argument(
        "--reservations", action="store_true", help="this gateway under budgets and limits too"
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default=",".join(LOADS), help="of " + ", ".join(LOADS))
    parser.add_argument("--installs", action="store_true", help="show how peers are installed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
