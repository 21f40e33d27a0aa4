"""What a budget would do, in words: what it counts, and what the last whole period says of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils import timezone

from controlplane.compiler import budget_record
from controlplane.console.budget_facts import past_words
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.console.scope import Scope
from controlplane.decisions.budget_sums import bucket_s, previous_period
from controlplane.decisions.budgets import (
    Past,
    action_words,
    budget_words,
    look_back,
    scopes_words,
)
from controlplane.models import Budget
from controlplane.selectors.budget_ledger import read_past
from controlplane.selectors.names import list_names
from controlplane.services.drafts import Draft
from inference.contract.kinds import BudgetSubject
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import Period, amount_at, window_of
from inference.decisions.rules import zone_of

_COUNTED_ANEW = frozenset(("scopes", "period", "is_rolling"))


def impact_of_budget(
    scope: Scope, values: Mapping[str, Any], draft: Draft, *, changed: Mapping[str, Any]
) -> Impact:
    """The impact of a budget with these values, of which some were changed."""
    record = budget_record(Budget(organisation=scope.organisation, **values))
    ids = {one["subject_id"] or "" for one in values["scopes"]}
    names = list_names(scope.access, {*ids, record.cheaper_model_id or ""})
    about = scopes_words(values["scopes"], names)
    period, past = _past(scope, record)
    reach = [
        Reach(
            "Allows",
            budget_words(
                values["amount_nanousd"],
                values["period"],
                about,
                is_rolling=values["is_rolling"],
            ),
        ),
        Reach(
            "Then",
            action_words(record, names.get(record.cheaper_model_id or "")),
        ),
    ]
    words = past_words(past, period, values["action"], scope.zone)
    checks = (
        Check("warn" if past is not None and past.reached else "info", words),
        *_warnings(values, about, changed),
        *checks_of(draft, "budgets"),
    )
    return Impact(reach=reach, checks=checks)


def _past(scope: Scope, record: BudgetRecord) -> tuple[Period, Past | None]:
    now_s = timezone.now().timestamp()
    zone = zone_of(scope.organisation.time_zone)
    before = previous_period(record, zone, window_of(record, zone, now_s))
    found = read_past(record, before)
    if found is None:
        return before, None
    accounts = [(one.spent_nanousd, sorted(one.buckets.items())) for one in found]
    return before, look_back(accounts, amount_at(record, now_s), length_s=bucket_s(record))


def _warnings(values: Mapping[str, Any], about: str, changed: Mapping[str, Any]) -> Iterator[Check]:
    if not values["is_enabled"]:
        yield Check("info", "It is off: nobody is refused. What is spent is counted all the same.")
    if values["amount_nanousd"] == 0:
        yield Check("warn", f"0 is none: only what costs nothing is served of {about}.")
    if not _COUNTED_ANEW.isdisjoint(changed):
        yield Check(
            "info",
            "What was spent in the present period counts: it is read from the ledger within some "
            "seconds of saving.",
        )
    of_callers = (BudgetSubject.END_USER, BudgetSubject.TAG)
    if any(one["subject"] in of_callers for one in values["scopes"]):
        yield Check("info", "End users and tags are what callers write: one without is not bound.")
