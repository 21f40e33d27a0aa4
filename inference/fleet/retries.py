"""How many requests and retries each route of this process has had of late."""

from inference.decisions.retries import WINDOW_S, may_retry
from inference.fleet.sliding import SlidingCounts


class RetryBudgets:
    """Counts requests and retries by route, and says whether one more retry fits.

    Routes that nobody asked for of late are forgotten, and so are those that were deleted. Times
    are seconds of one clock that doesn't go back.
    """

    def __init__(self) -> None:
        self._routes: dict[str, SlidingCounts] = {}

    def note_request(self, route_id: str, now_s: float) -> None:
        """Count a request's first attempt."""
        counts = self._routes.get(route_id)
        (self._of(route_id, now_s) if counts is None else counts).add(now_s)

    def take(self, route_id: str, *, budget_percent: int, now_s: float) -> bool:
        """Take one retry out of the budget; False if there is none left."""
        counts = self._of(route_id, now_s)
        counts.advance(now_s)
        is_allowed = may_retry(
            requests=counts.total, retries=counts.marked, budget_percent=budget_percent
        )
        if is_allowed:
            counts.add(now_s, count=0, marked=1)
        return is_allowed

    def take_back(self, route_id: str, *, is_retry: bool, at_s: float) -> None:
        """Undo the count of a retry, or of a request's first attempt, that was not made after all.

        `at_s` is when it was counted.
        """
        counts = self._routes.get(route_id)
        if counts is not None:
            counts.take_back(at_s, count=not is_retry, marked=is_retry)

    def _of(self, route_id: str, now_s: float) -> SlidingCounts:
        counts = self._routes.get(route_id)
        if counts is None:
            self._forget(now_s)
            counts = self._routes[route_id] = SlidingCounts(WINDOW_S)
        return counts

    def _forget(self, now_s: float) -> None:
        for counts in self._routes.values():
            counts.advance(now_s)
        self._routes = {
            name: counts for name, counts in self._routes.items() if counts.total or counts.marked
        }
