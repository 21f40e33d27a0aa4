"""What all tiers deal in: entries under keys, and what is asked of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inference.contract.events import Usage
from inference.contract.kinds import CacheTier, Endpoint
from inference.contract.snapshot import CachePolicyRecord
from inference.contract.values import frozen
from inference.contract.vitals import TierGauge, TopEntry
from inference.helper.client import DEADLINE_S


@frozen
class Entry:
    """A kept answer: its neutral form as JSON, or the vector of one input as JSON has it.

    Times are seconds since the epoch. Past `expires_at` it is stale, and past `stale_until` gone.
    It lives until purges come to more than `mark`. `usage` is of the answer that was kept,
    `took_ms` the time it had taken and `cost_nanousd` what it had cost, None if nobody knows.
    """

    body: bytes
    endpoint: Endpoint
    stored_at: float
    expires_at: float
    stale_until: float
    entry_id: str
    policy_id: str
    route_id: str
    usage: Usage
    took_ms: float
    mark: int = 0
    namespace: str = ""
    tags: tuple[str, ...] = ()
    cost_nanousd: int | None = None
    fallbacks: int = 0


@frozen
class Asked:
    """What one request asks of tiers. `key` is the whole request's."""

    organisation_id: str
    policy: CachePolicyRecord
    key: bytes


@frozen
class Found:
    """An entry and where it was."""

    entry: Entry
    tier: CacheTier


class Tier(Protocol):
    """A place where entries are, or are found."""

    @property
    def kind(self) -> CacheTier: ...

    def gauge(self) -> TierGauge:
        """How full it is and how it does."""

    async def run(self) -> None:
        """Do what is to be done beside requests, until cancelled."""


class Holding(Tier, Protocol):
    """A tier that has entries of its own."""

    async def find(self, asked: Asked, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Those of these that are there; a tier that can't be asked has none."""

    def keep(self, asked: Asked, key: bytes, entry: Entry) -> None:
        """Keep an entry, if there is room and it is not too large."""

    def forget(self, asked: Asked, key: bytes) -> None:
        """Let an entry go that isn't to be served any more."""

    def top_entries(self) -> Sequence[TopEntry]:
        """The entries that saved most here, in no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What tiers are made of. Without `store_url` there is no cache store, without `helper_socket`
    no helper. `call_s` and `helper_s` are what these may take to answer.
    """

    data_key: bytes = field(repr=False)
    store_url: str | None = field(default=None, repr=False)
    local_bytes: int
    embedding_bytes: int
    clock: Callable[[], float]
    call_s: float
    helper_socket: Path | None = None
    helper_s: float = DEADLINE_S
