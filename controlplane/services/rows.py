"""How a row is locked, changed and checked: the same for every noun."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import IntegrityError
from django.db.models import (
    BaseConstraint,
    CheckConstraint,
    Expression,
    F,
    ForeignKey,
    Model,
    Q,
    UniqueConstraint,
)
from django.utils import timezone

from controlplane.errors import Invalid, NotFound, VersionMismatch
from controlplane.models.rows import VersionedRow

Row = TypeVar("Row", bound=VersionedRow)
AnyRow = TypeVar("AnyRow", bound=Model)
Values = Mapping[str, Any]
Change = tuple[dict[str, Any], dict[str, Any]]  # the changed fields before and after


def lock(kind: type[Row], pk: str, *, expected_version: int | None = None) -> Row:
    """Lock a row until the transaction ends, or raise NotFound or VersionMismatch."""
    row = kind._default_manager.select_for_update().filter(pk=pk).first()
    if row is None:
        raise NotFound
    if expected_version is not None and row.version != expected_version:
        raise VersionMismatch(row.version)
    return row


def insert(row: AnyRow) -> AnyRow:
    """Check a new row and insert it, or raise Invalid naming its fields."""
    check(row)
    with _violations_told(row):
        row.save(force_insert=True)
    return row


def change(row: Row, values: Values, *, touch: bool = False) -> Change | None:
    """Write the named values alone, checked together with the rest of the row.

    Returns what changed, before and after, or None if nothing did; `touch` makes it a new version
    all the same, for a row whose parts changed.
    """
    before = {name: _stored(row, name) for name in values}
    for name, value in values.items():
        setattr(row, name, value)
    after = {name: _stored(row, name) for name in values}
    changed = [name for name in values if before[name] != after[name]]
    if not changed and not touch:
        return None
    check(row)
    row.version += 1
    row.updated_at = timezone.now()
    with _violations_told(row):
        row.save(update_fields=[*changed, "version", "updated_at"])
    return {name: before[name] for name in changed}, {name: after[name] for name in changed}


def remove(row: Model) -> None:
    """Delete a row and what is part of it; the value in hand keeps its id for the audit trail."""
    type(row)._default_manager.filter(pk=row.pk).delete()


def _stored(row: Model, name: str) -> Any:
    """A field's value as the audit trail tells it: ids for rows, copies of lists."""
    field = row._meta.get_field(name)
    value = getattr(row, field.attname if isinstance(field, ForeignKey) else name)
    return list(value) if isinstance(value, list) else value


def check(row: Model) -> None:
    """Raise Invalid with every field that can't be stored; constraints are the database's."""
    # parents came as rows, so they needn't be looked for again
    parents = [field.name for field in row._meta.fields if isinstance(field, ForeignKey)]
    try:
        row.clean_fields(exclude=parents)
    except ValidationError as error:
        fields = {name: _messages(problems) for name, problems in error.error_dict.items()}
        raise Invalid("Some fields are not valid.", fields=fields) from error


def _messages(problems: Iterable[ValidationError]) -> list[str]:
    return [message for problem in problems for message in problem.messages]


@contextmanager
def _violations_told(row: Model) -> Iterator[None]:
    """Turn a violated constraint into Invalid at its field; there is no check to race with."""
    try:
        yield
    except IntegrityError as error:
        diagnosis = getattr(error.__cause__, "diag", None)
        name = getattr(diagnosis, "constraint_name", None)
        broken = next((one for one in row._meta.constraints if one.name == name), None)
        if broken is None:
            raise
        message = str(broken.get_violation_error_message())
        raise Invalid.field(_field_of(row, broken), message) from error


def _field_of(row: Model, constraint: BaseConstraint) -> str:
    """The field a person would mend: the last one a constraint speaks of."""
    names = [name for name in _names_in(constraint) if _is_field(row, name)]
    return names[-1] if names else "detail"


def _names_in(constraint: BaseConstraint) -> Iterator[str]:
    if isinstance(constraint, UniqueConstraint):
        yield from constraint.fields
        for expression in constraint.expressions:
            parts = expression.flatten() if isinstance(expression, Expression) else [expression]
            yield from (part.name for part in parts if isinstance(part, F))
    elif isinstance(constraint, CheckConstraint) and isinstance(constraint.condition, Q):
        yield from _names_asked(constraint.condition)


def _names_asked(condition: Q) -> Iterator[str]:
    for child in condition.children:
        if isinstance(child, Q):
            yield from _names_asked(child)
        elif isinstance(child, tuple):
            yield child[0].partition("__")[0]


def _is_field(row: Model, name: str) -> bool:
    try:
        row._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True
