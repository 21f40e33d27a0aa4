"""What our own GPUs cost an hour, and how their time is shared among those who used it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from controlplane.decisions.prices import Timed, in_force

_HOUR_S = 3_600
_DOLLAR = 10**9


class CapacityClass(StrEnum):
    """How a GPU is had: for a term, as long as wanted, or until somebody pays more."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


class OwnCostKind(StrEnum):
    """What a row of the roll-up of own cost is of."""

    WORK = "work"
    IDLE = "idle"
    UNATTRIBUTED = "unattributed"


DEFAULT_HOUR_NANOUSD: Mapping[tuple[str, str], int] = {
    ("H100", CapacityClass.ON_DEMAND.value): 5 * _DOLLAR // 2,
    ("H100", CapacityClass.RESERVED.value): 3 * _DOLLAR // 2,
    ("H100", CapacityClass.SPOT.value): 3 * _DOLLAR // 4,
}
"""What an hour is taken to cost, by GPU and class, until somebody says otherwise."""


class HourPrice(Timed, Protocol):
    """A price of an hour, as it is stored."""

    @property
    def hour_nanousd(self) -> int: ...


def hour_price(
    prices: Iterable[HourPrice], gpu_type: str | None, capacity_class: str | None, at: datetime
) -> int | None:
    """What an hour of this GPU costs, of prices for its type and class; None is not known."""
    found = in_force(prices, at)
    if found is not None:
        return found.hour_nanousd
    return DEFAULT_HOUR_NANOUSD.get((gpu_type or "", capacity_class or ""))


class User(NamedTuple):
    """Who used a pool, and for which model."""

    team_id: str
    project_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class Work:
    """What one user's attempts were in one hour: tokens, how many, and what they were booked at."""

    user: User
    tokens: int
    attempts: int
    list_nanousd: int
    unpriced: int


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the roll-up: a user's part of a pool's hour, or what nobody used of it."""

    kind: OwnCostKind
    user: User
    gpu_seconds: float
    tokens: int
    attempts: int
    own_nanousd: int | None
    list_nanousd: int
    unpriced: int


_NOBODY = User("", "", "")


def lines_of(
    works: Sequence[Work], *, gpu_seconds: float, busy_gpu_seconds: float, hour_nanousd: int | None
) -> tuple[Line, ...]:
    """Share the time of a pool's GPUs in one hour, busy time by tokens; to the last nano-dollar.

    `busy_gpu_seconds` is time in which workers had at least one request. Time of attempts that
    reported no token goes to nobody, as does what was idle; neither is spread over the others.
    """
    busy = min(busy_gpu_seconds, gpu_seconds)
    total = sum(one.tokens for one in works)
    costs = None if hour_nanousd is None else _cost(gpu_seconds, hour_nanousd)
    busy_cost = None if hour_nanousd is None else _cost(busy, hour_nanousd)
    shares = _shares(busy_cost, [one.tokens for one in works])
    lines = [
        Line(
            OwnCostKind.WORK,
            one.user,
            busy * one.tokens / total if total else 0.0,
            one.tokens,
            one.attempts,
            share,
            one.list_nanousd,
            one.unpriced,
        )
        for one, share in zip(works, shares, strict=True)
    ]
    if not total and busy > 0:
        lines.append(Line(OwnCostKind.UNATTRIBUTED, _NOBODY, busy, 0, 0, busy_cost, 0, 0))
    if gpu_seconds > busy:
        idle = None if costs is None or busy_cost is None else costs - busy_cost
        lines.append(Line(OwnCostKind.IDLE, _NOBODY, gpu_seconds - busy, 0, 0, idle, 0, 0))
    return tuple(lines)


def _cost(gpu_seconds: float, hour_nanousd: int) -> int:
    return round(gpu_seconds * hour_nanousd / _HOUR_S)


def _shares(whole: int | None, parts: Sequence[int]) -> list[int | None]:
    """A whole in proportion to these parts, which add up to it; all None if it isn't known."""
    total = sum(parts)
    if whole is None:
        return [None] * len(parts)
    if not total:
        return [0] * len(parts)
    given: list[int | None] = []
    used, so_far = 0, 0
    for part in parts:
        so_far += part
        upto = whole * so_far // total
        given.append(upto - used)
        used = upto
    return given
