"""Corrections of what was booked: written beside the ledger, and carried to all that sums it.

The counters of budgets in the state store follow: they are compared with the ledger's accounts all
the time (`bridge.budgets`), and an account that a correction moved is among those compared.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from django.db import transaction
from django.utils import timezone

from controlplane.decisions.corrections import end_of, increments_of
from controlplane.errors import Invalid
from controlplane.models import (
    CatalogueModel,
    Key,
    Organisation,
    Project,
    SpendCorrection,
    Team,
)
from controlplane.models.keys import public_key_id
from controlplane.selectors.usage_recording import get_zones
from controlplane.services import audit
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import correct_spending, hold_counting
from controlplane.services.usage import add_increments

MOST_NANOUSD = 10**15
"""Of one correction: sums of many are 64-bit numbers."""

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
SUBJECTS = ("organisation", "team", "project", "key")


def create_correction(
    actor: Actor,
    *,
    organisation: Organisation,
    amount_nanousd: int,
    subject: str,
    subject_id: str | None = None,
    model: CatalogueModel | None = None,
    end_user: str | None = None,
    at: datetime | None = None,
) -> SpendCorrection:
    """Add to what a subject has spent, or with a negative amount take from it, by hand.

    `at` says to which hour, day and budgets' periods it belongs; now unless told otherwise. Needs
    the actor's reason. Raises Invalid.
    """
    if not actor.reason:
        raise Invalid.field("reason", "Say why; it is kept in the audit log.")
    if amount_nanousd == 0 or abs(amount_nanousd) > MOST_NANOUSD:
        raise Invalid.field("amount_nanousd", "Give an amount that isn't 0, of a million at most.")
    now = timezone.now()
    moment = at or now
    if moment > now:
        raise Invalid.field("at", "Only what was spent can be corrected: give a past time.")
    if moment < EARLIEST:
        raise Invalid.field("at", f"Give a time since {EARLIEST.year}.")
    row = SpendCorrection(
        organisation_id=organisation.pk,
        day=moment.astimezone(UTC).date(),
        at=moment,
        received_at=moment,
        booked_at=now,
        model_id="" if model is None else model.pk,
        end_user=end_user,
        amount_nanousd=amount_nanousd,
        reason=actor.reason,
        created_by=actor.label,
        **_place_of(organisation, subject, subject_id),
    )
    with transaction.atomic():
        book([row], now=now)
        audit.record(
            actor,
            action="create",
            noun="corrections",
            object_id=row.pk,
            organisation_id=organisation.pk,
            after={
                "subject": subject,
                "subject_id": subject_id,
                "model": row.model_id or None,
                "end_user": end_user,
                "at": moment,
                "amount_nanousd": amount_nanousd,
            },
        )
    return row


def book(rows: Sequence[SpendCorrection], *, now: datetime) -> Sequence[SpendCorrection]:
    """Write corrections and what follows from them; those written before are left out.

    Belongs into a transaction. Returns those that are new.
    """
    hold_counting()
    ordered = sorted(rows, key=lambda one: one.pk)
    SpendCorrection.objects.bulk_create(ordered, ignore_conflicts=True)
    kept = set(
        SpendCorrection.objects.filter(pk__in=[one.pk for one in ordered]).values_list(
            "pk", flat=True
        )
    )
    new = [one for one in ordered if one.pk in kept]
    if not new:
        return ()
    zones = get_zones({one.organisation_id for one in new})
    add_increments(increments_of(new, zones), {})
    changed = [end_of(one) for one in new]
    known = [end_of(one) for one in new if one.was_unknown]
    correct_spending(changed, known, now=now)
    return new


def _place_of(organisation: Organisation, subject: str, subject_id: str | None) -> dict[str, str]:
    """The ids a request of this subject has, as far as they follow; raises Invalid."""
    if subject not in SUBJECTS:
        raise Invalid.field("subject", f"Choose from {', '.join(SUBJECTS)}.")
    if subject == "organisation":
        if subject_id is not None:
            raise Invalid.field("subject_id", "The whole organisation is meant; leave this out.")
        return {}
    row = _row_of(organisation, subject, subject_id or "")
    if isinstance(row, Team):
        return {"team_id": row.pk}
    if isinstance(row, Project):
        return {"team_id": row.team_id, "project_id": row.pk}
    project = row.project
    return {
        "team_id": project.team_id,
        "project_id": project.pk,
        "key_id": public_key_id(row.pk),
    }


def _row_of(organisation: Organisation, subject: str, asked: str) -> Team | Project | Key:
    kinds = {"team": Team, "project": Project, "key": Key}
    rows = kinds[subject]._default_manager.filter(organisation=organisation)
    row = rows.filter(pk=asked).first() or rows.filter(name=asked).first()
    if row is None:
        raise Invalid.field("subject_id", f"There is no {subject} of this name or id.")
    return row  # type: ignore[no-any-return]
