"""Where sealed snapshots come from: the state store, and the copy each host keeps on disk."""

import asyncio
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import CodecError, decode_manifest
from inference.contract.sealing import SealError, content_digest, unseal
from inference.contract.snapshot import Manifest
from inference.store import ChangeSignal

POLL_S = 2.0
"""How late a change arrives when its message was lost; also how often a lost store is tried."""

_SEALED_FIELD = "sealed"


class SourceFault(Exception):
    """A source does not hold what its manifest names. It may yet: worth another try."""


class SnapshotSource(Protocol):
    """Sealed bytes by name. Nothing is checked here: `open_manifest` and `open_section` do that."""

    async def manifest(self) -> bytes | None:
        """The sealed manifest, or None if there is none."""

    async def section(self, digest: str) -> bytes | None:
        """The sealed section of this content digest, or None if it isn't there."""


def open_manifest(data_key: bytes, sealed: bytes) -> Manifest:
    """Check and decode a manifest, or raise SealError or CodecError."""
    return decode_manifest(unseal(data_key, sealed))


def open_section(data_key: bytes, digest: str, sealed: bytes | None) -> bytes:
    """Return the bytes of a section that is sealed by us and is the one asked for.

    Raises SourceFault otherwise: the right bytes may still be put in place.
    """
    if sealed is None:
        raise SourceFault("a section is missing")
    try:
        payload = unseal(data_key, sealed)
    except SealError as error:
        raise SourceFault("a section's seal does not match") from error
    if content_digest(payload) != digest:
        raise SourceFault("a section is not what the manifest names")
    return payload


def is_newer(one: Manifest, than: Manifest) -> bool:
    """Tell which of two manifests is to be followed: a greater lineage whatever its version."""
    return (one.lineage, one.version) > (than.lineage, than.version)


class StoreSource:
    """Snapshots as published in the state store. Its methods raise `STORE_TROUBLE`."""

    def __init__(self, client: Redis, *, poll_s: float = POLL_S) -> None:
        self._client = client
        self._signal = ChangeSignal(client, wire.SNAPSHOT_CHANGED, poll_s=poll_s)

    async def manifest(self) -> bytes | None:
        return cast("bytes | None", await self._client.hget(wire.MANIFEST, _SEALED_FIELD))

    async def section(self, digest: str) -> bytes | None:
        return cast("bytes | None", await self._client.get(wire.section_key(digest)))

    async def wait_for_change(self) -> None:
        """Return when something may have changed, at the latest after the poll's length."""
        await self._signal.wait()

    async def aclose(self) -> None:
        """Stop listening; the client itself is its owner's to close."""
        await self._signal.aclose()


class DiskSource:
    """The last good snapshot of this host, shared by all its processes.

    `manifest`, `sections/<digest>` and `lock` in one folder. Writers take the lock, so the
    manifest only ever gets newer and names sections that are there; readers don't.
    """

    def __init__(self, folder: Path, data_key: bytes) -> None:
        self._folder = folder
        self._sections = folder / "sections"
        self._data_key = data_key

    async def manifest(self) -> bytes | None:
        return await asyncio.to_thread(_read, self._folder / "manifest")

    async def section(self, digest: str) -> bytes | None:
        return await asyncio.to_thread(_read, self._sections / digest)

    async def keep(self, sealed_manifest: bytes, origin: SnapshotSource) -> None:
        """Copy what a good manifest names from its origin, unless the disk has a newer one.

        Raises OSError if the disk won't have it, SourceFault or what the origin raises if that
        fails; the old copy then stays whole.
        """
        manifest = open_manifest(self._data_key, sealed_manifest)
        digests = frozenset(manifest.sections.values())
        missing = await asyncio.to_thread(self._missing, digests)
        sections = {}
        for digest in missing:
            sealed = await origin.section(digest)
            open_section(self._data_key, digest, sealed)
            sections[digest] = sealed or b""
        await asyncio.to_thread(self._write, manifest, sealed_manifest, sections)

    def _missing(self, digests: Iterable[str]) -> tuple[str, ...]:
        return tuple(digest for digest in digests if not (self._sections / digest).exists())

    def _write(self, manifest: Manifest, sealed: bytes, sections: Mapping[str, bytes]) -> None:
        self._sections.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self._folder / "lock"):
            if not self._is_wanted(manifest):
                return
            for digest, payload in sections.items():
                _replace(self._sections / digest, payload)
            if self._missing(manifest.sections.values()):
                raise SourceFault("another process removed a section meanwhile")
            _replace(self._folder / "manifest", sealed)
            self._prune(frozenset(manifest.sections.values()))

    def _is_wanted(self, manifest: Manifest) -> bool:
        sealed = _read(self._folder / "manifest")
        if sealed is None:
            return True
        try:
            return is_newer(manifest, open_manifest(self._data_key, sealed))
        except (SealError, CodecError):
            return True

    def _prune(self, digests: frozenset[str]) -> None:
        for path in self._sections.iterdir():
            if path.name not in digests:
                path.unlink()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes) -> None:
    """Put a whole file in place of the old one; its seal tells if a power cut tore it."""
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that all processes of the host respect, for a few file operations."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
