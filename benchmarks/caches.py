"""Answers from caches against a worker's, and against LiteLLM's caches: in one run, on one core.

    .venv/bin/python -m benchmarks.caches [--seconds 4] [--only miss,local]

Who is measured has core 0 to itself; load generator, mock workers and stores have core 1. All send
the same 2 KB chat over and over. `miss` is this gateway without a policy, `local` a hit in its
memory, `store` a hit in the cache store alone; `litellm-memory` and `litellm-redis` are LiteLLM's
two, over the same store. LiteLLM is left out unless `python -m benchmarks.gateway --installs` finds
it.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from benchmarks.gateway import ours
from benchmarks.gateway.loads import Load, Result, compile_programs, mock_workers, run
from benchmarks.gateway.peers import PEERS, Place
from benchmarks.gateway.processes import NotStarted, free_ports, pinned, wait_for
from controlplane.local.valkey import find_binary
from inference.contract.kinds import CacheTier
from inference.contract.snapshot import CachePolicyRecord

GATEWAY_CORE, LOAD_CORE = "0", "1"
LOADS = (Load("1 at once", "short", 1), Load("64 at once", "short", 64))
_CACHE_URL = "HEADWORKS_CACHE_URL"
_LITELLM = next(peer for peer in PEERS if peer.name == "litellm")
_MEMORY = "\n  cache: true\n  cache_params: {type: local}\n"
_REDIS = "\n  cache: true\n  cache_params: {{type: redis, host: 127.0.0.1, port: {port}}}\n"

Started = Callable[[Place, int], Iterator[tuple[int, str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default=",".join(CONTENDERS))
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    print(f"{'':16} {'':12} {'p50':>9} {'p99':>9} {'a second':>9} {'CPU µs':>7} {'failed':>6}")
    with tempfile.TemporaryDirectory(prefix="headworks-benchmark-") as name, ExitStack() as stack:
        folder = Path(name)
        compile_programs(folder)
        first_port, store_port = free_ports(4), free_ports(1)
        stack.enter_context(mock_workers(folder, first_port, core=LOAD_CORE))
        stack.enter_context(_cache_store(folder, store_port))
        for contender in arguments.only.split(","):
            if contender.startswith("litellm") and _LITELLM.found() is None:
                continue
            workers = range(first_port, first_port + 4)
            place = Place(free_ports(1), workers, folder / contender)
            with CONTENDERS[contender](place, store_port) as (pid, key):
                for load in LOADS:
                    result = run(
                        load,
                        programs=folder,
                        port=place.port,
                        key=key,
                        seconds=arguments.seconds,
                        core=LOAD_CORE,
                        pid=pid,
                    )
                    _show(contender, load, result)


def _show(contender: str, load: Load, result: Result) -> None:
    print(
        f"{contender:16} {load.name:12} {result.p50:7.0f}µs {result.p99:7.0f}µs "
        f"{result.rate:9,.0f} {result.cpu:7.0f} {result.failed:6}",
        flush=True,
    )


@contextmanager
def _cache_store(folder: Path, port: int) -> Iterator[None]:
    command = (find_binary(), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder)
    limits = ("--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lfu")
    with pinned([*map(str, command), *limits], core=LOAD_CORE, log=folder / "cache.log"):
        with Redis.from_url(f"redis://127.0.0.1:{port}") as client:
            wait_for(lambda: _answers(client), "the cache store")
        yield


def _answers(client: "Redis[bytes]") -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


def _wait_long(condition: Callable[[], bool]) -> None:
    """Wait three times as long as for others: LiteLLM takes a minute on a busy core."""
    for _ in range(2):
        with suppress(NotStarted):
            return wait_for(condition, "LiteLLM")
    return wait_for(condition, "LiteLLM")


@contextmanager
def _headworks(place: Place, store_port: int, *tiers: CacheTier) -> Iterator[tuple[int, str]]:
    """This gateway, whose route has a policy of these tiers; none is no policy."""
    os.environ[_CACHE_URL] = f"redis://127.0.0.1:{store_port}"
    place.folder.mkdir()
    policy = CachePolicyRecord("cch_a", "org_a", "all", tiers=tiers, stores_sampled=True)
    with ours.store(place.folder, core=LOAD_CORE) as path, ours.recording(path) as admin:
        changes: dict[str, tuple[object, ...]] = {}
        if tiers:
            [route] = ours.routes_over(place.workers)
            changes = {"routes": (replace(route, cache_policy_id="cch_a"),), "caches": (policy,)}
        ours.publish(admin, place.workers, changes=changes)
        with ours.running(place.port, path, place.folder, core=GATEWAY_CORE) as pid:
            log = place.folder / "gateway.log"
            wait_for(lambda: log.read_bytes().count(ours.ACCEPTING) == 1, "the gateway")
            yield pid, ours.TOKEN
    del os.environ[_CACHE_URL]


@contextmanager
def _litellm(place: Place, settings: str) -> Iterator[tuple[int, str]]:
    """LiteLLM with these settings of its cache."""
    program = _LITELLM.found()
    assert program is not None
    place.folder.mkdir()
    path = place.filled("litellm.yaml")
    path.write_text(
        path.read_text().replace(
            "litellm_settings: {set_verbose: false, drop_params: "
            "false, num_retries: 0, telemetry: false}",
            "litellm_settings:\n  num_retries: 0" + settings,
        )
    )
    listen = ("--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1")
    command = (program, "--config", path, *listen, "--telemetry", "False")
    log = place.folder / "output.log"
    with pinned(command, core=GATEWAY_CORE, log=log, folder=place.folder) as pid:
        _wait_long(lambda: b"Uvicorn running" in log.read_bytes())
        yield pid, _LITELLM.key


CONTENDERS = {
    "miss": lambda place, port: _headworks(place, port),
    "local": lambda place, port: _headworks(place, port, CacheTier.LOCAL),
    "store": lambda place, port: _headworks(place, port, CacheTier.SHARED),
    "litellm-memory": lambda place, _: _litellm(place, _MEMORY),
    "litellm-redis": lambda place, port: _litellm(place, _REDIS.format(port=port)),
}

if __name__ == "__main__":
    main()
