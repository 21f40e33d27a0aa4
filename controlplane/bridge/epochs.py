"""What the state store and the gateways take for the newest configuration."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError

from controlplane.bridge.parts import (
    ADOPT,
    NEWER_KEY,
    NEWER_LIFE_S,
    advice_about,
    newer_told,
)
from controlplane.bridge.publisher import (
    Publication,
    Stored,
    is_foreign,
    publish,
    read_published,
    read_stored,
)
from controlplane.bridge.store import open_store
from controlplane.bridge.vitals import Fleet, read_fleet
from controlplane.decisions.epochs import Newer, PoolRestarts, Position, Restarts, find_newer
from controlplane.selectors.system import get_latest_version
from inference.contract import codec, sealing, wire

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Epochs:
    """Positions in the history, up to where each journal counts as recorded, and restarts."""

    stored: Stored | None
    applied: Sequence[Position]
    marks: Mapping[str, int] = field(default_factory=dict)
    restarts: Restarts = field(default_factory=Restarts)

    @property
    def known(self) -> Sequence[Position]:
        """Every position that somebody holds."""
        return (*self.applied, *((self.stored.position,) if self.stored else ()))

    @property
    def newer(self) -> Newer | None:
        """Who is ahead of the database, if anybody is."""
        # ours is read last: an edit that is made meanwhile is not ahead of itself
        return _compared(get_latest_version(), self.stored, self.applied)


def read_epochs() -> Epochs:
    """Ask store and gateways. Raises RedisError."""
    with open_store() as store:
        stored = read_stored(store)
        marks = {
            journal.decode(errors="replace"): int(mark)
            for journal, mark in store.hgetall(wire.JOURNAL_MARKS).items()
            if mark.isdigit()
        }
        pools = None if stored is None else _pool_restarts(store, stored)
    fleet = read_fleet()
    gateways: dict[str, int] = {}
    for one in fleet.gateways if fleet else ():
        gateways[one.gateway] = max(one.restart_generation, gateways.get(one.gateway, 0))
    return Epochs(stored, _applied(fleet), marks, Restarts(gateways, pools))


def _pool_restarts(store: Redis, stored: Stored) -> Mapping[str, PoolRestarts] | None:
    """The counts of the published pools, None if they can't be read."""
    try:
        records = read_published(store, stored, "pools")
    except (sealing.SealError, codec.CodecError) as error:
        log.warning("published pools unusable", error=repr(error))
        return None
    if records is None:
        return None
    return {
        record.id: PoolRestarts(record.restart_generation, record.worker_restarts)
        for record in records
    }


def read_newer() -> Newer | None:
    """Who is ahead of the database, if anybody is. Raises RedisError."""
    with open_store() as store:
        stored = read_stored(store)
    return Epochs(stored, _applied(read_fleet())).newer


@dataclass(frozen=True, slots=True)
class Others:
    """What others than the database had at one moment: the store, and whom the sweep found."""

    stored: Stored | None = None
    told: Newer | None = None


def read_others() -> Others:
    """Ask the store, and gateways by the word that the sweep left.

    Nobody has anything when the store doesn't answer: what is edited meanwhile is compared when it
    comes back.
    """
    try:
        with open_store() as store:
            stored, word = read_stored(store), store.get(NEWER_KEY)
    except (RedisError, OSError):
        return Others()
    return Others(stored, newer_told(word))


def advice_if_behind(ours: Position, others: Others) -> str | None:
    """What to do where somebody is ahead of a version that an edit is about to follow."""
    told = [] if others.told is None else [(others.told.lineage, others.told.version)]
    newer = _compared(ours, others.stored, told)
    return None if newer is None else advice_about(newer)


def _compared(
    ours: Position | None, stored: Stored | None, applied: Sequence[Position]
) -> Newer | None:
    if stored is None:
        return find_newer(ours, None, applied)
    differs = ours is not None and is_foreign(stored, ours[0])
    return find_newer(ours, stored.position, applied, is_foreign=differs)


def sweep() -> Publication:
    """Publish what the store lacks; leave word for the status page if the database is behind."""
    result = publish()
    if result in (Publication.UNAVAILABLE, Publication.NOTHING):
        return result
    try:
        newer = read_newer()
        with open_store() as store:
            _leave_word(store, newer)
    except (RedisError, OSError) as error:
        log.warning("state store went away in the middle of a sweep", error=type(error).__name__)
    return result


def _applied(fleet: Fleet | None) -> Sequence[Position]:
    """What the live gateways run."""
    told = [one.applied for one in fleet.gateways] if fleet else []
    return [(one.lineage, one.version) for one in told if one.lineage and one.version]


def _leave_word(store: Redis, newer: Newer | None) -> None:
    """Say it, or take the word back: it goes by itself when nobody sweeps."""
    if newer is None:
        store.delete(NEWER_KEY)
        return
    log.error(
        "a newer configuration than the database's is in use",
        holder=newer.holder,
        lineage=newer.lineage,
        version=newer.version,
        remedy=ADOPT,
    )
    told = msgspec.json.encode({"newer": newer, "at": time.time()})
    store.set(NEWER_KEY, told, ex=NEWER_LIFE_S)
