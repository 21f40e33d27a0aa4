"""The configuration a process runs on: all that can fail is prepared, then a swap that cannot."""

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from inference.contract.codec import CodecError, assemble, decode_records, index_section
from inference.contract.sealing import SealError
from inference.contract.snapshot import ConfigSnapshot, Manifest
from inference.contract.vitals import Applied
from inference.decisions.validation import Host, Problem, sections_to_check, steps_in_section
from inference.snapshots.source import SnapshotSource, SourceFault, open_manifest, open_section

# After so many records the loop turns, however many there are: a request waits for 2 ms at most.
_RECORDS_A_TURN = 50

Listener = Callable[[ConfigSnapshot], None]

log = structlog.get_logger(__name__)


class SnapshotRefused(Exception):
    """A snapshot this process will not run on, however often it is offered."""


@dataclass(frozen=True, slots=True)
class _Section:
    digest: str
    index: Mapping[Any, Any]


_Sections = Mapping[str, _Section]


class SnapshotHolder:
    """Holds the newest good snapshot. `current` is None until the first; it never goes back.

    `applied` says for vitals what runs and, while a newer one is refused, which and why.
    """

    def __init__(
        self,
        data_key: bytes,
        *,
        own_ports: frozenset[int] = frozenset(),
        allow_remote_code: bool = False,
        allow_fake_workers: bool = False,
    ) -> None:
        self._data_key = data_key
        self._host = Host(own_ports, allow_remote_code, allow_fake_workers)
        self._sections: _Sections = {}
        self._retired: list[_Section] = []
        self._listeners: list[Listener] = []
        self._settled: bytes | None = None
        self._is_ready = asyncio.Event()
        self.current: ConfigSnapshot | None = None
        self.applied = Applied()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every snapshot from now on, right after its swap; it may not fail.

        A listener that comes late hears the current one at once.
        """
        self._listeners.append(listener)
        if self.current is not None:
            listener(self.current)

    async def wait_ready(self) -> ConfigSnapshot:
        """Return the current snapshot as soon as there is one."""
        await self._is_ready.wait()
        assert self.current is not None
        return self.current

    async def take(self, source: SnapshotSource) -> bytes | None:
        """Swap to what a source offers if that is newer and good.

        Returns the sealed manifest swapped to, else None. An older one is passed over in silence;
        a bad one is refused, logged and shown in `applied`, and asked for again only if the fault
        was the source's. Raises what the source raises.
        """
        await self._drop_retired()
        sealed = await source.manifest()
        if sealed is None or sealed == self._settled:
            return None
        manifest = self._opened(sealed)
        if manifest is None or not self._is_wanted(manifest):
            self._settled = sealed
            return None
        try:
            snapshot, sections = await self._prepare(manifest, source)
        except SourceFault as fault:
            self._refuse(manifest.version, str(fault))
            return None
        except SnapshotRefused as refusal:
            self._settled = sealed
            self._refuse(manifest.version, str(refusal))
            return None
        self._settled = sealed
        self._swap(snapshot, sections)
        return sealed

    def _opened(self, sealed: bytes) -> Manifest | None:
        try:
            return open_manifest(self._data_key, sealed)
        except (SealError, CodecError) as error:
            self._refuse(None, f"the manifest cannot be read: {error}")
            return None

    def _is_wanted(self, manifest: Manifest) -> bool:
        held = self.current
        if held is None:
            return True
        if (manifest.lineage, manifest.version) > (held.lineage, held.version):
            return True
        # the one refused before is gone
        self.applied = Applied(held.lineage, held.version)
        return False

    async def _prepare(
        self, manifest: Manifest, source: SnapshotSource
    ) -> tuple[ConfigSnapshot, _Sections]:
        gc.collect()  # or the garbage there is would be spared with the records, and kept for ever
        sections: dict[str, _Section] = {}
        for name, digest in manifest.sections.items():
            held = self._sections.get(name)
            if held is None or held.digest != digest:
                held = await self._fetch(name, digest, source)
            sections[name] = held
        try:
            snapshot = assemble(manifest, {name: one.index for name, one in sections.items()})
        except CodecError as error:
            raise SnapshotRefused(str(error)) from error
        await self._check(snapshot, sections)
        return snapshot, sections

    async def _fetch(self, name: str, digest: str, source: SnapshotSource) -> _Section:
        """Read one section, and let the loop turn: requests are served meanwhile."""
        payload = open_section(self._data_key, digest, await source.section(digest))
        await asyncio.sleep(0)
        records: list[Any] = []
        try:
            for record in decode_records(name, payload):
                records.append(record)
                if len(records) % _RECORDS_A_TURN == 0:
                    _spare()
                    await asyncio.sleep(0)
        except CodecError as error:
            raise SnapshotRefused(f"section {name} cannot be read: {error}") from error
        index = index_section(name, records)
        if len(index) != len(records):
            raise SnapshotRefused(f"section {name} holds two records for one place")
        _spare()
        await asyncio.sleep(0)
        return _Section(digest, index)

    async def _check(self, snapshot: ConfigSnapshot, sections: _Sections) -> None:
        changed = [name for name, one in sections.items() if self._sections.get(name) is not one]
        for name in sections_to_check(changed, sections):
            problems = []
            for number, step in enumerate(steps_in_section(snapshot, name, self._host), 1):
                if step is not None:
                    problems.append(step)
                if number % _RECORDS_A_TURN == 0:
                    await asyncio.sleep(0)
            if problems:
                raise SnapshotRefused(_words(problems))
            await asyncio.sleep(0)

    async def _drop_retired(self) -> None:
        """Let go of what the last swap left, little by little: to free a record takes time too."""
        while self._retired:
            del self._retired[-1]
            await asyncio.sleep(0)

    def _refuse(self, version: int | None, why: str) -> None:
        refused = replace(self.applied, refused_version=version, refused_why=why)
        if refused != self.applied:
            log.error("snapshot refused", snapshot_version=version, why=why)
        self.applied = refused

    def _swap(self, snapshot: ConfigSnapshot, sections: _Sections) -> None:
        self._retired += self._sections.values()
        self._sections = sections
        self.current = snapshot
        self.applied = Applied(snapshot.lineage, snapshot.version)
        for listener in self._listeners:
            listener(snapshot)
        self._is_ready.set()
        _spare()
        log.info("snapshot applied", snapshot_version=snapshot.version, lineage=snapshot.lineage)


def _spare() -> None:
    """Spare the collector the records so far, which never form cycles: few at once, so it is quick.

    It collects what is new first.
    """
    gc.collect(0)
    gc.freeze()


def _words(problems: Sequence[Problem]) -> str:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first.section} {first.record_id} {first.field}: {first.message}{more}"
