"""Drafts: an edit tried out and undone, so that people see what it would do before it does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from django.db import IntegrityError, connection, transaction

from controlplane.errors import Conflict, ControlPlaneError, Fields, Invalid
from controlplane.models import AuditEntry, ConfigRevision, ConfigSection
from controlplane.services import audit
from controlplane.services.snapshots import configuration_edit
from inference.contract.codec import decode_section, noun_of

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row an edit would make, change or remove; `before` and `after` as in the audit trail.

    They hold the changed fields alone, null stands for no object, secrets are masked. The id of a
    row that would be made is not the one it will get.
    """

    noun: str
    object_id: str
    action: str
    before: Values | None
    after: Values | None


@dataclass(frozen=True, slots=True)
class Draft:
    """What an edit would do, on `version` of the configuration (None: there is none yet).

    `sections` are the snapshot's nouns that gateways would see change; none means that they would
    not notice. `refused` is why the edit would be refused; then nothing else is told, and
    `problems` has the messages by field.
    """

    version: int | None
    changes: tuple[RowChange, ...]
    sections: tuple[str, ...]
    refused: ControlPlaneError | None = None

    @property
    def problems(self) -> Fields:
        """Messages by dotted field, empty if the edit would be accepted or no field is at fault."""
        return {} if self.refused is None else self.refused.fields


def draft(edit: Callable[[], object]) -> Draft:
    """Run a service call, tell what it did, and undo all of it; nothing is stored or published.

    Edits of the configuration wait meanwhile, as for any edit. What Invalid and Conflict refuse
    comes back as `refused`; NotFound, NotAllowed and VersionMismatch are raised, for then there is
    nothing to draft.
    """
    with configuration_edit():
        current = ConfigRevision.objects.order_by("-id").first()
        version = None if current is None else current.version
        try:
            with audit.entries_noted() as entries:
                after = _tried(edit)
        except (Invalid, Conflict) as error:
            return Draft(version, (), (), refused=error)
    sections = _changed_sections(current, after)
    return Draft(version, tuple(_row_change(entry) for entry in entries), sections)


def _tried(edit: Callable[[], object]) -> ConfigRevision | None:
    """Run the edit, read the version it staged, and roll back to where it began."""
    try:
        with transaction.atomic():
            edit()
            # what is checked at commit only must speak up now
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            after = ConfigRevision.objects.order_by("-id").first()
            transaction.set_rollback(True)
    except IntegrityError as error:
        raise Conflict("Somebody else changed this at the same moment; try again.") from error
    return after


def _changed_sections(
    before: ConfigRevision | None, after: ConfigRevision | None
) -> tuple[str, ...]:
    old = {} if before is None else before.manifest
    new = {} if after is None else after.manifest
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    return tuple(sorted({noun_of(name) for name in changed}))


def _row_change(entry: AuditEntry) -> RowChange:
    return RowChange(entry.noun, entry.object_id, entry.action, entry.before, entry.after)


@dataclass(frozen=True, slots=True)
class DraftedRoute:
    """A route as gateways would be given it after an edit, on this version of the configuration."""

    record: Mapping[str, object]
    lineage: str
    version: int


def drafted_route(edit: Callable[[], object], route_id: str) -> DraftedRoute:
    """What an edit would make of a route; nothing is stored or published.

    Raises what the edit would be refused with, and Conflict before there is any configuration.
    """
    found: list[Mapping[str, object]] = []

    def read() -> None:
        edit()
        found.append(_route_record(route_id))

    tried = draft(read)
    if tried.refused is not None:
        raise tried.refused
    current = ConfigRevision.objects.order_by("-id").first()
    if current is None:
        raise Conflict("There is no configuration yet.")
    return DraftedRoute(found[0], current.lineage, current.version)


def _route_record(route_id: str) -> Mapping[str, object]:
    """The route in the newest version this transaction sees, as plain JSON."""
    revision = ConfigRevision.objects.order_by("-id").first()
    assert revision is not None
    section = ConfigSection.objects.get(digest=revision.manifest["routes"])
    for record in decode_section("routes", bytes(section.content)):
        if record.id == route_id:
            plain: Mapping[str, object] = msgspec.to_builtins(record)
            return plain
    raise Conflict("The route would be gone.")
