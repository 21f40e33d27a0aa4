"""What a version of the configuration held, in plain words, and how two versions differ."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from inference.contract.kinds import LimitSubject
from inference.contract.snapshot import BudgetScope, LimitRecord, SwitchRecord

Told = Mapping[str, object]

MASK = "[redacted]"
_SECRET = frozenset(("credential", "digests"))
_MONEY = ("_nanousd_per_mtok", "_nanousd")
_TIMES = ("expires_at", "raised_until")


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One record that two versions both have: its changed fields before and after."""

    id: str
    before: Told
    after: Told


@dataclass(frozen=True, slots=True)
class NounDifference:
    """What came, went and changed of one noun, each ordered by id."""

    added: tuple[Told, ...]
    removed: tuple[Told, ...]
    changed: tuple[RowDifference, ...]


def tell(record: Any) -> dict[str, object]:
    """A record as JSON: secrets masked, money as text, times in RFC 3339, keys by their ids."""
    told = {one.name: _told(one.name, getattr(record, one.name)) for one in fields(record)}
    named = isinstance(record, LimitRecord | SwitchRecord | BudgetScope)
    if named and record.subject == LimitSubject.KEY.value:
        # gateways know keys without the prefix, everybody else with it
        told["subject_id"] = record.subject_id and f"key_{record.subject_id}"
    return told


def compare(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> dict[str, NounDifference]:
    """The differences of two versions' records by noun and id; nouns without any are absent."""
    compared = {
        noun: _compare_noun(old.get(noun, {}), new.get(noun, {})) for noun in sorted({*old, *new})
    }
    return {noun: one for noun, one in compared.items() if one.added or one.removed or one.changed}


def _compare_noun(old: Mapping[str, Any], new: Mapping[str, Any]) -> NounDifference:
    changed = (_compare_rows(old[pk], new[pk]) for pk in sorted(old.keys() & new.keys()))
    return NounDifference(
        added=tuple(tell(new[pk]) for pk in sorted(new.keys() - old.keys())),
        removed=tuple(tell(old[pk]) for pk in sorted(old.keys() - new.keys())),
        changed=tuple(one for one in changed if one is not None),
    )


def _compare_rows(old: Any, new: Any) -> RowDifference | None:
    """Compared as they are, told masked: a new secret shows as a change without being shown."""
    names = [one.name for one in fields(new) if getattr(old, one.name) != getattr(new, one.name)]
    if not names:
        return None
    before, after = tell(old), tell(new)
    return RowDifference(
        new.id, {name: before[name] for name in names}, {name: after[name] for name in names}
    )


def _told(name: str, value: Any) -> object:
    if value is None:
        return None
    if name in _SECRET:
        return MASK
    if name.endswith(_MONEY):
        return str(value)
    if name in _TIMES:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    return _plain(value)


def _plain(value: Any) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return tell(value)
    return value
