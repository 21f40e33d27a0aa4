"""Where requests go: of routes, of their rules, and of experiments' variants."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """One weighted destination of a route. Weight 0 is never picked by chance.

    Targets of a higher `tier` are the fallback of those below: they are tried once none of a lower
    tier can be.

    Time-outs are milliseconds of one attempt here; None is the route's. `total_timeout_ms` bounds
    the attempt from its start to its last byte; the route's bounds the whole request as well.
    """

    id: str
    pool_id: str
    weight: int
    connect_timeout_ms: int | None = None
    first_byte_timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    total_timeout_ms: int | None = None
    tier: int = 0
