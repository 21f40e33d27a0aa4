"""What becomes of processes that others keep: gateway processes and workers, told at the terminal.

Their keepers write it into their logs, which are ours: once a second what these have gained is
looked through. That costs two calls of the system as long as nothing was written.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from controlplane.local.places import Places, size_of
from controlplane.local.terminal import Terminal

PERIOD_S = 1.0

_MOST_BYTES = 1 << 20
"""Of a log that gains more than this in a period the newest part alone is looked through."""

_GATEWAY_DIED, _GATEWAY_ACCEPTS = "gateway process died", "accepting requests"
_WORKER_CHANGED = "worker changed"
_LOST, _READY = ("failed", "backing_off"), "ready"


class Teller(Protocol):
    """Makes a sentence of a line of a log, or None of most of them."""

    def tell(self, line: Mapping[str, Any]) -> str | None: ...


@dataclass(slots=True)
class GatewayNews:
    """Gateway processes by the parent's log, in which their own lines stand as well."""

    log: Path
    _lost: set[str] = field(default_factory=set)

    def tell(self, line: Mapping[str, Any]) -> str | None:
        if line["event"] == _GATEWAY_DIED:
            slot = str(line.get("slot"))
            self._lost.add(slot)
            told = f"gateway process {slot} ended ({line.get('code')})"
            return f"{told}; again in {line.get('restart_in_s')} s; log: {self.log}"
        slot = str(line.get("process")).rpartition("/")[2]
        if line["event"] != _GATEWAY_ACCEPTS or slot not in self._lost:
            return None
        self._lost.discard(slot)
        return f"gateway process {slot} is back"


@dataclass(slots=True)
class WorkerNews:
    """Workers by the supervisor's log: those that failed or ended unasked, and their return."""

    log: Path
    _lost: set[str] = field(default_factory=set)

    def tell(self, line: Mapping[str, Any]) -> str | None:
        if line["event"] != _WORKER_CHANGED:
            return None
        name, state = str(line.get("worker_id")), str(line.get("state"))
        if state in _LOST:
            self._lost.add(name)
            why = f": {line['detail']}" if line.get("detail") else ""
            return f"worker {name} {state.replace('_', ' ')}{why}; log: {self.log}"
        if state != _READY or name not in self._lost:
            return None
        self._lost.discard(name)
        return f"worker {name} is back"


@dataclass(slots=True)
class Gains:
    """What a log gains, by whole lines."""

    log: Path
    position: int = field(init=False)

    def __post_init__(self) -> None:
        self.position = size_of(self.log)

    def take(self) -> list[bytes]:
        """The lines since the last call; none of a log that was set aside meanwhile."""
        size = size_of(self.log)
        if size <= self.position:
            self.position = size
            return []
        since = max(self.position, size - _MOST_BYTES)
        try:
            with self.log.open("rb") as file:
                file.seek(since)
                whole, newline, _ = file.read(size - since).rpartition(b"\n")
        except OSError:
            # news are no reason to end an installation, and the next period looks again
            return []
        self.position = since + len(whole) + len(newline)
        return whole.splitlines()


def line_of(text: bytes) -> Mapping[str, Any] | None:
    """A structured line; None of anything else."""
    if not text.startswith(b"{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found else None


async def tell_news(places: Places, terminal: Terminal) -> None:
    """Tell from now on, until cancelled, which gateway process or worker ends and which returns."""
    tellers: list[tuple[Gains, Teller]] = [
        (Gains(log := places.log("gateway")), GatewayNews(log)),
        (Gains(log := places.log("pools")), WorkerNews(log)),
    ]
    while True:
        await asyncio.sleep(PERIOD_S)
        for gains, teller in tellers:
            for text in await asyncio.to_thread(gains.take):
                line = line_of(text)
                told = None if line is None else teller.tell(line)
                if told is not None:
                    terminal.say(told)
