"""The usage stream as the recorder leaves it: how much waits, and whether anybody reads it."""

from collections.abc import Mapping
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from controlplane.bridge.store import open_store
from inference.contract import wire

RECORDER_SILENT_S = 30.0
BACKLOG_LARGE = 10_000
"""A tenth of the stream's bound: the recorder has fallen behind by more than a burst."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """The stream's length, how many of its entries wait, and how long ago a recorder last asked.

    `waiting` is None before the first recorder has run, `silent_s` None while there is none.
    """

    length: int
    waiting: int | None
    silent_s: float | None


def read_stream() -> StreamFacts:
    """Ask the store; raises RedisError or OSError when it doesn't answer."""
    with open_store() as store:
        length = store.xlen(wire.USAGE_STREAM)
        group = _recorder_group(store)
        if group is None:
            return StreamFacts(length, None, None)
        waiting = int(group["pending"]) + int(group["lag"] or 0)
        return StreamFacts(length, waiting, _silent_s(store))


def read_lag_s() -> float | None:
    """For how long the oldest event has waited for the recorder, by the store's clock; what is
    recorded leaves the stream. None if the store doesn't answer.
    """
    try:
        with open_store() as store:
            oldest = store.xrange(wire.USAGE_STREAM, count=1)
            seconds, _ = store.time()
    except (RedisError, OSError):
        return None
    if not oldest:
        return 0.0
    milliseconds, _, _ = oldest[0][0].partition(b"-")
    return max(0.0, seconds - int(milliseconds) / 1_000)


def stream_troubles(stream: StreamFacts) -> dict[str, bool]:
    """What can be wrong with it, in words, and whether it is."""
    silent_s, waiting = stream.silent_s or 0, stream.waiting or 0
    has_run = stream.waiting is not None
    return {
        "it has not run yet": not has_run,
        f"no recorder has asked for {silent_s:,.0f} s": silent_s > RECORDER_SILENT_S,
        "no recorder reads the stream": has_run and stream.silent_s is None,
        f"{waiting:,} entries wait": waiting > BACKLOG_LARGE,
    }


def _recorder_group(store: Redis) -> Mapping[str, object] | None:
    try:
        groups = store.xinfo_groups(wire.USAGE_STREAM)
    except ResponseError:
        return None
    name = wire.USAGE_GROUP.encode()
    return next((group for group in groups if group["name"] == name), None)


def _silent_s(store: Redis) -> float | None:
    """How long ago any recorder last asked; None without one."""
    consumers = store.xinfo_consumers(wire.USAGE_STREAM, wire.USAGE_GROUP)
    return min((one["idle"] / 1_000 for one in consumers), default=None)
