"""When a worker that fails is left alone for a while, and how it is taken back.

A breaker is a value; each change gives a new one. Closed lets everything through. It opens on a
share of failures among enough recent attempts, or when the worker can't be reached several times in
a row. When its time is over it lets one attempt through as a trial, and whatever becomes of that
one decides: closed, or open for longer. All times are seconds of one clock.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from inference.contract.kinds import BreakerState, Kind
from inference.contract.snapshot import PoolRecord

WINDOW_S = 10
"""Attempts older than this no longer count."""

UNREACHABLE_IN_A_ROW = 3
"""A host that refuses so often is dead; nobody needs a rate to know that."""

MAX_OPEN_S = 60.0
MAX_DOUBLINGS_FACTOR = 12
"""Open time doubles to the lower of these, but never below what the pool says."""

JITTER = 0.1
"""Gateways that opened together don't all try again in the same moment."""

ASIDE_S = 1.0
"""A worker that says "not now" and not for how long is asked again as soon as this."""

MAX_ASIDE_S = 30.0
"""A worker may ask for more; one odd header takes nobody out for an hour."""


class Verdict(Kind):
    """What an attempt says of its worker; `unknown` is one that ended before it could tell.

    A worker that refused is `working`: well enough to end a trial, but no answer to weigh failures
    against.
    """

    GOOD = "good"
    WORKING = "working"
    BAD = "bad"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """A pool's part in it: what share of how many attempts, and for how long at first."""

    failure_percent: int
    min_requests: int
    open_s: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts that ended in the last `WINDOW_S`, how many of them badly, and the latest row."""

    attempts: int
    failures: int
    unreachable_in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class Breaker:
    """`open_until` and `openings` (in a row) mean nothing while it is closed.

    It is half-open exactly while a trial is under way.
    """

    state: BreakerState = BreakerState.CLOSED
    open_until: float = 0.0
    openings: int = 0


CLOSED = Breaker()

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Capacity(Generic[W]):
    """The workers of one pool that may be sent to now.

    `is_panic` says that breakers were ignored, `is_last_resort` that every one of them is open.
    Those `aside` said "not now" of late: they are for when there is nobody else.
    """

    workers: Sequence[W]
    is_panic: bool = False
    is_last_resort: bool = False
    aside: Sequence[W] = ()


def policy_of(pool: PoolRecord) -> BreakerPolicy:
    """The breaker's settings of a pool."""
    return BreakerPolicy(
        failure_percent=pool.breaker_failure_percent,
        min_requests=pool.breaker_min_requests,
        open_s=pool.breaker_open_ms / 1000,
    )


def lets_through(breaker: Breaker, now: float) -> bool:
    """Whether an attempt may begin; one that begins while it is open is a trial."""
    if breaker.state is BreakerState.OPEN:
        return now >= breaker.open_until
    return breaker.state is BreakerState.CLOSED


def begin_trial(breaker: Breaker) -> Breaker:
    """Let one attempt through and nothing beside it."""
    return replace(breaker, state=BreakerState.HALF_OPEN)


def after_attempt(
    breaker: Breaker, counts: Counts, *, policy: BreakerPolicy, now: float, u: float
) -> Breaker:
    """What an attempt that was no trial makes of it; `counts` holds that attempt.

    One that began before it opened changes nothing any more.
    """
    if breaker.state is not BreakerState.CLOSED or not _is_too_bad(counts, policy):
        return breaker
    return _opened(breaker, policy, now=now, u=u)


def after_trial(
    breaker: Breaker, verdict: Verdict, *, policy: BreakerPolicy, now: float, u: float
) -> Breaker:
    """What the trial makes of it. One that could not tell leaves the next attempt to be one."""
    match verdict:
        case Verdict.GOOD | Verdict.WORKING:
            return CLOSED
        case Verdict.UNKNOWN:
            return replace(breaker, state=BreakerState.OPEN)
        case _:
            return _opened(breaker, policy, now=now, u=u)


def shown_state(breaker: Breaker, now: float) -> BreakerState:
    """Its state as people are told: one whose time is over waits for a trial, so half-open."""
    is_over = breaker.state is BreakerState.OPEN and now >= breaker.open_until
    return BreakerState.HALF_OPEN if is_over else breaker.state


def capacity_of(ready: Sequence[W], admitted: Sequence[W], *, panic_percent: int) -> Capacity[W]:
    """Who may be sent to, if the breakers of `ready` workers admit these.

    If too few would be left to carry the pool's load, breakers are ignored: all open is never an
    error by itself.
    """
    if len(admitted) * 100 >= panic_percent * len(ready):
        return Capacity(admitted)
    return Capacity(ready, is_panic=True, is_last_resort=not admitted)


def aside_s(retry_after_s: int | None) -> float:
    """How long a worker that said "not now" is left alone while there are others."""
    return ASIDE_S if retry_after_s is None else min(float(retry_after_s), MAX_ASIDE_S)


def set_aside(capacity: Capacity[W], aside: Collection[W]) -> Capacity[W]:
    """The same capacity without those that are to be asked only if there is nobody else.

    Where every breaker is open nobody is left to be preferred.
    """
    if capacity.is_last_resort or not any(one in aside for one in capacity.workers):
        return capacity
    return replace(
        capacity,
        workers=tuple(one for one in capacity.workers if one not in aside),
        aside=tuple(one for one in capacity.workers if one in aside),
    )


def _is_too_bad(counts: Counts, policy: BreakerPolicy) -> bool:
    if counts.unreachable_in_a_row >= UNREACHABLE_IN_A_ROW:
        return True
    is_enough = counts.attempts >= policy.min_requests
    return is_enough and counts.failures * 100 >= policy.failure_percent * counts.attempts


def _opened(breaker: Breaker, policy: BreakerPolicy, *, now: float, u: float) -> Breaker:
    most_s = max(policy.open_s, min(policy.open_s * MAX_DOUBLINGS_FACTOR, MAX_OPEN_S))
    doublings = min(breaker.openings, MAX_DOUBLINGS_FACTOR)
    open_s = min(policy.open_s * 2**doublings, most_s) * (1 + JITTER * u)
    return Breaker(BreakerState.OPEN, now + open_s, breaker.openings + 1)
