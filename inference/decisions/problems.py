"""What a check of a configuration says, and what all of them look at."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from inference.contract.params import Bound
from inference.contract.snapshot import ConfigSnapshot

_MAX_LABEL_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of one record. `section` is its noun; `field` is dotted: `targets.0.pool_id`.

    `code` is for programs: required, invalid, out_of_range, duplicate, unknown, foreign,
    forbidden_address, overlap, and those of `engine.problems_with`. `message` is a sentence.
    """

    section: str
    record_id: str
    field: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Host:
    """What the checks need to know of the machine they run for."""

    own_ports: frozenset[int] = frozenset()
    allow_remote_code: bool = False
    allow_fake_workers: bool = False


Finding = tuple[str, str, str]
"""Field, code and message."""


def named(section: str, record_id: str, findings: Iterable[Finding]) -> Iterator[Problem | None]:
    """Findings in one record as problems, and None for the record's end: see `steps_in_section`."""
    for field, code, message in findings:
        yield Problem(section, record_id, field, code, message)
    yield None


def out_of_bounds(record: object, bounds: Mapping[str, Bound]) -> Iterator[Finding]:
    """Numbers that are not within what they may be; a null is none."""
    for field, bound in bounds.items():
        value = getattr(record, field)
        message = None if value is None else bound.problem_with(value)
        if message is not None:
            yield field, "out_of_range", message


def organisation_findings(snapshot: ConfigSnapshot, organisation_id: str) -> Iterator[Finding]:
    """Whether the organisation is there."""
    if organisation_id not in snapshot.organisations:
        yield "organisation_id", "unknown", "There is no such organisation."


def is_label(text: str) -> bool:
    """Whether a text is 1 to 255 printable characters."""
    return 0 < len(text) <= _MAX_LABEL_LENGTH and text.isprintable() and not text.isspace()
