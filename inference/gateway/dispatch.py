"""Finds the worker of an attempt: who may be sent to, who has its prompt, who waits least."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference.contract.snapshot import RouteRecord
from inference.decisions.dispatch import Tried, pick_worker, reads_prefixes, rooms_for
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.routing.base import Choice, Room, Wish
from inference.fleet.prefixes import PrefixIndex, blocks_of
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.fleet.worker import Worker

# English text has about four bytes a token. What is learned of a worker is in the same measure.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an attempt goes and why; `prefill_tokens` of its prompt are not cached there."""

    planned: PlannedTarget
    choice: Choice[Worker]
    prefill_tokens: int


class Prompt:
    """A request's prompt as routing sees it: about how long, and cut in blocks if anybody asks."""

    __slots__ = ("_blocks", "_read", "tokens")

    def __init__(self, read: Callable[[], bytes], *, bytes_max: int) -> None:
        self._read = read
        self._blocks: tuple[int, ...] | None = None
        self.tokens = bytes_max // BYTES_PER_TOKEN

    def blocks(self) -> tuple[int, ...]:
        """The digests of its beginnings."""
        if self._blocks is None:
            self._blocks = blocks_of(self._read())
        return self._blocks


class Dispatcher:
    """Places attempts by what this process knows of its workers. `chance` is in [0, 1).

    Times are seconds of the clock that breakers and leases are kept by.
    """

    def __init__(
        self,
        fleet: FleetRegistry,
        *,
        prefixes: PrefixIndex,
        retries: RetryBudgets,
        chance: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._prefixes = prefixes
        self._retries = retries
        self._chance = chance

    def rooms(self, plan: Plan, tried: Sequence[Tried], *, now_s: float) -> list[Room[Worker]]:
        """The targets and workers the next attempt may go to, as they are in this moment."""
        capacities = [self._fleet.capacity(one.pool.id, now_s) for one in plan.targets]
        return rooms_for(plan, capacities, tried=tried)

    def may_attempt(self, route: RouteRecord, *, is_retry: bool, now_s: float) -> bool:
        """Count an attempt in the route's retry budget; False if it is a retry too many."""
        if not is_retry:
            self._retries.note_request(route.id, now_s)
            return True
        return self._retries.take(route.id, budget_percent=route.retry_budget_percent, now_s=now_s)

    def place(
        self, plan: Plan, rooms: Sequence[Room[Worker]], *, prompt: Prompt, now_s: float
    ) -> Placement:
        """Choose among at least one room, and remember what the chosen worker is sent."""
        hits: Mapping[str, float] = {}
        blocks = prompt.blocks() if reads_prefixes(plan, rooms) else ()
        if blocks:
            workers = (worker for room in rooms for worker in room.workers)
            hits = self._prefixes.hits(workers, blocks, now_s=now_s)
        wish = Wish(hits, plan.route.max_wait_penalty)
        choice = pick_worker(plan, rooms, wish=wish, u=self._chance())
        assert choice is not None
        worker = choice.worker
        if blocks:
            self._prefixes.remember(worker.salt, blocks, now_s=now_s)
        cached_tokens = int(prompt.tokens * hits.get(worker.id, 0.0))
        return Placement(plan.targets[choice.room.position], choice, prompt.tokens - cached_tokens)
