"""All slices of this process: which there are, which are in use, which the store must hear of."""

from collections.abc import Callable, Iterable
from itertools import islice

from inference.limits.slices import Claim, Counter, Slice

MOST_SLICES = 10_000
"""Counters known here; beyond that those not asked for the longest are given back and forgotten."""

_SWEPT = 100

# A window ends here a little before it does in the store.
_MARGIN_S = 1.0

# A budget that nobody asked for so long is looked up anew when somebody does.
_BUDGET_S = 3_600.0


class Shelf:
    """Slices by their counter's key, those longest not heard of first.

    `active` are those with something that may come back, `due` those to be told of at once; `wake`
    is called when there is one.
    """

    def __init__(self, *, wake: Callable[[], None], most: int = MOST_SLICES) -> None:
        self.active: dict[Slice, None] = {}
        self.due: dict[Slice, None] = {}
        self._wake = wake
        self._most = most
        self._slices: dict[str, Slice] = {}
        self._has_forgotten = False

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def held(self) -> int:
        """Units taken here that are held until they are given back."""
        return sum(one.out for one in self.active if one.counter.is_slots)

    def get(self, key: str) -> Slice | None:
        """The slice of a counter, if there is one."""
        return self._slices.get(key)

    def of_all(self, claims: Iterable[Claim]) -> list[Slice]:
        """The slices of these claims, made if need be."""
        get = self._slices.get
        return [get(claim.counter.key) or self.of(claim.counter) for claim in claims]

    def of(self, counter: Counter) -> Slice:
        """The slice of a counter, made if need be."""
        known = self._slices.get(counter.key)
        if known is None:
            if len(self._slices) >= self._most:
                self._evict()
            known = self._slices[counter.key] = Slice(counter, is_first=not self._has_forgotten)
        return known

    def tell_soon(self, one: Slice) -> None:
        """Have the store hear of it now."""
        self.active[one] = self.due[one] = None
        self._wake()

    def tell_again(self, one: Slice, *, is_soon: bool) -> None:
        """Have the store hear of it once more: nobody knows whether it did; now, or with a beat."""
        one.is_asked, one.is_dirty = False, True
        self.active[one] = None
        if is_soon:
            self.tell_soon(one)

    def answer_soon(self, one: Slice) -> None:
        """Answer a question on it, unless some of it may yet be free in a moment."""
        if one.question > one.answered and not one.pending:
            self.due[one] = None
            self._wake()

    def take_due(self) -> dict[Slice, None]:
        """Those the store is to hear of now; from here on they are another's affair."""
        due, self.due = self.due, {}
        return due

    def note(self, one: Slice) -> None:
        """Put it where it belongs now that the store was heard of it."""
        if one.is_dirty:
            self.due[one] = None
        self.answer_soon(one)
        if one.is_idle:
            self.active.pop(one, None)
        else:
            self.active[one] = None
        key = one.counter.key
        if self._slices.get(key) is one:
            self._slices[key] = self._slices.pop(key)

    def reenter(self, now_s: float) -> None:
        """Have the store told of all that still counts, as if it had never heard of it.

        Nothing is wanted ahead: a store that knows of one process alone would give it what others
        are about to tell that they were granted.
        """
        for one in self._slices.values():
            one.question = one.answered = 0
            one.is_due = False
            if one.got and (now_s < one.ends_s or not one.counter.window_ms):
                one.is_dirty = True
                self.active[one] = self.due[one] = None

    def give_up(self) -> None:
        """Give back all that nobody uses."""
        for one in self.active:
            one.give_up()
            self.due[one] = None

    def sweep(self, now_s: float) -> None:
        """Forget counters whose window is over, some at a time."""
        for key, one in list(islice(self._slices.items(), _SWEPT)):
            if not one.is_idle:
                continue
            if not one.counter.ends_ms:
                if now_s >= one.ends_s + _MARGIN_S:
                    self._forget(key, one)
            elif now_s >= one.used_s + _BUDGET_S:
                self._has_forgotten = True  # its period may be on, and part of it was spent here
                self._forget(key, one)

    def _evict(self) -> None:
        """Make room: forget what is idle, and give back what is only held ahead.

        Where there is far too much, as with a store that is long away, what was used and is not
        told yet is forgotten too.
        """
        is_crowded = len(self._slices) >= 2 * self._most
        for key, one in list(islice(self._slices.items(), _SWEPT)):
            if one.is_idle or (is_crowded and not one.is_in_use):
                self._has_forgotten = True
                self._forget(key, one)
            elif one.left:
                one.give_up()
                one.is_dirty = True
                self.tell_soon(one)
            else:
                self._slices[key] = self._slices.pop(key)

    def _forget(self, key: str, one: Slice) -> None:
        self.active.pop(one, None)
        self.due.pop(one, None)
        del self._slices[key]
