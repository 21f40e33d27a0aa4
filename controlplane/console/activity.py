"""The audit trail as pages tell it: who changed what, when, with each change as a difference."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Model

from controlplane.console.diffs import Line, lines_of
from controlplane.console.nouns import NOUNS
from controlplane.models import AuditEntry
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_audit
from controlplane.selectors.names import list_names

SHOWN = 20

_PAST = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "revoke": "revoked",
    "rotate": "rotated",
    "restore": "rolled back",
    "adopt": "adopted",
    "grant": "granted",
    "issue": "issued",
    "throw": "thrown",
    "put_back": "put back",
    "raise": "raised",
    "end_raise": "ended the raise of",
    "expire": "expired",
    "test": "tested",
    "resend": "sent again",
    "disable": "switched off",
    "set_password": "set the password of",
}
_OTHERS = {"role_bindings": "role", "api_tokens": "token"}
_NEVER_CHANGED = frozenset({"audit", "snapshots", "bindings"})
"""Nouns the trail doesn't know, or calls by another name."""


@dataclass(frozen=True, slots=True)
class Change:
    """One audit row with its difference."""

    entry: AuditEntry
    verb: str
    lines: Sequence[Line]


def object_of(noun: str) -> str:
    """What kind of thing an entry speaks of, in words."""
    return NOUNS[noun].one if noun in NOUNS else _OTHERS.get(noun, noun.replace("_", " "))


def verb_of(action: str) -> str:
    """What was done, in the past tense."""
    return _PAST.get(action, action.replace("_", " "))


def nouns_told() -> list[tuple[str, str]]:
    """Every noun of the trail, with its word."""
    known = (*(key for key in NOUNS if key not in _NEVER_CHANGED), *_OTHERS)
    return sorted(((key, object_of(key)) for key in known), key=lambda one: one[1])


def actions_told() -> list[tuple[str, str]]:
    """Every action of the trail, with its word."""
    return sorted(((key, verb_of(key)) for key in _PAST), key=lambda one: one[1])


def changes_of(
    access: Access, row: Model, noun: str, *, before_id: int | None = None
) -> list[Change]:
    """The newest changes of an object, at most SHOWN; older ones begin before `before_id`."""
    entries = list_audit(access).filter(noun=noun, object_id=str(row.pk)).order_by("-id")
    if before_id is not None:
        entries = entries.filter(id__lt=before_id)
    return told(access, entries[:SHOWN])


def last_change(access: Access, row: Model, noun: str) -> Change | None:
    """The newest change of an object, without its difference; None if the reader may see none."""
    entries = list_audit(access).filter(noun=noun, object_id=str(row.pk)).order_by("-id")
    entry = entries.first()
    return None if entry is None else Change(entry, verb_of(entry.action), ())


def told(access: Access, entries: Iterable[AuditEntry]) -> list[Change]:
    """Entries with their differences, all ids they mention named by one query."""
    found = list(entries)
    names = list_names(access, {one for entry in found for one in _ids_in(entry)})
    return [
        Change(entry, verb_of(entry.action), lines_of(entry.before, entry.after, names))
        for entry in found
    ]


def _ids_in(entry: AuditEntry) -> Iterator[str]:
    for side in (entry.before, entry.after):
        yield from _texts(side)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if "_" in value and len(value) <= 40:
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
