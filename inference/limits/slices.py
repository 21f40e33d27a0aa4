"""What this process holds of counters: values and sums, no store and no waiting.

Of every counter there is one `Slice` here. Its units were granted by the store and count there as
used, so they may be used without asking. Whatever is said of them to the store is the whole of it,
never a difference: said twice, it is the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

NEVER = -math.inf

NO_WINDOW = -1


@dataclass(frozen=True, slots=True)
class Counter:
    """Something that is counted for all gateways together, up to `amount`.

    `key` is its place in the store. `window_ms` is the length of its windows, which begin at whole
    ones of the store's clock; 0: what is taken is held until it is given back, or until its process
    is dead. `is_refundable` says that what was taken may come back before its window ends. Amounts
    are whole numbers up to 2**62.

    One of a budget counts to `ends_ms`, in milliseconds since the epoch. What is reserved of it is
    held like that without a window, and what was spent stays, whatever becomes of its process. One
    that rolls lets go of what was spent more than so many `steps` of `step_ms` ago.
    """

    key: str
    organisation_id: str
    window_ms: int
    amount: int
    is_refundable: bool
    ends_ms: int = 0
    step_ms: int = 0
    steps: int = 0

    @property
    def is_slots(self) -> bool:
        """Whether it counts what is under way, and nothing else."""
        return not (self.window_ms or self.ends_ms)


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody wants of a counter: at least `floor` left, and `take` of it.

    A `strict` one fails when the store can't be asked, others go without.
    """

    counter: Counter
    floor: int
    take: int
    is_strict: bool


class Slice:
    """This process's part of one counter.

    `got` is all the store granted to it in `window`, used or not. None is not known: there may have
    been a slice of it here that was forgotten; `NO_WINDOW` is none, so nothing was granted. Of that
    `left` is free, `pending` is kept for requests that wait for other counters, `out` was taken and
    may come back. `late` was booked after the window had ended here. It is good until `ends_s`.

    `rest` and `elsewhere` are what was left of the counter, and what others held ahead, when it was
    last heard of; `held` is all that might come back from others then, whatever it is held for.
    `ahead` is how many units beyond the need are asked for, `given` how many the store gave last.
    `question` is the last that was put to holders, `answered` the last answered here. `is_told`
    says that the store thinks something of it may come back, `is_asked` that the store is just
    being asked.
    """

    __slots__ = (
        "ahead",
        "answered",
        "counter",
        "elsewhere",
        "ends_s",
        "given",
        "got",
        "held",
        "is_asked",
        "is_dirty",
        "is_due",
        "is_told",
        "late",
        "left",
        "out",
        "pending",
        "question",
        "reached_s",
        "rest",
        "seen_s",
        "used_s",
        "window",
    )

    def __init__(self, counter: Counter, *, is_first: bool = True) -> None:
        self.counter = counter
        self.window: int | None = NO_WINDOW if is_first else None
        if counter.is_slots:
            self.window = 0
        self.ends_s = NEVER
        self.got = 0
        self.left = 0
        self.pending = 0
        self.out = 0
        self.late = 0
        self.ahead = 0
        self.given = 0
        self.rest = counter.amount
        self.elsewhere = 0
        self.held = 0
        self.question = 0
        self.answered = 0
        self.is_told = False
        self.is_asked = False
        self.is_dirty = False
        self.is_due = False
        self.used_s = NEVER
        self.seen_s = NEVER
        self.reached_s = NEVER

    @property
    def may_return(self) -> int:
        """How much of it may yet come back to the store."""
        return self.left + self.pending + self.out

    @property
    def used(self) -> int:
        """How much of it was used by all, of one whose units don't come back, as last heard."""
        return self.counter.amount - self.rest - self.elsewhere - self.left

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing in it that the store would have to be told."""
        return not (self.may_return or self.late or self.is_dirty or self.is_told or self.is_asked)

    @property
    def is_in_use(self) -> bool:
        """Whether requests or the store have to do with it just now."""
        return bool(self.out or self.pending or self.is_asked)

    def suffices(self, claim: Claim, now_s: float) -> bool:
        """Whether the claim can be met from here."""
        return not claim.floor or (
            self.left >= claim.floor
            and now_s < self.ends_s
            and (self.counter is claim.counter or self.counter == claim.counter)
        )

    def may_yet_meet(self, claim: Claim) -> bool:
        """Whether what others of this process are kept, or gave back meanwhile, may be enough."""
        return self.pending > 0 or self.left >= claim.floor

    def shortage(self, claim: Claim, now_s: float) -> "Shortage":
        """What is to be told of a claim that can't be met."""
        wait_s = max(self.ends_s - now_s, 0.0) if self.counter.window_ms else None
        is_held = self.rest + self.held + self.may_return >= claim.floor
        return Shortage(claim, wait_s, is_held, max(self.rest + self.left, 0))

    def use(self, claim: Claim, now_s: float) -> None:
        """Take units that are left."""
        self.left -= claim.take
        self.used_s = now_s
        if claim.counter.is_refundable:
            self.out += claim.take

    def give_up(self) -> None:
        """Give all that is free back to the store; from now on it isn't here any more."""
        self.got -= self.left
        self.left = 0

    def settle(
        self, claim: Claim, taken: int, used: int, *, window: int | None, now_s: float
    ) -> None:
        """Set right what was taken of it in `window` now that its use is known.

        What was not used is free again if its window is still on. What was used beyond is counted
        though nobody granted it.
        """
        is_same = window == self.window
        is_on = now_s < self.ends_s
        self.used_s = max(self.used_s, now_s)
        if claim.counter.is_refundable and is_same:
            self.out -= taken
        if used <= taken:
            # held units are this process's own, even while the store takes it for dead
            if is_same and (is_on or not self.counter.window_ms):
                self.left += taken - used
            return
        beyond = used - taken
        if is_on:
            own = min(beyond, self.left)
            self.left -= own
            self.got += beyond - own
            self.rest -= beyond - own
            self.ahead = max(self.ahead, 2 * beyond)
            self.is_dirty = self.is_dirty or beyond > own
        else:
            self.late += beyond
            self.is_dirty = True

    def roll(self, window: int) -> None:
        """Begin a window of which nothing is held."""
        self.window = window
        self.got = self.left = self.pending = self.out = 0
        self.answered = 0


class Permit:
    """All that one request took, under its id. It is settled once; later calls change nothing.

    Claims, slices and the windows they were taken in go by place. Those at the places `lacking`
    went without, because the store was away.
    """

    __slots__ = ("claims", "id", "is_settled", "lacking", "slices", "windows")

    def __init__(self, permit_id: str, claims: Sequence[Claim], slices: list[Slice]) -> None:
        self.id = permit_id
        self.claims = claims
        self.slices = slices
        self.windows: list[int | None] = [one.window for one in slices]
        self.lacking: Sequence[int] = ()
        self.is_settled = False

    def unmet(self, now_s: float) -> list[int]:
        """The places of claims that can't be met from the slices."""
        pairs = zip(self.slices, self.claims, strict=True)
        return [place for place, (one, claim) in enumerate(pairs) if not one.suffices(claim, now_s)]


@dataclass(frozen=True, slots=True)
class Shortage:
    """A claim that can't be met, and for how many seconds at least; None is not known.

    `is_held`: what is held for requests under way would be enough, if none of it were used. `left`
    is what is free now.
    """

    claim: Claim
    wait_s: float | None
    is_held: bool = False
    left: int = 0


class OutOfUnits(Exception):
    """Some claims can't be met, so none was."""

    def __init__(self, shortages: Sequence[Shortage]) -> None:
        super().__init__("a counter is used up")
        self.shortages = tuple(shortages)


class CountersUnknown(Exception):
    """The store can't be asked, and a strict claim can't be met from what is here."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        super().__init__("counters cannot be reached")
        self.claims = tuple(claims)
