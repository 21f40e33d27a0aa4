"""What limits, budgets and switches are about: found by name or id, taken along when it goes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db.models import Model, Q, QuerySet

from controlplane.decisions.subjects import kind_words, subject_words
from controlplane.errors import Invalid
from controlplane.models import (
    Budget,
    CatalogueModel,
    Key,
    Limit,
    Organisation,
    Pool,
    Project,
    Route,
    Switch,
    Team,
)
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.route_rules import leave_rules
from inference.contract.kinds import LimitSubject, SwitchSubject
from inference.decisions.problems import is_label

FIELD = "subject_id"
_ROWS: Mapping[str, type[Model]] = {
    LimitSubject.TEAM.value: Team,
    LimitSubject.PROJECT.value: Project,
    LimitSubject.KEY.value: Key,
    LimitSubject.MODEL.value: CatalogueModel,
    LimitSubject.ROUTE.value: Route,
    SwitchSubject.POOL.value: Pool,
}


def find_subject(organisation: Organisation, subject: str, asked: str | None) -> str | None:
    """The id of the organisation's row of this kind with this id or name, or Invalid.

    None stands for the whole organisation, or for each one of a kind. An end user is whoever
    callers say it is, so any printable name will do. A key that was revoked is none.
    """
    if asked is None:
        return None
    if subject == LimitSubject.ORGANISATION:
        raise Invalid.field(FIELD, "The whole organisation is meant; leave this out.")
    if subject == LimitSubject.END_USER:
        if not is_label(asked):
            raise Invalid.field(FIELD, "Give 1 to 255 printable characters.")
        return asked
    if subject not in _ROWS:
        # what is no kind at all is refused as such when the row is checked
        return asked
    found = _rows_of(organisation, subject)
    row = found.filter(pk=asked).first() or found.filter(name=asked).first()
    if row is None:
        message = f"There is no {kind_words(subject)} of this name or id."
        raise Invalid.field(FIELD, message)
    return str(row.pk)


def told_subject(subject: str, subject_id: str | None) -> str:
    """What a limit or switch is about as the audit trail tells it: kind and name."""
    name = subject_id
    if subject_id is not None and subject in _ROWS:
        kind = _ROWS[subject]._default_manager
        name = kind.filter(pk=subject_id).values_list("name", flat=True).first()
    return subject_words(subject, subject_id, name)


def remove_what_names(
    actor: Actor, organisation_id: str, subject: str, ids: Collection[str]
) -> bool:
    """Remove limits, budgets and switches about rows that go now; tells whether there were any.

    They would count and turn off nothing any more. Rules of routes that name them stay, and match
    no more than before, see `route_rules.leave_rules`. The caller stages the edit it belongs to.
    """
    asked = {"organisation_id": organisation_id, "subject": subject, "subject_id__in": list(ids)}
    limits = _taken(actor, "limits", Limit.objects.filter(**asked).order_by("pk"))
    switches = _taken(actor, "switches", Switch.objects.filter(**asked).order_by("pk"))
    budgets = _taken(actor, "budgets", _budgets_about(organisation_id, subject, ids))
    rules = leave_rules(actor, organisation_id, subject, ids)
    return limits or switches or budgets or rules


def _budgets_about(organisation_id: str, subject: str, ids: Collection[str]) -> Iterable[Budget]:
    """Budgets with a scope that names one of these: nothing could be of all their scopes."""
    gone = Q()
    for pk in ids:
        gone |= Q(scopes__contains=[{"subject": subject, FIELD: pk}])
    found = Budget.objects.filter(gone, organisation_id=organisation_id)
    return found.order_by("pk") if ids else found.none()


def _taken(actor: Actor, noun: str, found: Iterable[Limit | Switch | Budget]) -> bool:
    is_any = False
    for row in found:
        edits.note(actor, "delete", noun, row, before=edits.values_of(row))
        rows.remove(row)
        is_any = True
    return is_any


def _rows_of(organisation: Organisation, subject: str) -> QuerySet[Any]:
    found = _ROWS[subject]._default_manager.filter(organisation=organisation)
    return found.filter(revoked_at__isnull=True) if subject == LimitSubject.KEY else found
