"""What a request needs of the process it is served by, handed to it as one value."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inference.caches.chain import Caches
from inference.contract.events import Numbered, Opening
from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.groundwork import Groundwork
from inference.fleet.registry import FleetRegistry
from inference.gateway.auth import Proofs
from inference.gateway.deadlines import Deadlines
from inference.gateway.dispatch import Dispatcher
from inference.gateway.tracing import NoTraces, Traces
from inference.gateway.traffic import TrafficCounter
from inference.limits.limiter import Limiter
from inference.observability.metrics import GatewayMetrics
from inference.queues.ladders import Ladders
from inference.queues.room import WaitingRoom
from inference.workers.registry import OFFERS


class Snapshots(Protocol):
    """Where the configuration is found; None until there is one."""

    @property
    def current(self) -> ConfigSnapshot | None: ...


class StateStore(Protocol):
    """What is known of the state store: whether its last call was answered."""

    @property
    def is_up(self) -> bool: ...


class Grounds:
    """The groundwork of the plans of the snapshot that is current."""

    __slots__ = ("_ground", "_snapshot")

    def __init__(self) -> None:
        self._snapshot: ConfigSnapshot | None = None
        self._ground: Groundwork | None = None

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Begin anew, so that nothing of an old snapshot is kept; a listener of the holder."""
        self._snapshot, self._ground = snapshot, None

    def of(self, snapshot: ConfigSnapshot, now: float) -> Groundwork:
        """What plans under this snapshot have in common now; it may be older than the current."""
        ground = self._ground
        if snapshot is self._snapshot and ground is not None and ground.since <= now < ground.until:
            return ground
        ground = Groundwork(snapshot, OFFERS, now)
        if snapshot is self._snapshot:
            self._ground = ground
        return ground


class Books(Protocol):
    """Where events are written first. Who waits for it meets JournalUnavailable if nothing was."""

    def open(self, opening: Opening) -> Awaitable[object]: ...

    def close(self, end: Numbered) -> Awaitable[object]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One process's parts. `clock` gives epoch seconds, `chance` numbers in [0, 1).

    `stopwatch` gives the seconds that durations are taken by: uvloop's own time moves a
    millisecond at a time, which is longer than what a gateway adds.

    `random_bits(n)` gives n random bits, `gateway` names this process in events.
    """

    snapshots: Snapshots
    state_store: StateStore
    fleet: FleetRegistry
    dispatcher: Dispatcher
    limiter: Limiter
    waiting: WaitingRoom
    ladders: Ladders
    books: Books
    metrics: GatewayMetrics
    traffic: TrafficCounter
    traces: Traces = field(default_factory=NoTraces)
    caches: Caches | None = None
    grounds: Grounds = field(default_factory=Grounds)
    deadlines: Deadlines = field(default_factory=Deadlines)
    peppers: Mapping[int, bytes] = field(repr=False)
    proofs: Proofs = field(default_factory=Proofs, repr=False)
    body_limit_bytes: int
    gateway: str
    clock: Callable[[], float]
    stopwatch: Callable[[], float]
    chance: Callable[[], float]
    random_bits: Callable[[int], int]

    @property
    def is_draining(self) -> bool:
        """Whether the configuration wants this gateway to be sent nothing new."""
        snapshot = self.snapshots.current
        if snapshot is None or not snapshot.gateways:
            return False
        record = snapshot.gateways.get(gateway_of(self.gateway))
        return record is not None and record.is_drained


def process_name(gateway: str, slot: int) -> str:
    """What one of a gateway's processes is called."""
    return f"{gateway}/{slot}"


def gateway_of(process: str) -> str:
    """The gateway a process belongs to."""
    return process.rpartition("/")[0]
