"""The directory of workers: one leader writes it, everybody reads it, all keep the last one.

In the store it is a hash {token, generation, sealed}; on disk it is the same sealed bytes.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import structlog
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import CodecError, decode_directory, encode_directory
from inference.contract.fleet import Directory
from inference.contract.sealing import SealError, seal, unseal
from inference.store import STORE_TROUBLE, ChangeSignal, StoreHealth

POLL_S = 2.0
"""What a lost message costs at most."""

OLDER_S = 15.0
"""How long a directory older than the one held is passed over. A store that was put back to an
older copy gets the newer one within a lease's life and a refresh; one that stays is meant."""

Listener = Callable[[Directory], None]

log = structlog.get_logger(__name__)

# Who holds the lease writes, and nobody else. While nobody does, a leader that was overtaken is
# refused even before its successor has written anything: the counter tokens are drawn from says
# that there was one. KEYS: directory, counter, lease.
_WRITE = """
local token = tonumber(ARGV[1])
local holder = redis.call('GET', KEYS[3])
if holder then
    if tonumber(string.match(holder, '^%d+')) ~= token then return 0 end
else
    local stored = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
    local drawn = tonumber(redis.call('GET', KEYS[2]) or '0')
    if stored > token or drawn > token then return 0 end
end
if redis.call('HGET', KEYS[1], 'sealed') == ARGV[3] then return 1 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'generation', ARGV[2], 'sealed', ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[1] .. ':' .. ARGV[2])
return 1
"""


def directory_path(var: Path) -> Path:
    """Where a host keeps its copy, beside the snapshot."""
    return var / "snapshots" / "directory"


class DirectoryDisk:
    """A host's copy of the directory: sealed, replaced whole, survives store and processes."""

    def __init__(self, path: Path, *, data_key: bytes) -> None:
        self._path = path
        self._data_key = data_key

    def load(self) -> Directory | None:
        """Return the copy, or None if there is none that can be trusted."""
        try:
            return open_directory(self._data_key, self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, SealError, CodecError) as error:
            log.warning("directory on disk unusable", error=repr(error))
            return None

    def save(self, sealed: bytes) -> None:
        """Replace the copy. A full disk costs the copy, not the caller."""
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}.partial")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(sealed)
            partial.replace(self._path)
        except OSError as error:
            log.warning("directory not kept on disk", error=repr(error))


def open_directory(data_key: bytes, sealed: bytes) -> Directory:
    """Unseal and decode a directory, or raise SealError or CodecError."""
    return decode_directory(unseal(data_key, sealed))


async def read_directory(client: Redis, *, data_key: bytes) -> Directory | None:
    """Read the store's directory; None if there is none. Raises STORE_TROUBLE and as above."""
    sealed = await _read_sealed(client)
    return None if sealed is None else open_directory(data_key, sealed)


async def _read_sealed(client: Redis) -> bytes | None:
    return await cast("Awaitable[bytes | None]", client.hget(wire.DIRECTORY, "sealed"))


class DirectoryReader:
    """Follows the directory: the disk's at first, then whatever the store holds.

    `current` is None until the first one. While the store is away, or holds something that was
    not sealed by us, the last one stays; so it does for `older_s` while the store's is older. After
    that the store's word is final: who may write it is the writers' script's business.
    """

    def __init__(
        self, client: Redis, *, data_key: bytes, path: Path, older_s: float = OLDER_S
    ) -> None:
        self.current: Directory | None = None
        self._client = client
        self._data_key = data_key
        self._disk = DirectoryDisk(path, data_key=data_key)
        self._listeners: list[Listener] = []
        self._health = StoreHealth("directory reader")
        self._sealed: bytes | None = None
        self._older_s = older_s
        self._older_since: float | None = None

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` after each change, on the loop; it must not fail."""
        self._listeners.append(listener)

    def load(self) -> None:
        """Take the disk's copy if there is nothing better yet."""
        directory = self._disk.load() if self.current is None else None
        if directory is not None:
            self._apply(directory)

    async def follow(self) -> None:
        """Keep `current` up to date until cancelled; store outages pass unnoticed by readers."""
        self.load()
        signal = ChangeSignal(self._client, wire.DIRECTORY_CHANGED, poll_s=POLL_S)
        try:
            while True:
                await self.refresh()
                await signal.wait()
        finally:
            await signal.aclose()

    async def refresh(self) -> None:
        """Read the store once and apply what is new there."""
        try:
            sealed = await _read_sealed(self._client)
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return
        self._health.succeeded()
        if sealed is not None and sealed != self._sealed and self._take(sealed):
            self._sealed = sealed

    def _take(self, sealed: bytes) -> bool:
        """Apply or refuse what the store holds; False to look at it again."""
        try:
            directory = open_directory(self._data_key, sealed)
        except (SealError, CodecError) as error:
            log.error("directory refused", error=repr(error))
            return True
        if self._is_premature(directory):
            return False
        self._disk.save(sealed)
        self._apply(directory)
        return True

    def _is_premature(self, directory: Directory) -> bool:
        """Whether it is older than the one held, and has not been for long."""
        held = self.current
        if held is None or _age(directory) >= _age(held):
            self._older_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._older_since is None:
            self._older_since = now
            log.warning("directory in the store is older than ours", generation=held.generation)
        return now - self._older_since < self._older_s

    def _apply(self, directory: Directory) -> None:
        self.current = directory
        for listener in self._listeners:
            listener(directory)


def _age(directory: Directory) -> tuple[int, int]:
    """What makes one directory newer than another."""
    return directory.fencing_token, directory.generation


class DirectoryWriter:
    """Writes the directory for the leader: store first, then the host's own copy."""

    def __init__(self, client: Redis, *, data_key: bytes, path: Path) -> None:
        self._client = client
        self._data_key = data_key
        self._disk = DirectoryDisk(path, data_key=data_key)
        self._script = client.register_script(_WRITE)

    async def write(self, directory: Directory) -> bool:
        """Write it and tell everybody; False if its fencing token was overtaken.

        Writing the same directory again costs nothing and brings it back after the store lost it.
        Raises STORE_TROUBLE; the disk's copy is then left as it is.
        """
        sealed = seal(self._data_key, encode_directory(directory))
        taken = await self._script(
            keys=[wire.DIRECTORY, wire.FENCING, wire.LEADER],
            args=[
                directory.fencing_token,
                directory.generation,
                sealed,
                wire.DIRECTORY_CHANGED,
            ],
        )
        if taken != 1:
            return False
        self._disk.save(sealed)
        return True

    def kept_token(self) -> int:
        """The fencing token of the disk's copy, 0 if there is none: a new one must be greater."""
        kept = self._disk.load()
        return kept.fencing_token if kept is not None else 0

    async def last(self) -> Directory | None:
        """The newest directory of store and disk, to go on from. Raises STORE_TROUBLE."""
        kept = self._disk.load()
        try:
            stored = await read_directory(self._client, data_key=self._data_key)
        except (SealError, CodecError) as error:
            log.error("directory in the store unusable", error=repr(error))
            stored = None
        found = [directory for directory in (kept, stored) if directory is not None]
        return max(found, key=_age, default=None)

    async def watch(self) -> int:
        """Keep the leader's directory on our disk too, and return its token (0 without one).

        So whoever leads next goes on from it even if the store lost it. Raises STORE_TROUBLE.
        """
        sealed = await _read_sealed(self._client)
        try:
            stored = open_directory(self._data_key, sealed) if sealed is not None else None
        except (SealError, CodecError) as error:
            log.error("directory in the store unusable", error=repr(error))
            return 0
        if stored is None or sealed is None:
            return 0
        kept = self._disk.load()
        if kept is None or _age(kept) < _age(stored):
            self._disk.save(sealed)
        return stored.fencing_token
