"""A copy of a budget with a tiny amount, and a rule that watches it: all in a transaction that is
taken back, so nobody else ever sees them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.compiler import budget_record
from controlplane.decisions.alert_kinds import TRAITS, AlertKind, AlertScope
from controlplane.models import AlertRule, Budget, BudgetAccount, Episode
from controlplane.models.rows import budget_id
from controlplane.services.budget_accounts import add_spending_of
from inference.contract.events import End

AMOUNT = 10_000
"""In nano-USD: a hundredth of a per cent of it is whole."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The copy, and the rule that watches each of its thresholds and tells nobody."""

    budget: Budget
    rule: AlertRule

    def book(self, end: End, now: datetime) -> int:
        """Count an end on the copy, as the recorder counts ends; returns how many accounts it is
        counted on.
        """
        record = budget_record(self.budget)
        return add_spending_of([end], [record], self.budget.organisation.time_zone, now)

    @property
    def spent_nanousd(self) -> int:
        """What the copy's accounts have."""
        rows = BudgetAccount.objects.filter(budget_id=self.budget.pk)
        return sum(rows.values_list("spent_nanousd", flat=True))

    @property
    def alerts_at(self) -> frozenset[float]:
        """The thresholds at which there is an alert."""
        return frozenset(Episode.objects.filter(rule=self.rule).values_list("threshold", flat=True))


@contextmanager
def on_trial(budget: Budget, now: datetime) -> Iterator[Trial]:
    """The copy and its rule, for as long as the block lasts."""
    with transaction.atomic():
        copy = Budget.objects.get(pk=budget.pk)
        copy.pk, copy.name = budget_id(), f"proof {now.timestamp():.6f}"
        copy.amount_nanousd, copy.is_enabled = AMOUNT, True
        copy.raised_to_nanousd = copy.raised_until = None
        copy.save(force_insert=True)
        traits = TRAITS[AlertKind.BUDGET_USED]
        rule = AlertRule.objects.create(
            organisation=budget.organisation,
            name=copy.name,
            kind=AlertKind.BUDGET_USED.value,
            scope=AlertScope.BUDGET.value,
            scope_id=copy.pk,
            threshold=traits.least,
        )
        yield Trial(copy, rule)
        transaction.set_rollback(True)


def after(now: datetime, looks: int) -> datetime:
    """A moment later, for each look at a rule is at a time of its own."""
    return now + timedelta(microseconds=looks)
