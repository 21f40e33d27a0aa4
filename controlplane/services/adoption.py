"""A database that was put back to an older copy becomes the one truth by a lineage of its own.

Gateways and the state store keep the newest configuration they have seen, whatever the database
says; only a greater lineage makes them take an older one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.utils import timezone

from controlplane.decisions.epochs import Position, adopted_position
from controlplane.identifiers import new_ulid
from controlplane.models import ConfigRevision
from controlplane.services import audit, snapshots
from controlplane.services.actors import Actor
from controlplane.services.usage import expect_marks

INSTALLATION = "installation"


@dataclass(frozen=True, slots=True)
class Adopted:
    """What came of it: the version, and how many events of the former ledger this one lacks yet."""

    revision: ConfigRevision
    missing_events: int


def adopt_configuration(
    actor: Actor, *, known: Iterable[Position], reached: Mapping[str, int], reason: str
) -> Adopted:
    """Begin a lineage greater than all that is known, with the configuration the rows have.

    `known` are positions that store and gateways hold; `reached` says up to where the store takes
    each journal to be recorded. It is one transaction with one audit entry, and published when it
    commits. Raises ProblemsFound if the rows are no valid configuration on this host.
    """
    actor = replace(actor, reason=reason)
    with snapshots.configuration_edit():
        rows = ConfigRevision.objects.order_by("-id").values_list("lineage", "version")
        held = rows.first()
        ours = [] if held is None else [(str(held[0]), int(held[1]))]
        position = adopted_position(new_ulid(), [*ours, *known])
        revision = snapshots.stage_at(actor, reason, position)
        missing = expect_marks(reached, timezone.now())
        audit.record(
            actor,
            action="adopt",
            noun="snapshots",
            object_id=INSTALLATION,
            organisation_id=None,
            before={"lineage": held[0], "version": held[1]} if held else None,
            after={
                "lineage": revision.lineage,
                "version": revision.version,
                "missing_events": missing,
            },
        )
    return Adopted(revision, missing)
