"""Filters of alerts, their rules, silences, channels and messages."""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django_filters import ChoiceFilter

from controlplane.decisions.alert_kinds import EpisodeState
from controlplane.models import AlertRule, Channel, Delivery, Episode, Silence
from controlplane.models.kinds import (
    alert_kinds,
    alert_scopes,
    channel_kinds,
    delivery_kinds,
    delivery_states,
    episode_states,
    severities,
)
from controlplane.selectors.filters import (
    NamedFilters,
    ReferenceFilter,
    RowFilters,
    SearchFilter,
    TruthFilter,
)
from controlplane.selectors.request_filters import TextFilter


class SharedFilters(RowFilters):
    """Filters of rows that are an organisation's or the installation's."""

    organisation = ReferenceFilter(label="Organisation")
    home = TextFilter(
        method="at_home",
        label="Home",
        help_text="An organisation's id: its rows, and to platform administrators the "
        "installation's, which belong to none.",
    )

    def at_home(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Those of the organisation or of none; the selector has left the latter to who may."""
        return rows.filter(Q(organisation_id=value) | Q(organisation_id=None))


class AlertFilters(SharedFilters):
    search = SearchFilter("name", "subject_name")
    severity = ChoiceFilter(label="Severity", choices=severities, empty_label="any")
    state = ChoiceFilter(label="State", choices=episode_states, empty_label="any")
    kind = ChoiceFilter(label="Kind", choices=alert_kinds, empty_label="any")
    rule = ReferenceFilter(label="Rule")
    subject_id = TextFilter(label="Place", help_text="Id of the place it is about.")
    is_over = TruthFilter(label="Over", method="filter_over")

    class Meta:
        model = Episode
        fields: ClassVar[list[str]] = []

    def filter_over(self, rows: QuerySet[Episode], name: str, value: str) -> QuerySet[Episode]:
        over = Q(state=EpisodeState.RESOLVED.value)
        return rows.filter(over if value == "true" else ~over)


class AlertRuleFilters(SharedFilters, NamedFilters):
    kind = ChoiceFilter(label="Kind", choices=alert_kinds, empty_label="any")
    scope = ChoiceFilter(label="Of", choices=alert_scopes, empty_label="any")
    severity = ChoiceFilter(label="Severity", choices=severities, empty_label="any")
    is_enabled = TruthFilter(label="On")

    class Meta:
        model = AlertRule
        fields: ClassVar[list[str]] = []


class SilenceFilters(SharedFilters):
    search = SearchFilter("reason", "rule__name")
    rule = ReferenceFilter(label="Rule")

    class Meta:
        model = Silence
        fields: ClassVar[list[str]] = []


class ChannelFilters(SharedFilters, NamedFilters):
    kind = ChoiceFilter(label="Kind", choices=channel_kinds, empty_label="any")
    is_enabled = TruthFilter(label="On")

    class Meta:
        model = Channel
        fields: ClassVar[list[str]] = []


class DeliveryFilters(SharedFilters):
    search = SearchFilter("channel__name", "error")
    channel = ReferenceFilter(label="Channel")
    state = ChoiceFilter(label="State", choices=delivery_states, empty_label="any")
    kind = ChoiceFilter(label="Tells", choices=delivery_kinds, empty_label="any")
    episode = TextFilter(label="Alert", field_name="episode_id", help_text="Its id.")

    class Meta:
        model = Delivery
        fields: ClassVar[list[str]] = []
