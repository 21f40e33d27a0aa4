"""The tail of one worker's log, shipped by its supervisor for as long as somebody asks for it.

Asking is a wish in the state store with a life of its own; every read renews it. No wish, no
shipping: a log nobody reads costs nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import structlog
from django.conf import settings
from redis.exceptions import RedisError

from controlplane.bridge.store import open_store
from controlplane.redaction import scrub_text
from inference.contract import wire

WISH_LIFE_S = 30
STALE_S = 5.0
"""Shipped once a second while it is wished for, so this old means that nobody ships it now."""

log = structlog.get_logger(__name__)


class LogState(StrEnum):
    """What there is to show of a log."""

    LIVE = "live"
    STALE = "stale"
    WAITING = "waiting"
    NO_SUPERVISOR = "no_supervisor"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class WorkerLog:
    """The end of a worker's log. `size_bytes` is the whole file's, None while nothing came."""

    worker_id: str
    state: LogState
    at: datetime | None = None
    size_bytes: int | None = None
    text: str = ""


def read_worker_log(worker_id: str, *, clock: Callable[[], float] = time.time) -> WorkerLog:
    """Wish for the log of a worker the caller may see, and return what has come of it."""
    try:
        with open_store() as store:
            pipe = store.pipeline(transaction=False)
            pipe.set(wire.worker_log_wish(worker_id), "1", ex=WISH_LIFE_S)
            pipe.hmget(wire.worker_log_key(worker_id), "at", "size", "text")
            pipe.exists(wire.LEADER)
            _, shipped, has_leader = pipe.execute()
    except (RedisError, OSError) as error:
        log.warning("state store not answering about a log", error=type(error).__name__)
        return WorkerLog(worker_id, LogState.UNAVAILABLE)
    return _log_of(worker_id, shipped, has_leader=has_leader == 1, now=clock())


def _log_of(
    worker_id: str, shipped: list[bytes | None], *, has_leader: bool, now: float
) -> WorkerLog:
    at, size, text = shipped
    if at is None:
        state = LogState.WAITING if has_leader else LogState.NO_SUPERVISOR
        return WorkerLog(worker_id, state)
    try:
        written_at, size_bytes = float(at), int(size or 0)
    except ValueError:
        log.warning("shipped log unusable", worker_id=worker_id)
        return WorkerLog(worker_id, LogState.WAITING)
    if has_leader:
        state = LogState.LIVE if now - written_at <= STALE_S else LogState.STALE
    else:
        state = LogState.NO_SUPERVISOR
    # an engine prints what it likes; what looks like a key stays out of pages
    words = scrub_text((text or b"").decode(errors="replace"), settings.HEADWORKS.known_secrets)
    return WorkerLog(worker_id, state, datetime.fromtimestamp(written_at, UTC), size_bytes, words)
