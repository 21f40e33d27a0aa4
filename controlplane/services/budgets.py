"""Edits of budgets. Several may bear on a request; it has to fit all of them.

An edit of the amount, the action or the name forgets nothing; other scopes or another period are
counted anew from the ledger, see `budget_accounts`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.errors import Invalid
from controlplane.models import Budget, Organisation
from controlplane.models.budgets import default_thresholds
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import FIELD, find_subject
from inference.contract.kinds import BudgetAction, BudgetSubject, UnknownPrice
from inference.contract.params import MAX_BUDGET_SCOPES, TAG_PATTERN

NOUN = "budgets"
RAISE, END_RAISE, TEST = "raise", "end_raise", "test"
MOST_PERCENT = 1_000
MOST_THRESHOLDS = 10

_EDITABLE = frozenset(
    ("name", "scopes", "amount_nanousd", "period", "action", "unknown_price", "grace_percent")
) | {
    *("is_enabled", "thresholds_percent", "is_rolling", "grace_nanousd", "too_long"),
    *("acts_at_percent", "throttle_per_minute", "cheaper_model", "owner"),
}
_TAG = re.compile(TAG_PATTERN.removesuffix("$") + r"\Z")

Scope = Mapping[str, Any]


def create_budget(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    scopes: Sequence[Scope],
    amount_nanousd: int,
    period: str,
    action: str = BudgetAction.BLOCK.value,
    unknown_price: str = UnknownPrice.REFUSE.value,
    grace_percent: int = 0,
    thresholds_percent: Sequence[int] | None = None,
    is_enabled: bool = True,
    cheaper_model: str | None = None,
    **further: Any,
) -> Budget:
    """Bound what may be spent in a period; an amount of 0 lets through what costs nothing.

    A scope is a `subject` and the id or name of what is meant, None for each one of its kind
    apart; `cheaper_model` is a name or id too, and `further` are fields of the row that have
    defaults. Raises Invalid or ProblemsFound.
    """
    edits.refuse_unknown(further, _EDITABLE)
    thresholds = default_thresholds() if thresholds_percent is None else thresholds_percent
    with configuration_edit():
        budget = rows.insert(
            Budget(
                organisation=organisation,
                name=name,
                scopes=placed_scopes(organisation, scopes),
                amount_nanousd=amount_nanousd,
                period=period,
                action=action,
                unknown_price=unknown_price,
                grace_percent=grace_percent,
                thresholds_percent=_thresholds(thresholds),
                is_enabled=is_enabled,
                cheaper_model=placed_model(organisation, cheaper_model),
                **further,
            )
        )
        edits.conclude(actor, "create", NOUN, budget, after=edits.values_of(budget))
    return budget


def update_budget(
    actor: Actor,
    *,
    budget_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Budget:
    """Change the fields that are named; raises Invalid, ProblemsFound, NotFound, VersionMismatch.

    `scopes` are replaced as a whole.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    values = dict(changes)
    with configuration_edit():
        budget = rows.lock(Budget, budget_id, expected_version=expected_version)
        if "scopes" in values:
            values["scopes"] = placed_scopes(budget.organisation, values["scopes"])
        if "cheaper_model" in values:
            asked = values["cheaper_model"]
            values["cheaper_model"] = placed_model(budget.organisation, asked)
        if "thresholds_percent" in values:
            values["thresholds_percent"] = _thresholds(values["thresholds_percent"])
        changed = rows.change(budget, values)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", NOUN, budget, before=before, after=after)
    return budget


def raise_budget(
    actor: Actor,
    *,
    budget_id: str,
    raised_to_nanousd: int | None,
    raised_until: datetime | None,
    expected_version: int | None = None,
) -> Budget:
    """Let more be spent until a time, at the latest; without both a raise ends now.

    Raises Invalid, also where there is nothing to end.
    """
    with configuration_edit():
        budget = rows.lock(Budget, budget_id, expected_version=expected_version)
        _check_raise(budget, raised_to_nanousd, raised_until)
        values = {"raised_to_nanousd": raised_to_nanousd, "raised_until": raised_until}
        changed = rows.change(budget, values)
        if changed is not None:
            act = END_RAISE if raised_until is None else RAISE
            edits.conclude(actor, act, NOUN, budget, before=changed[0], after=changed[1])
    return budget


def note_test(actor: Actor, *, budget_id: str, result: Mapping[str, str]) -> None:
    """Write down that a budget was put to the test, and what came of each step."""
    with transaction.atomic():
        budget = rows.lock(Budget, budget_id)
        edits.note(actor, TEST, NOUN, budget, after=dict(result))


def _check_raise(budget: Budget, to_nanousd: int | None, until: datetime | None) -> None:
    if to_nanousd is None and until is None:
        if budget.raised_until is None:
            raise Invalid("The budget isn't raised.")
        return
    if to_nanousd is None:
        raise Invalid.field("raised_to_nanousd", "Say how much may be spent until then.")
    if until is None:
        raise Invalid.field("raised_until", "A raise has an end; say when.")
    if until <= timezone.now():
        raise Invalid.field("raised_until", "This time is past.")
    if to_nanousd <= budget.amount_nanousd:
        raise Invalid.field("raised_to_nanousd", "This is no more than the budget itself.")


def delete_budget(actor: Actor, *, budget_id: str, expected_version: int | None = None) -> None:
    """Take a budget away; what it counted goes with it, what was spent stays in the ledger."""
    with configuration_edit():
        budget = rows.lock(Budget, budget_id, expected_version=expected_version)
        before = edits.values_of(budget)
        rows.remove(budget)
        edits.conclude(actor, "delete", NOUN, budget, before=before)


def placed_scopes(organisation: Organisation, scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    """Scopes as the row stores them, with ids; raises Invalid at `scopes` or `scopes.0.…`."""
    if not 0 < len(scopes) <= MAX_BUDGET_SCOPES:
        raise Invalid.field("scopes", f"A budget is about 1 to {MAX_BUDGET_SCOPES} things.")
    if len({one["subject"] for one in scopes}) < len(scopes):
        raise Invalid.field("scopes", "Each kind of thing can be named once.")
    return [
        {
            "subject": one["subject"],
            FIELD: _placed(organisation, one["subject"], one.get(FIELD), f"scopes.{place}"),
        }
        for place, one in enumerate(scopes)
    ]


def placed_model(organisation: Organisation, asked: str | None) -> str | None:
    """The id of the model that requests are sent to, by its name or id; Invalid at its field."""
    try:
        return find_subject(organisation, BudgetSubject.MODEL.value, asked or None)
    except Invalid as error:
        raise Invalid.field("cheaper_model", "There is no model of this name or id.") from error


def _placed(organisation: Organisation, subject: str, asked: str | None, place: str) -> str | None:
    if subject not in list(BudgetSubject):
        raise Invalid.field(f"{place}.subject", "There is no such kind of thing.")
    if subject == BudgetSubject.TAG and asked is not None and not _TAG.match(asked):
        raise Invalid.field(f"{place}.{FIELD}", f"A tag must match {TAG_PATTERN}.")
    try:
        return find_subject(organisation, subject, asked)
    except Invalid as error:
        fields = {f"{place}.{name}": messages for name, messages in error.fields.items()}
        raise Invalid(error.detail, fields=fields) from error


def _thresholds(asked: Sequence[int]) -> list[int]:
    found = sorted(set(asked))
    if len(found) > MOST_THRESHOLDS or not all(0 < one <= MOST_PERCENT for one in found):
        message = f"Give at most {MOST_THRESHOLDS} whole numbers from 1 to {MOST_PERCENT}."
        raise Invalid.field("thresholds_percent", message)
    return found
