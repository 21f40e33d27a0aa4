"""Publishing the configuration: the newest committed version into the state store.

Sections go first, then one script compares lineage and version and swaps the manifest, so a slow
publisher can't put an older version over a newer one, and a gateway never reads a manifest whose
sections aren't there. Nothing here fails an edit: it's committed, and the sweep publishes it again.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from controlplane.bridge.parts import ADOPT
from controlplane.bridge.store import open_store
from controlplane.decisions.epochs import Position
from controlplane.models import ConfigRevision, ConfigSection
from controlplane.selectors.usage_recording import get_marks
from inference.contract import codec, sealing, wire
from inference.contract.snapshot import Manifest

KEPT_VERSIONS = 5
"""Sections of these last versions stay, for gateways that are a few edits behind."""

GRACE_S = 600
"""How long a section nobody names any more can still be fetched."""

_SCAN_COUNT = 1_000

# Makes every named section stay, and returns the positions of those that aren't there.
_CLAIM = """
local missing = {}
for position, key in ipairs(KEYS) do
    redis.call('PERSIST', key)
    if redis.call('EXISTS', key) == 0 then missing[#missing + 1] = position end
end
return missing
"""

# KEYS: manifest, lineage, seeded_at, marks. ARGV: lineage, version, sealed manifest, now, channel,
# digest, then journals and their marks. A store that is seeded anew takes the ledger's marks for
# its own: an emptied one has none, and those of another ledger are too high for one that was put
# back. The digest of a manifest that an older release put there is missing or of a former one, so
# equal bytes count as well.
# Returns 1 when the manifest was swapped, 0 when it's there already, -1 when a newer one is, or
# another of the same version.
_SWAP = """
local lineage = redis.call('HGET', KEYS[1], 'lineage')
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local offered = tonumber(ARGV[2])
if lineage and (lineage > ARGV[1] or (lineage == ARGV[1] and version > offered)) then return -1 end
local is_new = not lineage or lineage ~= ARGV[1] or version < offered
if is_new then
    redis.call('HSET', KEYS[1], 'lineage', ARGV[1], 'version', ARGV[2], 'sealed', ARGV[3])
elseif redis.call('HGET', KEYS[1], 'digest') ~= ARGV[6] then
    if redis.call('HGET', KEYS[1], 'sealed') ~= ARGV[3] then return -1 end
end
redis.call('HSET', KEYS[1], 'digest', ARGV[6])
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
    redis.call('DEL', KEYS[4])
    for i = 7, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
    redis.call('SET', KEYS[2], ARGV[1])
    redis.call('SET', KEYS[3], ARGV[4])
else
    redis.call('SETNX', KEYS[3], ARGV[4])
end
if is_new then
    redis.call('PUBLISH', ARGV[5], ARGV[1] .. ':' .. ARGV[2])
    return 1
end
return 0
"""

log = structlog.get_logger(__name__)


class Publication(StrEnum):
    """What came of publishing."""

    PUBLISHED = "published"
    CURRENT = "current"
    NOTHING = "nothing"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


_RESULTS: Mapping[int, Publication] = {
    1: Publication.PUBLISHED,
    0: Publication.CURRENT,
    -1: Publication.REFUSED,
}


@dataclass(frozen=True, slots=True)
class Stored:
    """The manifest that the store holds: its place in history, and what tells its content."""

    position: Position
    digest: bytes | None
    sealed: bytes | None


def publish() -> Publication:
    """Bring the store up to the newest committed version; repeating it changes nothing.

    Never raises for the store's sake: UNAVAILABLE says that it has to be done again.
    """
    revision = ConfigRevision.objects.order_by("-id").first()
    if revision is None:
        return Publication.NOTHING
    try:
        with open_store() as store:
            result = publish_revision(store, revision)
    except (RedisError, OSError) as error:
        log.warning(
            "configuration not published, the sweep will repeat it",
            version=revision.version,
            error=type(error).__name__,
        )
        return Publication.UNAVAILABLE
    if result is Publication.PUBLISHED:
        log.info("configuration published", version=revision.version)
    elif result is Publication.REFUSED:
        log.error(
            "the state store holds a newer configuration than the database",
            version=revision.version,
            lineage=revision.lineage,
            remedy=ADOPT,
        )
    return result


def publish_revision(store: Redis, revision: ConfigRevision) -> Publication:
    """Put one version into this store; REFUSED if it has a newer one or another history's.

    Raises RedisError.
    """
    stored = read_stored(store)
    if stored is not None and is_foreign(stored, revision.lineage):
        return Publication.REFUSED
    _fill_in_sections(store, sorted(set(revision.manifest.values())))
    swapped = store.eval(
        _SWAP,
        4,
        wire.MANIFEST,
        wire.LINEAGE,
        wire.SEEDED_AT,
        wire.JOURNAL_MARKS,
        revision.lineage,
        revision.version,
        _sealed(revision),
        f"{time.time():.3f}",
        wire.SNAPSHOT_CHANGED,
        _digest(revision),
        *_marks_to_seed(store, revision.lineage),
    )
    return _RESULTS[int(swapped)]


def _sealed(revision: ConfigRevision) -> bytes:
    manifest = Manifest(
        lineage=revision.lineage,
        version=revision.version,
        sections=revision.manifest,
        created_at=revision.created_at.timestamp(),
    )
    return sealing.seal(settings.HEADWORKS.data_key_bytes, codec.encode_manifest(manifest))


def _digest(revision: ConfigRevision) -> str:
    """Tells a version's content, whenever and by whatever release and key it was sealed."""
    content = [revision.lineage, revision.version, sorted(revision.manifest.items())]
    return sealing.content_digest(json.dumps(content).encode())


def _marks_to_seed(store: Redis, lineage: str) -> list[str | int]:
    """The ledger's marks if the store isn't of this lineage yet, each journal before its mark."""
    if store.get(wire.LINEAGE) == lineage.encode():
        return []
    return [part for mark in sorted(get_marks().items()) for part in mark]


def _fill_in_sections(store: Redis, digests: Sequence[str]) -> None:
    keys = [wire.section_key(digest) for digest in digests]
    missing = [digests[position - 1] for position in store.eval(_CLAIM, len(keys), *keys)]
    for digest, content in _contents_of(missing):
        sealed = sealing.seal(settings.HEADWORKS.data_key_bytes, content)
        store.set(wire.section_key(digest), sealed)


def _contents_of(digests: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    rows = ConfigSection.objects.filter(pk__in=digests)
    for row in rows.iterator(chunk_size=100):
        yield row.digest, bytes(row.content)


def published_version() -> tuple[str, int] | None:
    """Lineage and version of the store's manifest; None if there is none. Raises RedisError."""
    with open_store() as store:
        return published_position(store)


def published_position(store: Redis) -> Position | None:
    """`published_version` of a store that is open."""
    stored = read_stored(store)
    return None if stored is None else stored.position


def read_stored(store: Redis) -> Stored | None:
    """What is published there, None if nothing is. Raises RedisError."""
    fields = ("lineage", "version", "digest", "sealed")
    lineage, version, digest, sealed = store.hmget(wire.MANIFEST, *fields)
    if lineage is None or version is None:
        return None
    return Stored((lineage.decode(), int(version)), digest, sealed)


def read_published(store: Redis, stored: Stored, section: str) -> Sequence[Any] | None:
    """The records of a section as published, None if it isn't there.

    Raises RedisError, SealError or CodecError.
    """
    if stored.sealed is None:
        return None
    data_key = settings.HEADWORKS.data_key_bytes
    manifest = codec.decode_manifest(sealing.unseal(data_key, stored.sealed))
    sealed = store.get(wire.section_key(manifest.sections.get(section, "")))
    return (
        None if sealed is None else codec.decode_section(section, sealing.unseal(data_key, sealed))
    )


def is_foreign(stored: Stored, ours: str) -> bool:
    """Whether the database, whose lineage is `ours`, has other content under the stored version.

    Then the store's is of a history that went on without this database. Another lineage's, or a
    version that the database hasn't or no longer has, says nothing.
    """
    lineage, version = stored.position
    if lineage != ours:
        return False
    row = ConfigRevision.objects.filter(lineage=lineage, version=version).order_by("-id").first()
    if row is None or stored.digest == _digest(row).encode():
        return False
    return stored.sealed != _sealed(row)


def collect_sections() -> int:
    """Give every section that none of the last versions names a limited life; returns how many.

    A version that names one again takes the limit away when it's published.
    """
    named = {
        wire.section_key(digest)
        for manifest in ConfigRevision.objects.order_by("-id").values_list("manifest", flat=True)[
            :KEPT_VERSIONS
        ]
        for digest in manifest.values()
    }
    with open_store() as store:
        found = store.scan_iter(match=wire.section_key("*"), count=_SCAN_COUNT)
        stale = [key for key in found if key.decode() not in named]
        return sum(int(store.expire(key, GRACE_S, nx=True)) for key in stale)
