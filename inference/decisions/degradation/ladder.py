"""When a route takes its next step of degradation, and when it takes one back.

One step at a time, and late enough that neither a burst nor a lull moves it up and down.
"""

from dataclasses import dataclass

ENTER_AT, ENTER_AFTER_S = 0.9, 10.0
LEAVE_AT, LEAVE_AFTER_S = 0.7, 60.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """How many steps are taken. Since when saturation is high or low, None while it is not."""

    taken: int = 0
    high_since: float | None = None
    low_since: float | None = None


GROUND = Ladder()


def saturation_of(*, busy: int, waiting: int, slots: int | None) -> float:
    """How much is under way and waits, for each slot there is; 1 is full.

    Without a bound, None, nothing is ever full. With no slot at all whoever waits is too many.
    """
    if slots is None:
        return 0.0
    if slots <= 0:
        return 1.0 if busy + waiting else 0.0
    return (busy + waiting) / slots


def climb(ladder: Ladder, saturation: float, *, steps: int, now: float) -> Ladder:
    """The ladder after a look at how saturated the route is; it has `steps` in all.

    A step that is taken or given back starts the wait for the next.
    """
    taken = min(ladder.taken, steps)
    if saturation >= ENTER_AT:
        since = now if ladder.high_since is None else ladder.high_since
        if now - since >= ENTER_AFTER_S and taken < steps:
            return Ladder(taken + 1, high_since=now)
        return Ladder(taken, high_since=since)
    if saturation <= LEAVE_AT and taken:
        since = now if ladder.low_since is None else ladder.low_since
        if now - since >= LEAVE_AFTER_S:
            return Ladder(taken - 1, low_since=now) if taken > 1 else GROUND
        return Ladder(taken, low_since=since)
    return Ladder(taken) if taken else GROUND
