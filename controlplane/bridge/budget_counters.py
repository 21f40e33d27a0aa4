"""The counters of budgets in the state store: what is read of them, and the one way to change them.

A counter is a hash that gateways keep (`inference.limits.scripts`): `g` is all that was granted, to
all processes, `l` what of that may yet come back, so what is settled is `g` without `l`. We are the
holder `ledger` of it and change nothing but our own part, and `g` by the same amount.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from inference.contract.wire import BUDGET_LEDGER, BUDGETS_SEEDED, LIMITS_EPOCH

KEPT_MS = 3 * 24 * 3_600 * 1_000
"""How long after its period a counter stays: requests end later than they came."""

READY_MS = 2_500
"""So long after a store's new life all processes that live have told it again what they hold."""

_BATCH = 500

# KEYS: the counter. ARGV: how much more was spent (less, if negative), when it expires.
_ADD = f"""
redis.call('HSETNX', KEYS[1], 'w', '1')
redis.call('HINCRBY', KEYS[1], 'g', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'g:{BUDGET_LEDGER}', ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
"""

# KEYS: the epoch, the word that counters were seeded. ARGV: the epoch they were seeded in.
_MARK_SEEDED = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True)
class Counter:
    """What one counter says, in nano-USD: what is settled, and what is held and may come back."""

    settled: int = 0
    reserved: int = 0


NOTHING = Counter()


@dataclass(frozen=True, slots=True)
class Life:
    """The life of the store's counters: its name, how long it has been, whether it is seeded."""

    epoch: str
    age_ms: int
    is_seeded: bool

    @property
    def is_ready(self) -> bool:
        """Whether whoever lives has told what he holds."""
        return self.age_ms >= READY_MS


def read_life(store: Redis) -> Life | None:
    """The present life of the counters; None as long as no gateway uses them."""
    with store.pipeline(transaction=True) as pipe:
        pipe.mget(LIMITS_EPOCH, BUDGETS_SEEDED)
        pipe.time()
        (epoch, seeded), (seconds, micros) = pipe.execute()
    if epoch is None:
        return None
    name = epoch.decode(errors="replace")
    since = name.rpartition(":")[2]
    age_ms = seconds * 1_000 + micros // 1_000 - (int(since) if since.isdecimal() else 0)
    return Life(name, age_ms, seeded == epoch)


def read_counters(store: Redis, keys: Sequence[str]) -> Mapping[str, Counter]:
    """What the counters say; those that aren't there are left out."""
    found: dict[str, Counter] = {}
    for start in range(0, len(keys), _BATCH):
        some = keys[start : start + _BATCH]
        with store.pipeline(transaction=False) as pipe:
            for key in some:
                pipe.hmget(key, "g", "l")
            replies: list[Any] = pipe.execute()
        for key, (granted, held) in zip(some, replies, strict=True):
            if granted is not None:
                reserved = int(held or 0)
                found[key] = Counter(int(granted) - reserved, reserved)
    return found


def add_to_counters(store: Redis, deltas: Sequence[tuple[str, int, int]]) -> None:
    """Tell counters of spending: key, how much more (or less), and the period's end in ms."""
    for start in range(0, len(deltas), _BATCH):
        some = deltas[start : start + _BATCH]
        with store.pipeline(transaction=False) as pipe:
            for key, delta, ends_ms in some:
                pipe.eval(_ADD, 1, key, delta, ends_ms + KEPT_MS)
            pipe.execute()


def mark_seeded(store: Redis, epoch: str) -> bool:
    """Let gateways rely on the counters of budgets, unless the store has begun another life."""
    return bool(store.eval(_MARK_SEEDED, 2, LIMITS_EPOCH, BUDGETS_SEEDED, epoch))
