"""What the gateways say of themselves, for drains: who lives, and who only fell silent."""

from collections.abc import Iterable
from typing import cast

import structlog
from redis.asyncio import Redis

from inference.contract.codec import CodecError, decode_vitals
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import GATEWAY_SEEN_S, Vitals
from inference.contract.wire import SEEN, VITALS_PREFIX
from inference.decisions.release import Heard

_BATCH = 500

SUPERVISORS = f"{ProcessRole.POOLS}/"
"""With this the names of processes begin that send nothing to workers."""

log = structlog.get_logger(__name__)


async def hear(client: Redis) -> Heard:
    """Read the vitals of every live process, and who of those seen of late has none.

    A process that signed off is not seen any more. One whose record is in a format of another
    release is as good as silent. Raises STORE_TROUBLE.
    """
    keys = [key async for key in client.scan_iter(match=f"{VITALS_PREFIX}*", count=_BATCH)]
    records = cast("list[bytes | None]", await client.mget(keys)) if keys else []
    names = [key.decode().removeprefix(VITALS_PREFIX) for key in keys]
    read = {
        name: _decoded(name, record)
        for name, record in zip(names, records, strict=True)
        if record is not None
    }
    vitals = [record for record in read.values() if record is not None]
    silent = {*read, *await _seen(client)} - {record.process for record in vitals}
    return Heard(vitals, frozenset(_sending(silent)))


def _decoded(name: str, record: bytes) -> Vitals | None:
    try:
        return decode_vitals(record)
    except CodecError as error:
        log.debug("vitals unreadable", process=name, error=repr(error))
        return None


async def _seen(client: Redis) -> Iterable[str]:
    """Who wrote vitals of late, by the store's clock, which is all writers' alike."""
    async with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.zrange(SEEN, 0, -1, withscores=True)
        (seconds, _), seen = cast(
            "tuple[tuple[int, int], list[tuple[bytes, float]]]", await pipe.execute()
        )
    return [name.decode() for name, at in seen if at >= seconds - GATEWAY_SEEN_S]


def _sending(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if not name.startswith(SUPERVISORS))
