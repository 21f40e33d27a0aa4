"""What the state store and the gateways take for the newest configuration."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError

from controlplane.bridge.parts import ADOPT, NEWER_KEY, NEWER_LIFE_S
from controlplane.bridge.publisher import Publication, publish, published_position
from controlplane.bridge.store import open_store
from controlplane.bridge.vitals import read_fleet
from controlplane.decisions.epochs import Newer, Position, find_newer
from controlplane.selectors.system import get_latest_version
from inference.contract import wire

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Epochs:
    """Positions in the history, and up to where each journal counts as recorded."""

    stored: Position | None
    applied: Sequence[Position]
    marks: Mapping[str, int]

    @property
    def known(self) -> Sequence[Position]:
        """Every position that somebody holds."""
        return (*self.applied, *((self.stored,) if self.stored else ()))


def read_epochs() -> Epochs:
    """Ask store and gateways. Raises RedisError."""
    with open_store() as store:
        stored = published_position(store)
        marks = {
            journal.decode(errors="replace"): int(mark)
            for journal, mark in store.hgetall(wire.JOURNAL_MARKS).items()
            if mark.isdigit()
        }
    return Epochs(stored, _applied(), marks)


def read_newer() -> Newer | None:
    """Who is ahead of the database, if anybody is. Raises RedisError."""
    with open_store() as store:
        stored = published_position(store)
    applied = _applied()
    # ours is read last: an edit that is made meanwhile is not ahead of itself
    return find_newer(get_latest_version(), stored, applied)


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


def _applied() -> Sequence[Position]:
    """What the live gateways run."""
    fleet = read_fleet()
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
