"""What the data plane says of itself: the directory of workers and every live vitals record.

A read takes a second at most and changes nothing. A record that can't be read is logged and passed
over: a page about trouble must not fail on it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from controlplane.bridge.store import open_store
from controlplane.decisions.propagation import (
    Propagation,
    Silences,
    propagation_of,
    silences_of,
)
from inference.contract import codec, sealing, wire
from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import ProcessRole, WorkerState
from inference.contract.vitals import GATEWAY_SEEN_S, Applied, Vitals

_SCAN_COUNT = 1_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet at one moment. `workers` is None if the directory can't be read, () if none is."""

    workers: tuple[WorkerEntry, ...] | None
    vitals: tuple[Vitals, ...]
    has_leader: bool

    @property
    def gateways(self) -> tuple[Vitals, ...]:
        """The records of the processes that serve requests."""
        return tuple(one for one in self.vitals if one.role is ProcessRole.GATEWAY)


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker as the directory has it; `inflight` is summed over the live gateways.

    `inflight_at` are the gateways that have anything under way there. `detail` and what is in
    flight are None to who may not know of others' traffic.
    """

    id: str
    state: WorkerState
    detail: str | None
    restarts: int
    base_url: str
    changed_at: datetime
    inflight: int | None
    inflight_at: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Reports:
    """Every living record of a process that was seen lately, and what they make of the fleet."""

    vitals: tuple[Vitals, ...]
    propagation: Propagation


def read_reports() -> Reports | None:
    """Read all that live figures are made of, in two calls; None when the store doesn't answer."""
    try:
        with open_store() as store:
            with store.pipeline(transaction=False) as pipe:
                pipe.hmget(wire.MANIFEST, "lineage", "version")
                pipe.time()
                pipe.zrange(wire.SEEN, 0, -1, withscores=True)
                (lineage, version), (seconds, _), seen = pipe.execute()
            since = seconds - GATEWAY_SEEN_S
            written = {name.decode(errors="replace"): at for name, at in seen if at >= since}
            vitals, unreadable = _records(store, [wire.vitals_key(name) for name in written])
    except (RedisError, OSError) as error:
        # some ask once a second: `read_fleet` warns, for pages and jobs
        log.debug("state store not answering about live figures", error=type(error).__name__)
        return None
    if unreadable:
        log.debug("vitals unusable", keys=sorted(unreadable))
    current = None if lineage is None or version is None else (lineage.decode(), int(version))
    return Reports(vitals, propagation_of(current, written, vitals))


def read_silences() -> Silences | None:
    """Which gateways are silent now; None if the store doesn't answer or nobody ever reported."""
    try:
        with open_store() as store:
            seconds, micros = store.time()
            written = store.zrange(wire.SEEN, 0, -1, withscores=True)
            seen = {name.decode(errors="replace"): at for name, at in written}
            vitals, _ = _records(store, [wire.vitals_key(name) for name in seen])
    except (RedisError, OSError) as error:
        log.warning("state store not answering about gateways", error=type(error).__name__)
        return None
    return silences_of(seconds + micros / 1e6, seen, vitals) if seen else None


def read_propagation() -> Propagation | None:
    """How far the current version came, gateway by gateway; None if the store doesn't answer."""
    reports = read_reports()
    return reports.propagation if reports else None


def read_fleet() -> Fleet | None:
    """Read directory, vitals and the leader's lease; None when the store doesn't answer."""
    try:
        with open_store() as store:
            sealed = store.hget(wire.DIRECTORY, "sealed")
            has_leader = store.exists(wire.LEADER) == 1
            vitals = _vitals(store)
    except (RedisError, OSError) as error:
        log.warning("state store not answering about the fleet", error=type(error).__name__)
        return None
    return Fleet(_workers(sealed), vitals, has_leader)


def place_of_refusal(applied: Applied) -> str:
    """Where a refused version is at fault; what's wrong there may name things, and stays out."""
    return (applied.refused_why or "").partition(": ")[0]


def workers_of(fleet: Fleet, pool_id: str, *, is_whole: bool) -> Sequence[WorkerFacts]:
    """The workers of a pool the caller may see; `is_whole` is whether he reads its organisation."""
    found = []
    for worker in fleet.workers or ():
        if worker.pool_id != pool_id:
            continue
        held = inflight_at(fleet, worker.id) if is_whole else None
        found.append(
            WorkerFacts(
                id=worker.id,
                state=worker.state,
                detail=worker.detail if is_whole else None,
                restarts=worker.restarts,
                base_url=worker.base_url,
                changed_at=datetime.fromtimestamp(worker.changed_at, UTC),
                inflight=None if held is None else sum(held.values()),
                inflight_at=held,
            )
        )
    return found


def inflight_at(fleet: Fleet, worker_id: str) -> Mapping[str, int]:
    """How many requests each gateway has under way at a worker; those without any are left out."""
    counts: Counter[str] = Counter()
    for one in fleet.gateways:
        counts[one.gateway] += one.inflight.get(worker_id, 0)
    return {name: count for name, count in sorted(counts.items()) if count}


def _workers(sealed: bytes | None) -> tuple[WorkerEntry, ...] | None:
    if sealed is None:
        return ()
    try:
        opened = sealing.unseal(settings.HEADWORKS.data_key_bytes, sealed)
        return codec.decode_directory(opened).workers
    except (sealing.SealError, codec.CodecError) as error:
        log.error("directory unusable", error=repr(error))
        return None


def _vitals(store: Redis) -> tuple[Vitals, ...]:
    """Every record, by process."""
    keys = sorted(store.scan_iter(f"{wire.VITALS_PREFIX}*", count=_SCAN_COUNT))
    found, unreadable = _records(store, [key.decode(errors="replace") for key in keys])
    for key, error in unreadable.items():
        log.warning("vitals unusable", key=key, error=error)
    return found


def _records(store: Redis, keys: Sequence[str]) -> tuple[tuple[Vitals, ...], Mapping[str, str]]:
    """The records under these keys that haven't expired, and why others can't be read."""
    found: list[Vitals] = []
    unreadable: dict[str, str] = {}
    for key, record in zip(keys, store.mget(keys) if keys else (), strict=True):
        if record is None:
            continue
        try:
            found.append(codec.decode_vitals(record))
        except codec.CodecError as error:
            unreadable[key] = repr(error)
    return tuple(found), unreadable
