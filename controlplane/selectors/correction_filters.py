"""Filters of corrections, repricings and prices of GPUs."""

from typing import ClassVar

from django_filters import ChoiceFilter

from controlplane.models import GpuPrice, Repricing, RepricingState, SpendCorrection
from controlplane.models.kinds import capacity_classes
from controlplane.selectors.filters import ReferenceFilter, RowFilters, SearchFilter
from controlplane.selectors.request_filters import TextFilter


class CorrectionFilters(RowFilters):
    search = SearchFilter("reason", "created_by")
    team_id = TextFilter(label="Team", help_text="Id.")
    project_id = TextFilter(label="Project", help_text="Id.")
    key_id = TextFilter(label="Key", help_text="Id, as requests have it.")
    repricing_id = TextFilter(label="Repricing", help_text="Id.")
    event_id = TextFilter(label="Request", help_text="Id.")
    organisation_id = TextFilter(label="Organisation", help_text="Id.")

    class Meta:
        model = SpendCorrection
        fields: ClassVar[list[str]] = []


class GpuPriceFilters(RowFilters):
    search = SearchFilter("gpu_type")
    gpu_type = TextFilter(label="GPU", help_text="Exactly.")
    capacity_class = ChoiceFilter(label="Class", choices=capacity_classes, empty_label="any")
    organisation = ReferenceFilter(label="Organisation")

    class Meta:
        model = GpuPrice
        fields: ClassVar[list[str]] = []


class RepricingFilters(RowFilters):
    search = SearchFilter("reason")
    state = ChoiceFilter(label="State", choices=RepricingState.choices, empty_label="any")
    organisation = ReferenceFilter(label="Organisation")

    class Meta:
        model = Repricing
        fields: ClassVar[list[str]] = []
