"""Filters of budgets, for page and API alike."""

from typing import ClassVar

from django.db.models import QuerySet
from django_filters import ChoiceFilter

from controlplane.models import Budget
from controlplane.models.kinds import budget_actions, budget_periods, budget_subjects
from controlplane.selectors.budgets import about_key
from controlplane.selectors.filters import NamedFilters, TruthFilter
from controlplane.selectors.request_filters import TextFilter


class BudgetFilters(NamedFilters):
    subject = ChoiceFilter(
        label="Of", choices=budget_subjects, empty_label="any", method="filter_subject"
    )
    period = ChoiceFilter(label="Period", choices=budget_periods, empty_label="any")
    action = ChoiceFilter(label="Action", choices=budget_actions, empty_label="any")
    is_enabled = TruthFilter(label="On")
    key = TextFilter(
        label="Binds key",
        method="filter_key",
        help_text="Id or name of a key: budgets that may bear on its requests.",
    )

    class Meta:
        model = Budget
        fields: ClassVar[list[str]] = []

    def filter_subject(self, budgets: QuerySet[Budget], name: str, value: str) -> QuerySet[Budget]:
        return budgets.filter(scopes__contains=[{"subject": value}])

    def filter_key(self, budgets: QuerySet[Budget], name: str, value: str) -> QuerySet[Budget]:
        return about_key(budgets, value)
