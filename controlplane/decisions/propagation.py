"""Which gateways there are, which live, and which run the current version.

A gateway is a parent with its children. It lives if every child that was seen lately has a record,
and it has applied a version if every child has. One that signed off at a clean stop isn't counted;
one that fell silent is, for as long as it counts as seen.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Vitals


class DrainState(StrEnum):
    """Whether a gateway serves, as it says itself; drained ones have nothing under way."""

    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    """One gateway. `lineage` and `version` are the oldest that any of its live children runs on.

    `as_of` is when any of them last wrote. A refusal is the newest version that a child refused.
    `restart_generation` is the oldest that a live child was started for, `inflight` the requests
    that all of them have under way, with those still being sent; None without a live child.
    """

    name: str
    children_live: int
    children_seen: int
    lineage: str | None
    version: int | None
    refused_version: int | None
    refused_why: str | None
    is_applied: bool
    as_of: datetime
    children_draining: int
    inflight: int | None
    restart_generation: int | None

    @property
    def is_live(self) -> bool:
        return self.children_live == self.children_seen

    @property
    def is_draining(self) -> bool | None:
        """Whether every live child says that it wants no more; None without a live one."""
        return self.children_draining == self.children_live if self.children_live else None

    def drain_state(self, *, is_wanted: bool) -> DrainState:
        """How far a drain has come; `is_wanted` is whether the configuration asks for one.

        While processes are replaced one after another, those that go say that they drain; as long
        as another doesn't, the gateway serves.
        """
        if not self.children_live:
            return DrainState.UNKNOWN
        if not is_wanted:
            return DrainState.DRAINING if self.is_draining else DrainState.SERVING
        is_done = self.is_live and self.is_draining and self.inflight == 0
        return DrainState.DRAINED if is_done else DrainState.DRAINING

    @property
    def refused_at(self) -> str | None:
        """Where the refused version is at fault; what is wrong there may name others' rows."""
        return None if self.refused_why is None else self.refused_why.partition(": ")[0]


@dataclass(frozen=True, slots=True)
class PartlySilent:
    """A gateway that is missing for some of its processes, while others report and serve."""

    name: str
    children_live: int
    children_seen: int

    @property
    def words(self) -> str:
        """Say it: `vm-1: 1 of 2 processes is silent`."""
        silent = self.children_seen - self.children_live
        verb = "is" if silent == 1 else "are"
        return f"{self.name}: {silent:,} of {self.children_seen:,} processes {verb} silent"


@dataclass(frozen=True, slots=True)
class Propagation:
    """The version the store holds, None if it holds none, and how far it came."""

    lineage: str | None
    version: int | None
    gateways: Sequence[GatewayFacts]

    @property
    def seen(self) -> int:
        """N: the gateways there are, living or missed."""
        return len(self.gateways)

    @property
    def live(self) -> int:
        return sum(one.is_live for one in self.gateways)

    @property
    def applied(self) -> int:
        """n: the gateways that live and run on the version the store holds, or a newer one."""
        return sum(one.is_applied for one in self.gateways)

    @property
    def missing(self) -> Sequence[str]:
        return tuple(one.name for one in self.gateways if not one.is_live)

    @property
    def partly(self) -> Sequence[PartlySilent]:
        """Those of the missing that still have a process that reports."""
        return tuple(
            PartlySilent(one.name, one.children_live, one.children_seen)
            for one in self.gateways
            if 0 < one.children_live < one.children_seen
        )

    def applied_at(self, version: int) -> int:
        """How many live gateways run on this version of the store's lineage, or a newer one."""
        return sum(
            one.is_live
            and one.lineage == self.lineage
            and one.version is not None
            and one.version >= version
            for one in self.gateways
        )


def propagation_of(
    current: tuple[str, int] | None, seen: Mapping[str, float], vitals: Iterable[Vitals]
) -> Propagation:
    """Judge the fleet by when each process last wrote, and by the records that still live.

    `seen` is by the store's clock; a process's own may be wrong.
    """
    records = {one.process: one for one in vitals if one.role is ProcessRole.GATEWAY}
    written = {name: at for name, at in seen.items() if _gateway_of(name) is not None}
    written = {name: one.written_at for name, one in records.items()} | written
    children: dict[str, list[str]] = defaultdict(list)
    for process in sorted(written):
        owner = records[process].gateway if process in records else _gateway_of(process)
        children[owner or process].append(process)
    lineage, version = current or (None, None)
    return Propagation(
        lineage,
        version,
        tuple(
            _gateway(name, processes, current, written, records)
            for name, processes in sorted(children.items())
        ),
    )


MISSED_S = 3_600
"""So long is a gateway missed that didn't sign off; then nobody knows whether it was taken away."""

_TOLD_S = 1_800
"""So long is told of one that was given up; longer than it takes an alert to end."""


@dataclass(frozen=True, slots=True)
class Silences:
    """Gateways that are missed, and those that were given up lately and are not back."""

    silent: Sequence[str]
    forgotten: Sequence[str]


def silences_of(now_s: float, seen: Mapping[str, float], vitals: Iterable[Vitals]) -> Silences:
    """Who is silent; `seen` is when each process last wrote, by the store's clock, as `now_s` is.

    A gateway is silent if one of its processes is. Who signs off is not in `seen`.
    """
    records = tuple(vitals)
    fresh = {name: at for name, at in seen.items() if at >= now_s - MISSED_S}
    there = propagation_of(None, fresh, records)
    known = {one.name for one in there.gateways}
    gone = {
        owner
        for name, at in seen.items()
        if now_s - MISSED_S - _TOLD_S <= at < now_s - MISSED_S
        and (owner := _gateway_of(name)) is not None
    }
    return Silences(tuple(there.missing), tuple(sorted(gone - known)))


def _gateway_of(process: str) -> str | None:
    """The gateway in the name `<gateway>/<slot>`; None for other processes."""
    gateway, _, slot = process.rpartition("/")
    return gateway if gateway and slot.isdecimal() else None


def _under_way(record: Vitals) -> int:
    """Requests of one process; one of an earlier release tells only of those at workers."""
    return max(record.requests, sum(record.inflight.values()))


def _gateway(
    name: str,
    processes: Sequence[str],
    current: tuple[str, int] | None,
    written: Mapping[str, float],
    records: Mapping[str, Vitals],
) -> GatewayFacts:
    live = [records[process] for process in processes if process in records]
    versions = [(one.applied.lineage or "", one.applied.version or 0) for one in live]
    lineage, version = min(versions, default=("", 0))
    refused = max(
        (one.applied for one in live if one.applied.refused_why is not None),
        key=lambda applied: applied.refused_version or 0,
        default=None,
    )
    is_live = len(live) == len(processes)
    return GatewayFacts(
        name=name,
        children_live=len(live),
        children_seen=len(processes),
        lineage=lineage or None,
        version=version or None,
        refused_version=refused.refused_version if refused else None,
        refused_why=refused.refused_why if refused else None,
        is_applied=is_live and current is not None and (lineage, version) >= current,
        as_of=datetime.fromtimestamp(max(written[process] for process in processes), UTC),
        children_draining=sum(one.is_draining for one in live),
        inflight=sum(map(_under_way, live)) if live else None,
        restart_generation=min((one.restart_generation for one in live), default=None),
    )
