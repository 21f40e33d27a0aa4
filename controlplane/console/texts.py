"""Records as text a person reads and copies."""

from collections.abc import Mapping, Sequence


def as_text(value: object, indent: str = "") -> str:
    """Nested values as indented lines, one fact each, the plain ones first; empty says so."""
    return "\n".join(_lines(value, indent))


def _lines(value: object, indent: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        items = sorted(value.items(), key=lambda pair: (_is_nested(pair[1]), str(pair[0])))
        return [line for key, item in items for line in _entry(f"{key}:", item, indent)]
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [line for item in value for line in _item(item, indent)]
    return [indent + _scalar(value)]


def _entry(key: str, item: object, indent: str) -> list[str]:
    if _is_nested(item):
        return [indent + key, *_lines(item, indent + "  ")]
    return [f"{indent}{key} {_scalar(item)}"]


def _item(item: object, indent: str) -> list[str]:
    first, *rest = _lines(item, indent + "  ")
    return [f"{indent}- {first.strip()}", *rest]


def _is_nested(item: object) -> bool:
    return isinstance(item, Mapping | list | tuple) and bool(item)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return "none"
    return str(value)
