"""Writing the audit trail: the only place that does, and the only place that has to scrub."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, time

from controlplane.models import AuditEntry
from controlplane.redaction import scrub, scrub_text
from controlplane.services.actors import Actor

Values = Mapping[str, object]

REASON_LENGTH = 2_000

_noted: ContextVar[list[AuditEntry] | None] = ContextVar("noted_entries", default=None)


@contextmanager
def entries_noted() -> Iterator[list[AuditEntry]]:
    """The entries this thread writes meanwhile, in order; they fill the list as they are made."""
    entries: list[AuditEntry] = []
    token = _noted.set(entries)
    try:
        yield entries
    finally:
        _noted.reset(token)


def record(
    actor: Actor,
    *,
    action: str,
    noun: str,
    object_id: str,
    organisation_id: str | None,
    before: Values | None = None,
    after: Values | None = None,
) -> AuditEntry:
    """Write one entry in the caller's transaction, secrets masked in every column."""
    entry = AuditEntry.objects.create(
        organisation_id=organisation_id,
        actor_kind=actor.kind.value,
        actor_id=actor.id,
        actor_label=scrub_text(actor.label),
        via=actor.via.value,
        request_id=scrub_text(actor.request_id),
        action=action,
        noun=noun,
        object_id=object_id,
        before=scrub(as_json(before)),
        after=scrub(as_json(after)),
        reason=scrub_text(actor.reason[:REASON_LENGTH]),
    )
    noted = _noted.get()
    if noted is not None:
        noted.append(entry)
    return entry


def as_json(values: Values | None) -> dict[str, object] | None:
    """Values as JSON keeps them: times in RFC 3339, whole numbers beyond 2^53 as text."""
    return None if values is None else {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)
    return value
