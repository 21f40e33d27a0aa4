"""What every routing strategy is given and promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from inference.contract.snapshot import TargetRecord
from inference.contract.values import frozen


class Candidate(Protocol):
    """What is asked of a worker before it is chosen.

    Counts are what this process has under way there and what all others together have. Prefill
    tokens are those sent, not cached there and not answered yet. `concurrency` is how many requests
    it runs at once, `prefill_rate` tokens a second; both are above 0. `kv_used` is a share, None if
    nothing fresh is known. `first_token_s` is how long streams waited there for their first content
    of late, as of `first_token_at_s`; None if none came yet.
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

    @property
    def first_token_s(self) -> float | None: ...

    @property
    def first_token_at_s(self) -> float: ...


C = TypeVar("C", bound=Candidate)


@frozen
class Room(Generic[C]):
    """A target and those of its workers that may be sent the next attempt: one at least.

    `position` is the target's in the plan; `is_panic` says that breakers were ignored. The request
    costs `cost_max_nanousd` there at most, None is not known. It is asked in another endpoint's
    words if it `is_bridged`.
    """

    target: TargetRecord
    workers: Sequence[C]
    position: int = 0
    is_panic: bool = False
    cost_max_nanousd: int | None = None
    is_bridged: bool = False


@frozen
class Wish:
    """What is to be placed: which share of its prompt workers have cached, by worker id.

    A worker that isn't named has nothing of it. `max_wait_penalty` is the route's. Requests of one
    `affinity` belong together. `now_s` is on the clock of the workers' times.
    """

    hits: Mapping[str, float] = field(default_factory=dict)
    max_wait_penalty: float = 0.0
    affinity: str = ""
    now_s: float = 0.0


@frozen
class Score:
    """How long a request would wait, term by term: 1 is a second of prefill or one full batch."""

    prefill: float
    requests: float
    kv: float

    @property
    def wait(self) -> float:
        return self.prefill + self.requests + self.kv


@frozen
class Choice(Generic[C]):
    """Who is sent the attempt and why; `score` is None if there was no other to choose.

    `candidates` could have been chosen; the least wait among those compared is `least_wait`. A
    worker chosen for what it has cached `is_warm`. `u` is the chance it was drawn with. `terms` are
    what else the strategy went by, by name.
    """

    room: Room[C]
    worker: C
    candidates: int = 1
    score: Score | None = None
    least_wait: float = 0.0
    is_warm: bool = False
    u: float = 0.0
    terms: Mapping[str, float | int | None] = field(default_factory=dict)


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
