"""Differences of versions as pages show them: one block an object, a line a field."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.console.diffs import Line, lines_of
from controlplane.console.nouns import NOUNS
from controlplane.decisions.subjects import subject_words
from controlplane.decisions.versions import NounDifference
from controlplane.services.drafts import Draft

_OWN_BUSINESS = frozenset({"id", "organisation_id"})


@dataclass(frozen=True, slots=True)
class Block:
    """One object that came, went or changed."""

    title: str
    verb: str
    lines: Sequence[Line]


def blocks_of(
    differences: Mapping[str, NounDifference], names: Mapping[str, str]
) -> Sequence[Block]:
    """What two versions differ in, object by object."""
    return [block for noun, one in differences.items() for block in _blocks(noun, one, names)]


def ids_in(differences: Mapping[str, NounDifference]) -> set[str]:
    """The ids of all objects that differ, and of those they mention."""
    told: list[Any] = []
    for one in differences.values():
        told += [*one.added, *one.removed]
        for row in one.changed:
            told += [row.id, row.before, row.after]
    return set(_texts(told))


def blocks_of_draft(draft: Draft, names: Mapping[str, str]) -> Sequence[Block]:
    """What a draft would change, object by object."""
    verbs = {"create": "comes", "delete": "goes", "update": "changes", "restore": "changes"}
    found = []
    for one in draft.changes:
        comes_back = one.action == "restore" and one.before is None
        verb = "comes back" if comes_back else verbs.get(one.action, one.action)
        title = _title(one.noun, one.object_id, one.after or one.before or {}, names)
        found.append(Block(title, verb, lines_of(one.before, one.after, names)))
    return found


def _blocks(noun: str, one: NounDifference, names: Mapping[str, str]) -> Iterator[Block]:
    for told in one.added:
        lines = lines_of(None, _shown(told), names)
        yield Block(_title(noun, str(told["id"]), told, names), "added", lines)
    for row in one.changed:
        lines = lines_of(row.before, row.after, names)
        yield Block(_title(noun, row.id, row.after, names), "changed", lines)
    for told in one.removed:
        lines = lines_of(_shown(told), None, names)
        yield Block(_title(noun, str(told["id"]), told, names), "removed", lines)


def _shown(told: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in told.items() if name not in _OWN_BUSINESS}


def _title(noun: str, pk: str, told: Mapping[str, object], names: Mapping[str, str]) -> str:
    what = NOUNS[noun].one if noun in NOUNS else noun
    name = names.get(pk) or told.get("name")
    if name is None and "subject" in told:
        # of a switch that was put back, what it turned off is left to name it by
        about = told.get("subject_id")
        name = subject_words(str(told["subject"]), about and str(about), names.get(str(about)))
    return f"{what} {name or pk}"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, Iterable):
        for one in value:
            yield from _texts(one)
