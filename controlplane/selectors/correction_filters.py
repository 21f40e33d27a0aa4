"""Filters of corrections and repricings."""

from typing import ClassVar

from django_filters import ChoiceFilter

from controlplane.models import Repricing, RepricingState, SpendCorrection
from controlplane.selectors.filters import ReferenceFilter, RowFilters
from controlplane.selectors.request_filters import TextFilter


class CorrectionFilters(RowFilters):
    team_id = TextFilter(label="Team", help_text="Id.")
    project_id = TextFilter(label="Project", help_text="Id.")
    key_id = TextFilter(label="Key", help_text="Id, as requests have it.")
    repricing_id = TextFilter(label="Repricing", help_text="Id.")
    event_id = TextFilter(label="Request", help_text="Id.")
    organisation_id = TextFilter(label="Organisation", help_text="Id.")

    class Meta:
        model = SpendCorrection
        fields: ClassVar[list[str]] = []


class RepricingFilters(RowFilters):
    state = ChoiceFilter(label="State", choices=RepricingState.choices, empty_label="any")
    organisation = ReferenceFilter(label="Organisation")

    class Meta:
        model = Repricing
        fields: ClassVar[list[str]] = []
