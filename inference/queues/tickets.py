"""What one request that waits is known by, and the place among workers it is promised."""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import RouteRecord
from inference.errors import GatewayError


class Seat(Protocol):
    """A worker as those who wait see it; one who may come counts as `promised` until it has."""

    promised: int

    @property
    def id(self) -> str: ...

    @property
    def pool_id(self) -> str: ...

    @property
    def is_full(self) -> bool: ...


@dataclass(eq=False, slots=True, kw_only=True)
class Ticket:
    """A request in the waiting room; each is equal to itself only.

    `path` is whose it is, from the organisation down; `work` what those share by; `held_bytes` of
    its body are kept while it waits. `fits` says, by worker id, whether it would go there now,
    `refusal` why it need not wait any longer, if so. `since_s` is when it came, `turn` becomes the
    seat that is promised, or why there is none.
    """

    route: RouteRecord
    priority: PriorityClass
    path: tuple[str, ...]
    work: float
    pools: tuple[str, ...]
    held_bytes: int
    fits: Callable[[str], bool]
    refusal: Callable[[], GatewayError | None] = lambda: None
    since_s: float = 0.0
    turn: "Future[Seat]" = field(repr=False)
