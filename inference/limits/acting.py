"""What budgets do short of refusing: who is over, and what that did to one request."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inference.contract.kinds import TooLong
from inference.limits.leases import Leases
from inference.limits.purses import Purse
from inference.limits.slices import Claim, Shortage

Headers = tuple[tuple[bytes, bytes], ...]

_LEAST_WAIT_S = 0.005


class Slowed(Exception):
    """A request has to wait for so long, because a budget lets in fewer; it took nothing."""

    def __init__(self, wait_s: float, purse: Purse) -> None:
        super().__init__("a budget lets in fewer")
        self.wait_s = max(wait_s, _LEAST_WAIT_S)
        self.purse = purse

    @property
    def retry_after_s(self) -> int:
        return max(math.ceil(self.wait_s), 1)


@dataclass(slots=True)
class Eased:
    """What budgets did to a request that they didn't refuse, by the ids of the budgets.

    `throttles` are asked whenever it takes; each budget of `throttled` made it wait. `lowered_to`
    is the most tokens of each answer, if they were lowered.
    """

    throttles: Sequence[Purse] = ()
    cheaper: list[str] = field(default_factory=list)
    throttled: list[str] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)
    lowered_to: int | None = None

    @property
    def claims(self) -> list[Claim]:
        """What is taken of throttles, besides what limits and budgets want."""
        return [one.throttle for one in self.throttles if one.throttle is not None]

    def slowed(self, shortages: Sequence[Shortage]) -> Slowed | None:
        """Why it has to wait, if throttles are all that is short."""
        claims = self.claims
        own = [one for one in shortages if one.claim in claims]
        if not own or len(own) < len(shortages):
            return None
        worst = max(own, key=lambda one: one.wait_s or 0.0)
        return Slowed(worst.wait_s or 0.0, self.throttles[claims.index(worst.claim)])

    def others(self, shortages: Sequence[Shortage]) -> Sequence[Shortage]:
        """What is short besides throttles."""
        claims = self.claims
        return [one for one in shortages if one.claim not in claims]

    def record(self) -> dict[str, object]:
        """What the decision record says of it."""
        told: dict[str, object] = {}
        for name in ("cheaper", "throttled", "lowered"):
            if ids := getattr(self, name):
                told[name] = list(ids)
        if self.lowered_to is not None:
            told["lowered_to"] = self.lowered_to
        return told

    def headers(self) -> Headers:
        """What the caller is told of it."""
        names = [name for name in ("cheaper", "throttled", "lowered") if getattr(self, name)]
        told: Headers = ()
        if names:
            told = ((b"x-headworks-budget", ",".join(names).encode()),)
        if self.lowered_to is not None:
            told += ((b"x-headworks-max-output-tokens", b"%d" % self.lowered_to),)
        return told


@dataclass(frozen=True, slots=True)
class Lowers:
    """Budgets that are short for a request and would have a shorter answer, and what is left."""

    left_nanousd: int
    budget_ids: Sequence[str]

    @classmethod
    def of(cls, short: Sequence[tuple[Purse, Shortage]]) -> "Lowers | None":
        """None if one of those that are short would rather refuse."""
        if any(purse.budget.too_long is not TooLong.LOWER for purse, _ in short):
            return None
        return cls(min(one.left for _, one in short), [purse.budget.id for purse, _ in short])


async def over(
    leases: Leases, purses: Sequence[Purse], *, stopwatch: Callable[[], float]
) -> list[Purse]:
    """Those of which so much is spent that they act.

    What was last heard of longer ago than a heartbeat or two is asked for first. Where the store is
    away, or wasn't told of the ledger, nobody waits, and nobody is over that isn't known to be.
    """
    if not leases.has_budgets:
        return []
    slices = [leases.slice_of(one.counter) for one in purses]
    now_s = stopwatch()
    old = [one for one in slices if now_s >= one.ends_s]
    if old:
        await leases.told(*old)
    pairs = zip(purses, slices, strict=True)
    return [purse for purse, one in pairs if one.used >= (purse.acts_from or 0)]
