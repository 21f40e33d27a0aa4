"""What the gateways say of themselves, for drains: who lives, and who only fell silent."""

from collections.abc import Callable
from typing import cast

from redis.asyncio import Redis

from inference.contract.codec import decode_vitals
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import GATEWAY_SEEN_S
from inference.contract.wire import SEEN, VITALS_PREFIX
from inference.decisions.release import Heard

_BATCH = 500


async def hear(client: Redis, *, clock: Callable[[], float]) -> Heard:
    """Read the vitals of every live process, and who of those seen of late has none.

    `clock` gives seconds since the epoch. A process that signed off is not seen any more. Raises
    STORE_TROUBLE, or CodecError if a record is odd.
    """
    keys = [key async for key in client.scan_iter(match=f"{VITALS_PREFIX}*", count=_BATCH)]
    records = cast("list[bytes | None]", await client.mget(keys)) if keys else []
    vitals = [decode_vitals(record) for record in records if record is not None]
    seen = cast("list[bytes]", await client.zrangebyscore(SEEN, clock() - GATEWAY_SEEN_S, "+inf"))
    names = {name.decode() for name in seen} - {record.process for record in vitals}
    return Heard(vitals, frozenset(name for name in names if not name.startswith(SUPERVISORS)))


SUPERVISORS = f"{ProcessRole.POOLS}/"
"""With this the names of processes begin that send nothing to workers."""
