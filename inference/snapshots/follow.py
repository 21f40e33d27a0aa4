"""The task that keeps a process on the newest configuration, whatever store and disk are up to."""

import structlog

from inference.contract.codec import CodecError
from inference.snapshots.holder import SnapshotHolder
from inference.snapshots.source import DiskSource, SourceFault, StoreSource
from inference.store import STORE_TROUBLE, StoreHealth

_DISK_TRIES = 3

log = structlog.get_logger(__name__)


async def follow(
    holder: SnapshotHolder, *, disk: DiskSource, store: StoreSource, health: StoreHealth
) -> None:
    """Take the disk's copy, then follow the store until cancelled; never ends by itself.

    What is taken from the store is kept on disk for the next start; `health` hears how each call
    to the store went.
    """
    await _take_from_disk(holder, disk)
    follower = _Follower(holder, disk, store, health)
    try:
        while True:
            await follower.catch_up()
            await store.wait_for_change()
    finally:
        await store.aclose()


async def _take_from_disk(holder: SnapshotHolder, disk: DiskSource) -> None:
    """Read the disk's copy; another process may replace it meanwhile, so it is tried again."""
    for _ in range(_DISK_TRIES):
        try:
            await holder.take(disk)
        except OSError as error:
            log.warning("snapshot on disk unreadable", error=repr(error))
            return
        if holder.current is not None:
            return


class _Follower:
    def __init__(
        self, holder: SnapshotHolder, disk: DiskSource, store: StoreSource, health: StoreHealth
    ) -> None:
        self._holder = holder
        self._disk = disk
        self._store = store
        self._health = health
        self._unkept: bytes | None = None
        self._disk_trouble: str | None = None

    async def catch_up(self) -> None:
        """Take what the store offers; swallow and log its outages."""
        try:
            taken = await self._holder.take(self._store)
            self._health.succeeded()
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return
        self._unkept = taken or self._unkept
        if self._unkept is not None:
            await self._keep(self._unkept)

    async def _keep(self, sealed: bytes) -> None:
        try:
            await self._disk.keep(sealed, self._store)
        except (*STORE_TROUBLE, SourceFault, CodecError) as error:
            if self._disk_trouble != repr(error):
                log.warning("snapshot not kept on disk", error=repr(error))
            self._disk_trouble = repr(error)
            return
        self._unkept = self._disk_trouble = None
