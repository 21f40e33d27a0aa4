"""The counters of budgets in the state store: what is read of them, and the one way to change them.

A counter is a hash that gateways keep (`inference.contract.lease_scripts`): `g` is all that was
granted, to all processes, `l` what of that may yet come back, so what is settled is `g` without
`l`. We are the holder `ledger` of it and change nothing but our own part, and `g` by the same
amount.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from inference.contract.wire import (
    BUDGET_LEDGER,
    BUDGETS_SEEDED,
    LIMITS_DEAD_S,
    LIMITS_EPOCH,
    limits_holders_key,
)

KEPT_MS = 3 * 24 * 3_600 * 1_000
"""How long after its period a counter stays: requests end later than they came."""

READY_MS = 2_500
"""So long after a store's new life all processes that live have told it again what they hold."""

_BATCH = 500
_HELD = b"l:"

# KEYS: the counter. ARGV: how much more was spent (less, if negative), when it expires.
_ADD = f"""
redis.call('HSETNX', KEYS[1], 'w', '1')
redis.call('HINCRBY', KEYS[1], 'g', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'g:{BUDGET_LEDGER}', ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
"""

# KEYS: a counter that rolls. ARGV: how much more was spent, what has left its window, the step that
# is on, for how many seconds it is kept, then pairs of a step before that and what was settled
# in it.
_SET_WINDOW = f"""
local function minus(text)
    if text == '0' then return text end
    return string.sub(text, 1, 1) == '-' and string.sub(text, 2) or '-' .. text
end
local key, now = KEYS[1], 'b:' .. ARGV[3]
redis.call('HSETNX', key, 'w', '1')
redis.call('HINCRBY', key, 'g', ARGV[1])
redis.call('HINCRBY', key, 'g:{BUDGET_LEDGER}', ARGV[1])
redis.call('HINCRBY', key, 'g', minus(redis.call('HGET', key, 'g:~') or '0'))
redis.call('HSET', key, 'g:~', minus(ARGV[2]))
redis.call('HINCRBY', key, 'g', minus(ARGV[2]))
local fields = redis.call('HKEYS', key)
for _, name in ipairs(fields) do
    if string.match(name, '^b:') then redis.call('HDEL', key, name) end
end
redis.call('HSET', key, 's', redis.call('HGET', key, 'g'), 'n', ARGV[3])
redis.call('HINCRBY', key, 's', minus(redis.call('HGET', key, 'l') or '0'))
redis.call('HSET', key, now, redis.call('HGET', key, 's'))
for at = 5, #ARGV, 2 do
    redis.call('HSET', key, 'b:' .. ARGV[at], ARGV[at + 1])
    redis.call('HINCRBY', key, now, minus(ARGV[at + 1]))
end
redis.call('EXPIRE', key, ARGV[4])
"""

# KEYS: the epoch, the word that counters were seeded. ARGV: the epoch they were seeded in.
_MARK_SEEDED = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True)
class Counter:
    """What one counter says, in nano-USD: what is settled, and what is held and may come back.

    What dead processes had reserved is still in the store until somebody needs it, and held by
    nobody. `late` was reserved again after it had been freed like that, `past` is what of it went
    past the amount. `passed` is what was settled and has left the window of one that rolls.
    """

    settled: int = 0
    reserved: int = 0
    late: int = 0
    past: int = 0
    passed: int = 0

    @property
    def ever(self) -> int:
        """All that was settled, whether it still counts or not."""
        return self.settled + self.passed


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
                pipe.hmget(key, "g", "l", "g:~", "late", "past")
            replies: list[Any] = pipe.execute()
        told = {
            key: [int(one or 0) for one in reply]
            for key, reply in zip(some, replies, strict=True)
            if reply[0] is not None
        }
        left = _left_by_the_dead(store, [key for key, (_, held, *_) in told.items() if held])
        for key, (granted, held, passed, late, past) in told.items():
            reserved = max(held - left.get(key, 0), 0)
            found[key] = Counter(granted - held, reserved, late, past, -passed)
    return found


def _left_by_the_dead(store: Redis, keys: Sequence[str]) -> Mapping[str, int]:
    """What processes that missed three beats had reserved of these counters."""
    if not keys:
        return {}
    homes = {key: limits_holders_key(_organisation_of(key)) for key in keys}
    with store.pipeline(transaction=True) as pipe:
        pipe.time()
        for home in dict.fromkeys(homes.values()):
            pipe.hgetall(home)
        for key in keys:
            pipe.hgetall(key)
        (seconds, micros), *replies = pipe.execute()
    beats = dict(zip(dict.fromkeys(homes.values()), replies, strict=False))
    now_ms = seconds * 1_000 + micros // 1_000
    living = {home: _living(told, now_ms) for home, told in beats.items()}
    parts = zip(keys, replies[len(beats) :], strict=True)
    return {
        key: sum(
            int(value)
            for name, value in fields.items()
            if name.startswith(_HELD) and name[len(_HELD) :] not in living[homes[key]]
        )
        for key, fields in parts
    }


def _living(beats: Mapping[bytes, bytes], now_ms: int) -> set[bytes]:
    """The holders that were heard within three beats, by a clock that goes on while none is."""
    clock_ms = int(beats.get(b"clock", 0)) + max(now_ms - int(beats.get(b"at", now_ms)), 0)
    return {
        name
        for name, beat in beats.items()
        if name not in (b"at", b"clock")
        and clock_ms - int(beat.partition(b":")[0]) <= LIMITS_DEAD_S * 1_000
    }


def _organisation_of(key: str) -> str:
    return key.partition("{")[2].partition("}")[0]


def add_to_counters(store: Redis, deltas: Sequence[tuple[str, int, int]]) -> None:
    """Tell counters of spending: key, how much more (or less), and the period's end in ms."""
    for start in range(0, len(deltas), _BATCH):
        some = deltas[start : start + _BATCH]
        with store.pipeline(transaction=False) as pipe:
            for key, delta, ends_ms in some:
                pipe.eval(_ADD, 1, key, delta, ends_ms + KEPT_MS)
            pipe.execute()


def set_windows(
    store: Redis,
    windows: Mapping[str, tuple[int, Mapping[int, int]]],
    deltas: Mapping[str, int],
    *,
    step_s: int,
    steps: int,
) -> None:
    """Tell counters that roll how much more was spent (or less), and when it was, by key: what has
    left the window, and what there was in each step of it, by its first second.

    What the counter has beyond is of the step that is on.
    """
    seconds, _ = store.time()
    now = int(seconds) // step_s
    keys = list(windows)
    for start in range(0, len(keys), _BATCH):
        with store.pipeline(transaction=False) as pipe:
            for key in keys[start : start + _BATCH]:
                passed, stretches = windows[key]
                told = {at // step_s: spent for at, spent in stretches.items()}
                past = {n: spent for n, spent in told.items() if n < now and spent}
                pairs = [one for pair in past.items() for one in pair]
                life_s = step_s * (steps + 2) + KEPT_MS // 1000
                delta = deltas.get(key, 0)
                pipe.eval(_SET_WINDOW, 1, key, delta, passed, now, life_s, *pairs)
            pipe.execute()


def drop_counter(store: Redis, key: str) -> None:
    """Forget a counter that nobody else knows."""
    store.unlink(key)


def mark_seeded(store: Redis, epoch: str) -> bool:
    """Let gateways rely on the counters of budgets, unless the store has begun another life."""
    return bool(store.eval(_MARK_SEEDED, 2, LIMITS_EPOCH, BUDGETS_SEEDED, epoch))
