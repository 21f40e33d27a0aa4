"""Workers to choose among, as bare values."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.contract.snapshot import TargetRecord
from inference.decisions.routing.base import Room


@dataclass
class Candidate:
    """A worker with nothing under way, of which a token takes a second and a batch is one."""

    id: str
    inflight: int = 0
    peers_inflight: int = 0
    prefill_tokens: int = 0
    peers_prefill_tokens: int = 0
    prefill_rate: float = 1.0
    concurrency: int = 1
    kv_used: float | None = None
    first_token_s: float | None = None
    first_token_at_s: float = 0.0
    is_full: bool = False


def room(
    position: int, *workers: Candidate | str, weight: int = 1, is_panic: bool = False
) -> Room[Candidate]:
    """The target `t<position>` and these workers."""
    target = TargetRecord(f"t{position}", f"p{position}", weight)
    seats = tuple(Candidate(one) if isinstance(one, str) else one for one in workers)
    return Room(target, seats, position, is_panic)


def spread(count: int) -> Sequence[float]:
    """So many chances, evenly over [0, 1)."""
    return [(step + 0.5) / count for step in range(count)]
