"""Which history of the configuration counts: the database's, or one that went on without it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Position = tuple[str, int]
"""Lineage and version; a greater lineage wins whatever its version."""


@dataclass(frozen=True, slots=True)
class Newer:
    """Somebody has a newer configuration than the database: it was put back to an older copy."""

    holder: str
    lineage: str
    version: int


@dataclass(frozen=True, slots=True)
class PoolRestarts:
    """How often a pool was to restart, as a whole and worker by worker."""

    generation: int
    workers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Restarts:
    """Counts of restarts that others hold, by a gateway's name and a pool's id.

    They only grow: with a smaller one than was acted on, the next restarts would do nothing, or a
    pool's workers would all be replaced. `pools` is None if nobody can tell.
    """

    gateways: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, PoolRestarts] | None = None


def find_newer(
    ours: Position | None,
    stored: Position | None,
    applied: Iterable[Position],
    *,
    is_foreign: bool = False,
) -> Newer | None:
    """Who is ahead of the database: the state store, or a gateway that won't take what it holds.

    `is_foreign` says that the store holds other content than the database under the same version.
    That is as bad as a newer one: the database was put back and edited until the numbers met.
    """
    if stored is not None and (is_foreign or _is_ahead(stored, ours)):
        return Newer("the state store holds", *stored)
    furthest = max(applied, default=None)
    if furthest is not None and _is_ahead(furthest, ours):
        return Newer("gateways run", *furthest)
    return None


def _is_ahead(one: Position, ours: Position | None) -> bool:
    return ours is None or one > ours


def adopted_position(fresh_lineage: str, known: Iterable[Position]) -> Position:
    """Where the database's configuration goes on: after all that anybody is known to have had.

    Versions go on counting too, so that no number means two things to people. A clock that was put
    back makes no difference.
    """
    positions = tuple(known)
    greatest = max((lineage for lineage, _ in positions), default="")
    lineage = fresh_lineage if fresh_lineage > greatest else f"{greatest}0"
    return lineage, max((version for _, version in positions), default=0) + 1
