"""What has to run beside a limiter."""

from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

from inference.limits.broker import Broker
from inference.limits.limiter import Limiter
from inference.limits.proofs import Prover


def background(
    client: Redis, limiter: Limiter, process: str
) -> tuple[Callable[[], Awaitable[None]], ...]:
    """Its line to the store, and the tests of budgets at this process."""
    return Broker(client, limiter.leases).run, Prover(client, limiter, process).run
