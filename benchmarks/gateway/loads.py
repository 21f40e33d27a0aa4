"""One run of the load generator against one port, and what it cost the process behind it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway.processes import cpu_s, pinned

HERE = Path(__file__).parent
WORKERS = 4
STREAM_CHUNKS = 100
STREAM_GAP_MS = 20


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked: a body by so many connections at once.

    `times` are which of the load generator's are told: "p" of whole answers, of a stream's chunks
    "relay" or what is "added" to the time between two.
    """

    name: str
    body: str
    connections: int
    times: str = "p"

    @property
    def is_stream(self) -> bool:
        return self.times != "p"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. Times are microseconds; `cpu` is of a request, or of a chunk in streams.

    `requests` is how many were asked, those of the warming up among them.
    """

    rate: float
    cpu: float
    p50: float
    p99: float
    failed: int
    requests: int


RATES = (Load("2 KB, 64 at once", "short", 64), Load("20 KB, 64 at once", "long", 64))
LATENCIES = tuple(Load(f"2 KB, {count} at once", "short", count) for count in (1, 16, 128))
STREAMS = (Load("streams, 256 at once", "stream", 256, "relay"),)
TOKENS = (Load("1,000 streams at 20 tokens/s, time added between two", "tokens", 1_000, "added"),)


def compile_programs(folder: Path) -> None:
    """Build the load generator and the mock."""
    for name in ("load", "mock"):
        source = HERE / f"{name}.c"
        subprocess.run(["gcc", "-O2", "-o", folder / name, source], check=True)


@contextmanager
def mock_workers(folder: Path, first_port: int, *, core: str) -> Iterator[int]:
    """The mock on four ports from this one on."""
    numbers = (first_port, WORKERS, STREAM_CHUNKS, STREAM_GAP_MS * 1000)
    command = (folder / "mock", *map(str, numbers))
    with pinned(command, core=core, log=folder / "mock.log") as pid:
        yield pid


def run(
    load: Load, *, programs: Path, port: int, key: str, seconds: float, core: str, pid: int | None
) -> Result:
    """Ask for so long, after a fifth of that for warming up; `pid` is whose time is taken."""
    body = HERE / "bodies" / f"{load.body}.json"
    numbers = (port, load.connections, seconds, seconds / 5)
    before = 0.0 if pid is None else cpu_s(pid)
    command = ("taskset", "-c", core, programs / "load", *map(str, numbers), body, key)
    done = subprocess.run(command, check=True, capture_output=True)
    spent = 0.0 if pid is None else cpu_s(pid) - before
    said = json.loads(done.stdout)
    count = said["allchunks"] if load.is_stream else said["all"]
    return Result(
        rate=said["chunks_s"] if load.is_stream else said["rps"],
        cpu=spent / max(count, 1) * 1e6,
        p50=said[f"{load.times}50"],
        p99=said[f"{load.times}99"],
        failed=said["err"] + said["bad"],
        requests=said["all"],
    )
