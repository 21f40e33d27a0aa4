"""Finds the worker of an attempt: who may be sent to, who has its prompt, who waits least."""

from collections.abc import Callable, Mapping, Sequence

from inference.contract.snapshot import RouteRecord
from inference.contract.values import frozen
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import Tried, pick_worker, reads_prefixes, rooms_for
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.queueing import rooms_with_space
from inference.decisions.routing.base import Choice, Room, Wish
from inference.fleet.prefixes import STEP_BYTES, PrefixIndex, blocks_of
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.fleet.worker import Worker
from inference.gateway.schemas import BYTES_PER_TOKEN


@frozen
class Placement:
    """Where an attempt goes and why; `prefill_tokens` of its prompt are not cached there.

    Its first token shows how fast prompts are read there, if it `teaches`, and that `blocks` are
    cached in this life of the worker, whose number is `salt`. Those `set_aside` were passed over
    for others, if there were any.
    """

    planned: PlannedTarget
    choice: Choice[Worker]
    prefill_tokens: int
    teaches: bool = True
    salt: int = 0
    blocks: tuple[int, ...] = ()
    set_aside: tuple[str, ...] = ()


_NO_HITS: Mapping[str, float] = {}


class Prompt:
    """A request's prompt as routing sees it: about how long, and cut in blocks if anybody asks.

    What is no text makes tokens that are the engine's to know, so a prompt with such parts doesn't
    teach. One that fills no cache, `is_kept` being False, has no blocks.
    """

    __slots__ = ("_blocks", "_read", "may_have_blocks", "teaches", "tokens")

    def __init__(
        self,
        read: Callable[[], bytes | memoryview],
        *,
        tokens: int,
        teaches: bool = True,
        is_kept: bool = True,
    ) -> None:
        self._read = read
        self._blocks: tuple[int, ...] | None = None
        is_long = not teaches or (tokens + 1) * BYTES_PER_TOKEN >= STEP_BYTES
        self.may_have_blocks = is_kept and is_long
        self.teaches = teaches
        self.tokens = tokens

    @property
    def is_cut(self) -> bool:
        """Whether anybody has asked for its blocks."""
        return self._blocks is not None

    def blocks(self) -> tuple[int, ...]:
        """The digests of its beginnings."""
        if self._blocks is None:
            self._blocks = blocks_of(self._read())
        return self._blocks


class Dispatcher:
    """Places attempts by what this process knows of its workers. `chance` is in [0, 1).

    Times are seconds of the clock that breakers and leases are kept by. `note_request` counts a
    request in the retry budget of the route of this id.
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
        self.note_request = retries.note_request

    def rooms(self, plan: Plan, tried: Sequence[Tried], *, now_s: float) -> list[Room[Worker]]:
        """The targets and workers the next attempt may go to, as they are in this moment."""
        capacities: list[Capacity[Worker]] = []
        for one in plan.targets:
            capacities.append(self._fleet.capacity(one.pool.id, now_s))
        return rooms_for(plan, capacities, tried=tried)

    def free_rooms(self, plan: Plan, tried: Sequence[Tried], *, now_s: float) -> list[Room[Worker]]:
        """The same without the workers that are full."""
        capacities = [self._fleet.capacity(one.pool.id, now_s) for one in plan.targets]
        return rooms_with_space(plan, capacities, tried=tried)

    def may_retry(self, route: RouteRecord, now_s: float) -> bool:
        """Count a further attempt in the route's retry budget; False if it is one too many."""
        return self._retries.take(route.id, budget_percent=route.retry_budget_percent, now_s=now_s)

    def take_back(self, route: RouteRecord, *, is_retry: bool, at_s: float) -> None:
        """Have an attempt that was counted at that time, and not made, cost nothing."""
        self._retries.take_back(route.id, is_retry=is_retry, at_s=at_s)

    def place(
        self, plan: Plan, rooms: Sequence[Room[Worker]], *, prompt: Prompt, now_s: float
    ) -> Placement:
        """Choose among at least one room."""
        hits: Mapping[str, float] = _NO_HITS
        set_aside: tuple[str, ...] = ()
        if self._fleet.has_set_aside:
            set_aside = self._fleet.set_aside([one.pool.id for one in plan.targets], now_s)
        blocks: tuple[int, ...] = ()
        if prompt.may_have_blocks:
            has_others = bool(set_aside) or prompt.is_cut
            if reads_prefixes(plan, rooms, has_others=has_others):
                blocks = prompt.blocks()
        if blocks:
            workers = (worker for room in rooms for worker in room.workers)
            hits = self._prefixes.hits(workers, blocks, now_s=now_s)
        wish = Wish(hits, plan.route.max_wait_penalty, plan.affinity, now_s)
        choice = pick_worker(plan, rooms, wish=wish, u=self._chance())
        assert choice is not None
        worker, tokens = choice.worker, prompt.tokens
        if hits:
            tokens -= int(tokens * hits.get(worker.id, 0.0))
        return Placement(
            plan.targets[choice.room.position],
            choice,
            tokens,
            prompt.teaches,
            worker.salt,
            blocks,
            set_aside,
        )

    def note_content(self, placement: Placement, *, now_s: float) -> None:
        """Remember that the worker has read the prompt it was sent: it has begun to answer."""
        if placement.blocks:
            self._prefixes.remember(placement.salt, placement.blocks, now_s=now_s)
