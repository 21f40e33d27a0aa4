"""What can go wrong in this plane: the code a program reads, the status, and words for people.

Services raise these; `error_responses` is the one table that turns exceptions into answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from inference.decisions.validation import Problem

Fields = Mapping[str, Sequence[str]]


class ControlPlaneError(Exception):
    """A refusal with a code. `fields` says by field what is wrong, in words."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str, *, fields: Fields | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields: Fields = fields or {}


class Invalid(ControlPlaneError):
    """The edit isn't sound; nothing was stored."""

    code = "invalid"
    http_status = 400

    @classmethod
    def field(cls, name: str, message: str) -> "Invalid":
        """One field is wrong."""
        return cls("Some fields are not valid.", fields={name: [message]})


class ProblemsFound(Invalid):
    """The configuration that would result is not one a gateway may be given.

    `problems` are the validator's own; `fields` has those of the edited record by field, and those
    of other records by `<section>.<record id>.<field>`.
    """

    code = "problems_found"

    def __init__(self, problems: Iterable[Problem], *, subject_id: str | None = None) -> None:
        self.problems = tuple(problems)
        fields: dict[str, list[str]] = {}
        for problem in self.problems:
            fields.setdefault(_place_of(problem, subject_id), []).append(problem.message)
        super().__init__("The resulting configuration would not be valid.", fields=fields)


def _place_of(problem: Problem, subject_id: str | None) -> str:
    # people name a pool, not the id the snapshot refers to it by
    field = problem.field.removesuffix("_id")
    if subject_id is not None and problem.record_id == subject_id:
        return field
    return f"{problem.section}.{problem.record_id}.{field}"


class NotFound(ControlPlaneError):
    """There is no such object, or none this caller may know of."""

    code = "not_found"
    http_status = 404

    def __init__(self, detail: str = "There is no such object.") -> None:
        super().__init__(detail)


class NotAllowed(ControlPlaneError):
    """The caller's roles don't reach this far."""

    code = "permission_denied"
    http_status = 403


class Conflict(ControlPlaneError):
    """The state of things forbids it."""

    code = "conflict"
    http_status = 409


class DatabaseBehind(Conflict):
    """Somebody holds a newer configuration than the database: an edit would be of another history.

    The code is that of any conflict; the message names the command that mends it.
    """


class InUse(Conflict):
    """Something still depends on the object; `fields` names the dependants by noun."""

    code = "in_use"

    @classmethod
    def by(cls, what: str, noun: str, names: Sequence[str]) -> "InUse":
        """Say who uses it: at most a few by name, the rest by number."""
        return cls(f"{what} is used by {noun}: {_few(names)}.", fields={noun: list(names)})


def _few(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class KeyReused(ControlPlaneError):
    """The Idempotency-Key came with another request before."""

    code = "idempotency_key_reused"
    http_status = 422

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key came with another request before.")


class Revoked(Conflict):
    """The key or token was revoked, and that is final."""

    code = "revoked"


class VersionMismatch(ControlPlaneError):
    """Somebody changed the object since the caller read it."""

    code = "version_mismatch"
    http_status = 412

    def __init__(self, current: int) -> None:
        super().__init__(f"The object has changed since; it is now at version {current}.")
        self.current = current
