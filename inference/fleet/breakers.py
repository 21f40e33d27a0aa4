"""One worker's breaker in this process: the attempts it has seen and the state they led to."""

from collections.abc import Callable

from inference.contract.kinds import BreakerState
from inference.decisions.breaker import (
    CLOSED,
    WINDOW_S,
    Breaker,
    BreakerPolicy,
    Counts,
    Verdict,
    after_attempt,
    after_trial,
    begin_trial,
    lets_through,
    shown_state,
)
from inference.fleet.sliding import SlidingCounts


class WorkerBreaker:
    """Keeps count and asks `decisions.breaker`; until `aside_until` the worker said "not now".

    `changed` is told each change: of whom, before and after, which are the same if only
    `aside_until` changed. Times are seconds of one clock that doesn't go back; `chance` gives
    numbers in [0, 1).
    """

    __slots__ = (
        "_chance",
        "_changed",
        "_counts",
        "_unreachable_in_a_row",
        "aside_until",
        "policy",
        "value",
    )

    def __init__(
        self,
        policy: BreakerPolicy,
        *,
        chance: Callable[[], float],
        changed: Callable[["WorkerBreaker", Breaker, Breaker], None],
    ) -> None:
        self.policy = policy
        self.aside_until = 0.0
        self._chance = chance
        self._changed = changed
        self.value = CLOSED
        self._counts = SlidingCounts(WINDOW_S)
        self._unreachable_in_a_row = 0

    def shown(self, now_s: float) -> BreakerState:
        """The state as people are told."""
        return shown_state(self.value, now_s)

    def lets_through(self, now_s: float) -> bool:
        """Whether an attempt may begin."""
        return self.value is CLOSED or lets_through(self.value, now_s)

    def begin(self, now_s: float) -> bool:
        """Note that an attempt begins; True if it is a trial, whose verdict must come."""
        if self.value is CLOSED or not lets_through(self.value, now_s):
            return False
        self._become(begin_trial(self.value))
        return True

    def note_content(self, now_s: float) -> None:
        """Take a trial that gives content for good: nobody waits for a long stream to end."""
        self._end_trial(Verdict.GOOD, now_s)

    def note_end(self, verdict: Verdict, *, is_trial: bool, now_s: float) -> None:
        """Take note of how an attempt ended."""
        if is_trial and self.value.state is BreakerState.HALF_OPEN:
            self._end_trial(verdict, now_s)
            return
        if verdict is Verdict.GOOD:
            self._unreachable_in_a_row = 0
            self._counts.add(now_s)
            return
        if verdict in (Verdict.UNKNOWN, Verdict.WORKING):
            return
        is_unreachable = verdict is Verdict.UNREACHABLE
        self._unreachable_in_a_row = self._unreachable_in_a_row + 1 if is_unreachable else 0
        self._counts.add(now_s, marked=1)
        if self.value is not CLOSED:
            return
        counts = Counts(self._counts.total, self._counts.marked, self._unreachable_in_a_row)
        after = after_attempt(self.value, counts, policy=self.policy, now=now_s, u=self._chance())
        if after is not self.value:
            self._become(after)

    def set_aside(self, until_s: float) -> None:
        """Leave the worker to itself until then, if there are others; the longest wish counts."""
        if until_s > self.aside_until:
            self.aside_until = until_s
            self._changed(self, self.value, self.value)

    def take_back(self) -> None:
        """Send to it again: it was asked all the same, and has answered."""
        if self.aside_until:
            self.aside_until = 0.0
            self._changed(self, self.value, self.value)

    def _end_trial(self, verdict: Verdict, now_s: float) -> None:
        self._become(
            after_trial(self.value, verdict, policy=self.policy, now=now_s, u=self._chance())
        )
        if self.value is CLOSED:
            self._counts = SlidingCounts(WINDOW_S)
            self._unreachable_in_a_row = 0

    def _become(self, value: Breaker) -> None:
        before, self.value = self.value, value
        self._changed(self, before, value)
