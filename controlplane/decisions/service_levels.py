"""Objectives of routes: what is missed of them, how fast, and what is left of the error budget.

An objective allows a share of requests to miss it: 0.01 % of all where 99.99 % are to be answered,
one stream in two slower than the p50, one in a hundred slower than the p99. The burn rate is the
share that missed it by the share that may: at 1 the error budget lasts just as long as the time it
is for, at 14.4 a month's is gone in two days.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.params import Bound
from inference.decisions.histograms import value_of

OBJECTIVE_BOUNDS: Mapping[str, Bound] = {
    "objective_availability_percent": Bound(50.0, 99.9999),
    "objective_first_token_p50_ms": Bound(1, 3_600_000),
    "objective_first_token_p99_ms": Bound(1, 3_600_000),
}

PERIOD_DAYS = 30
"""What error budgets are of."""

SHORT_SHARE = 12
"""The short window is a twelfth of the long one: whoever has stopped missing fires no more."""

LEAST_SAMPLES = 10
"""Of fewer requests one that failed would be an outage."""

_P50_MAY, _P99_MAY = 0.5, 0.01


class Objective(StrEnum):
    """What a route promises."""

    AVAILABILITY = "availability"
    P50 = "first_token_p50"
    P99 = "first_token_p99"


@dataclass(frozen=True, slots=True)
class Objectives:
    """One route's; None is none."""

    availability_percent: float | None
    p50_ms: int | None
    p99_ms: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a route in some time: requests, failed ones, first tokens by bucket."""

    requests: int
    failures: int
    first_token_ms: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Missed:
    """How one objective was kept: the share that missed it, and the share that may."""

    objective: Objective
    share: float
    may: float

    @property
    def burn(self) -> float:
        return self.share / self.may

    @property
    def left_percent(self) -> float:
        """Of the error budget of the whole time that was looked at; below 0 it is overspent."""
        return 100.0 * (1.0 - self.burn)


def misses_of(objectives: Objectives, seen: Seen) -> Sequence[Missed]:
    """How each objective was kept; what too little is known of is left out."""
    found = []
    if objectives.availability_percent is not None and seen.requests >= LEAST_SAMPLES:
        may = 1.0 - objectives.availability_percent / 100.0
        found.append(Missed(Objective.AVAILABILITY, seen.failures / seen.requests, may))
    streams = sum(seen.first_token_ms.values())
    if streams < LEAST_SAMPLES:
        return found
    for name, bound_ms, may in (
        (Objective.P50, objectives.p50_ms, _P50_MAY),
        (Objective.P99, objectives.p99_ms, _P99_MAY),
    ):
        if bound_ms is not None:
            slow = sum(
                n for bucket, n in seen.first_token_ms.items() if value_of(bucket) > bound_ms
            )
            found.append(Missed(name, slow / streams, may))
    return found


@dataclass(frozen=True, slots=True)
class Burn:
    """The objective that is missed the fastest, in the long window and in the short one."""

    objective: Objective
    long: Missed
    short: Missed

    @property
    def rate(self) -> float:
        """The lower of both: it has lasted, and it goes on."""
        return min(self.long.burn, self.short.burn)


def burn_of(objectives: Objectives, long: Seen, short: Seen) -> Burn | None:
    """How fast the error budget goes; None where too little is known of either window."""
    recent = {one.objective: one for one in misses_of(objectives, short)}
    found = [
        Burn(one.objective, one, recent[one.objective])
        for one in misses_of(objectives, long)
        if one.objective in recent
    ]
    return max(found, key=lambda one: one.rate, default=None)


def objective_words(objective: Objective, objectives: Objectives) -> str:
    """`99.99 % answered`, `first token in 200 ms for half of them`."""
    if objective is Objective.AVAILABILITY:
        return f"{objectives.availability_percent:g} % answered"
    if objective is Objective.P50:
        return f"first token in {objectives.p50_ms:,} ms for half of them"
    return f"first token in {objectives.p99_ms:,} ms for 99 in 100"


def burn_words(burn: Burn, objectives: Objectives, long: str, short: str) -> str:
    """What was compared: the objective, and how much of each window missed it."""
    told = objective_words(burn.objective, objectives)
    shares = ", ".join(
        f"{100 * one.share:.3g} % of the last {words} missed it ({one.burn:.3g} times what may)"
        for one, words in ((burn.long, long), (burn.short, short))
    )
    return f"Objective: {told}; {shares}."
