"""What every routing strategy is given and promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from inference.contract.snapshot import TargetRecord


class Candidate(Protocol):
    """What is asked of a worker before it is chosen.

    Counts are what this process has under way there and what all others together have. Prefill
    tokens are those sent, not cached there and not answered yet. `concurrency` is how many requests
    it runs at once, `prefill_rate` tokens a second; both are above 0. `kv_used` is a share, None if
    nothing fresh is known.
    """

    @property
    def id(self) -> str: ...

    @property
    def inflight(self) -> int: ...

    @property
    def peers_inflight(self) -> int: ...

    @property
    def prefill_tokens(self) -> int: ...

    @property
    def peers_prefill_tokens(self) -> int: ...

    @property
    def prefill_rate(self) -> float: ...

    @property
    def concurrency(self) -> int: ...

    @property
    def kv_used(self) -> float | None: ...


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True, slots=True)
class Room(Generic[C]):
    """A target and those of its workers that may be sent the next attempt: one at least.

    `position` is the target's in the plan; `is_panic` says that breakers were ignored.
    """

    target: TargetRecord
    workers: Sequence[C]
    position: int = 0
    is_panic: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be placed: which share of its prompt workers have cached, by worker id.

    A worker that isn't named has nothing of it. `max_wait_penalty` is the route's.
    """

    hits: Mapping[str, float] = field(default_factory=dict)
    max_wait_penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """How long a request would wait, term by term: 1 is a second of prefill or one full batch."""

    prefill: float
    requests: float
    kv: float

    @property
    def wait(self) -> float:
        return self.prefill + self.requests + self.kv


@dataclass(frozen=True, slots=True)
class Choice(Generic[C]):
    """Who is sent the attempt and why; `score` is None if there was no other to choose.

    `candidates` could have been chosen; the least wait among those compared is `least_wait`. A
    worker chosen for what it has cached `is_warm`. `u` is the chance it was drawn with.
    """

    room: Room[C]
    worker: C
    candidates: int = 1
    score: Score | None = None
    least_wait: float = 0.0
    is_warm: bool = False
    u: float = 0.0


class Pick(Protocol):
    """Choose a worker from rooms in the plan's order; None if there is no room.

    That order was drawn by weight. `u` in [0, 1) is all the chance there is: the same one gives the
    same choice.
    """

    def __call__(self, rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None: ...


@dataclass(frozen=True, slots=True)
class RoutingStrategy:
    """How a strategy picks, and whether it wants to know who has what of a prompt cached."""

    pick: Pick
    reads_prefixes: bool = False
