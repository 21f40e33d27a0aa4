"""Differences as people read them: one line a field, the old value and the new one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.console.formats import dollars

NOT_SET = "not set"

_UNITS = {"_ms": "ms", "_s": "s", "_tokens": "tokens", "_percent": "%"}
_LABELS = {"cordoned": "Drained workers", "worker_restarts": "Restarts of single workers"}
_NONE = {"cordoned": "none", "worker_restarts": "none"}
_PRICE, _MONEY = "_nanousd_per_mtok", "_nanousd"
_KEYS = ("pool", "pool_id", "id", "subject")
"""What parts of a list are told apart by: a target by its pool, a scope by its kind, else by id."""


@dataclass(frozen=True, slots=True)
class Line:
    """One field that differs. None stands for a side on which there is nothing at all."""

    label: str
    before: str | None
    after: str | None


def label_of(field: str) -> str:
    """A field's name in words: no prefix, no unit."""
    if field in _LABELS:
        return _LABELS[field]
    words = field.removesuffix(_PRICE).removesuffix(_MONEY).removeprefix("is_")
    for suffix in _UNITS:
        words = words.removesuffix(suffix) if suffix != "_tokens" else words
    label = words.replace("_", " ").strip() or field
    return label[:1].upper() + label[1:]


def shown(field: str, value: object, names: Mapping[str, str] | None = None) -> str:
    """A value as the page writes it, with its unit; ids by name where `names` has them."""
    if value is None or value in ("", [], {}):
        return _NONE.get(field, NOT_SET)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith(_PRICE):
        return f"{dollars(int(str(value)))} per 1M tokens"
    if field.endswith(_MONEY):
        return dollars(int(str(value)))
    if isinstance(value, int):
        unit = next((unit for suffix, unit in _UNITS.items() if field.endswith(suffix)), "")
        return f"{value:,} {unit}".strip()
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, float):
        return f"{value:,g}"
    if field == "worker_restarts" and isinstance(value, Mapping):
        return ", ".join(f"worker {number}: {count}" for number, count in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(str(key), one, names)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(field, one, names) for one in value)
    return (names or {}).get(str(value), str(value))


def lines_of(
    before: Mapping[str, object] | None,
    after: Mapping[str, object] | None,
    names: Mapping[str, str] | None = None,
) -> Sequence[Line]:
    """What differs between two states of an object; None is that it isn't there.

    Lists of parts with an id, such as a route's targets, differ part by part.
    """
    found: list[Line] = []
    for field in sorted({*(before or {}), *(after or {})}):
        old, new = (before or {}).get(field), (after or {}).get(field)
        if before is not None and after is not None and old == new:
            continue
        if old is None and new is None:
            continue
        if _is_parts(old) or _is_parts(new):
            found.extend(_parts(field, old, new, names))
        else:
            found.append(
                Line(
                    label_of(field),
                    None if before is None else shown(field, old, names),
                    None if after is None else shown(field, new, names),
                )
            )
    return found


def _is_parts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _parts(field: str, old: object, new: object, names: Mapping[str, str] | None) -> Sequence[Line]:
    sides = [_by_key(side) for side in (old, new)]
    found = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        was, now = (side.get(key) for side in sides)
        if was == now:
            continue
        own = (now or was or {}).get("name")
        label = f"{label_of(field).removesuffix('s')} {own or (names or {}).get(key, key)}"
        found.append(Line(label, _part(was, names), _part(now, names)))
    return found


def _by_key(side: object) -> dict[str, Mapping[str, object]]:
    """Parts by what tells them apart; a second one of the same pool, in another tier, by its id."""
    found: dict[str, Mapping[str, object]] = {}
    for part in side if isinstance(side, list) else []:
        keys = [str(part[key]) for key in _KEYS if part.get(key)]
        found[next((key for key in keys if key not in found), keys[-1])] = part
    return found


def _part(part: Mapping[str, object] | None, names: Mapping[str, str] | None) -> str | None:
    if part is None:
        return None
    if "subject" in part:
        pk = part.get("subject_id")
        return "each" if pk is None else (names or {}).get(str(pk), str(pk))
    told = [(key, value) for key, value in part.items() if key not in (*_KEYS, "name")]
    words = (f"{label_of(key).lower()} {shown(str(key), value, names)}" for key, value in told)
    return ", ".join(words)
