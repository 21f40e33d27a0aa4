"""Every name under which the planes meet in the state store, in one place."""

from collections.abc import Sequence

LINEAGE = "hw:lineage"
SEEDED_AT = "hw:seeded_at"

MANIFEST = "hw:snapshot:manifest"
SNAPSHOT_CHANGED = "hw:snapshot:changed"

DIRECTORY = "hw:fleet:directory"
DIRECTORY_CHANGED = "hw:fleet:changed"
LEADER = "hw:fleet:leader"
FENCING = "hw:fleet:fencing"

USAGE_STREAM = "hw:usage:stream"
USAGE_GROUP = "recorder"
USAGE_FIELD = "e"
JOURNAL_MARKS = "hw:usage:marks"

VITALS_PREFIX = "hw:vitals:"


def section_key(digest: str) -> str:
    """Where the section of this content digest is kept."""
    return f"hw:snapshot:section:{digest}"


def vitals_key(process: str) -> str:
    """Where one process keeps its vitals record."""
    return f"{VITALS_PREFIX}{process}"


def worker_log_key(worker_id: str) -> str:
    """Where the tail of a worker's log is shipped while a page asks for it."""
    return f"hw:logs:{worker_id}"


def key_section(bucket: str) -> str:
    """The section that holds one bucket of API keys."""
    return f"keys/{bucket}"


def section_names(key_buckets: Sequence[str]) -> tuple[str, ...]:
    """All sections of a snapshot with these key buckets."""
    return (*SECTIONS, *(key_section(bucket) for bucket in key_buckets))


SECTIONS = ("organisations", "models", "prices", "pools", "routes")
