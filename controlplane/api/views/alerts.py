"""Alerts by REST: what holds, the rules, silences, channels, and the messages that went out."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.alerting.base import Question, terms_of
from controlplane.alerting.preview import Preview, preview
from controlplane.api.pagination import BY_ID, BY_NAME
from controlplane.api.serializers.alerts import (
    AlertRuleSerializer,
    AlertSerializer,
    ChannelSerializer,
    DeliverySerializer,
    PreviewSerializer,
    SilenceSerializer,
)
from controlplane.api.views.tenants import Changing, Creating, NounView, Removing, named
from controlplane.decisions.alert_kinds import ChannelKind, DeliveryState, condition_words
from controlplane.errors import Invalid, NotAllowed
from controlplane.models import AlertRule, Organisation
from controlplane.notify.registry import REGISTRY
from controlplane.selectors.alert_filters import (
    AlertFilters,
    AlertRuleFilters,
    ChannelFilters,
    DeliveryFilters,
    SilenceFilters,
)
from controlplane.selectors.alerts import (
    list_alert_rules,
    list_channels,
    list_deliveries,
    list_episodes,
    list_silences,
)
from controlplane.selectors.names import list_names
from controlplane.services.alert_rules import (
    create_alert_rule,
    delete_alert_rule,
    update_alert_rule,
)
from controlplane.services.channels import create_channel, delete_channel, update_channel
from controlplane.services.deliveries import resend, send_test
from controlplane.services.episodes import update_episode
from controlplane.services.silences import create_silence, delete_silence, update_silence

INSTALLATION = str(None)
"""What stands for the installation where an organisation's id is asked."""


class Shared(Creating):
    """Rows of an organisation or, for platform administrators, of the whole installation."""

    def created(self) -> Any:
        """Make the row, of the installation where the body says so."""
        if not self.names("organisation") or self.body["organisation"] is not None:
            return super().created()
        if not self.access.is_platform_admin:
            raise NotAllowed("The whole installation is the platform administrators'.")
        self.require_write(self.noun, INSTALLATION)
        return self.make(None, self.validated())

    def make(self, organisation: Organisation | None, values: dict[str, Any]) -> Any:
        raise NotImplementedError


class AlertView(Changing):
    noun = "alerts"
    is_for_whole = True
    selector = staticmethod(list_episodes)
    serializer_class = AlertSerializer
    filterset_class = AlertFilters
    orderings = BY_ID

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_episode(
            self.actor, episode_id=row.pk, changes=changes, expected_version=expected_version
        )


class AlertRuleView(Shared, Changing, Removing):
    noun = "alert_rules"
    is_for_whole = True
    selector = staticmethod(list_alert_rules)
    serializer_class = AlertRuleSerializer
    filterset_class = AlertRuleFilters
    orderings = BY_NAME

    def complete(self, rows: Sequence[Any]) -> None:
        """The names of what each watches, and its condition in words."""
        names = list_names(self.access, {row.scope_id for row in rows if row.scope_id})
        for row in rows:
            row.scope_name = names.get(row.scope_id)
            row.condition = condition_words(row.kind, row.threshold, row.window_s, row.for_s)

    def make(self, organisation: Organisation | None, values: dict[str, Any]) -> Any:
        return create_alert_rule(self.actor, organisation=organisation, **values)

    def changed(self, row: Any) -> None:
        # what is sent back unchanged is compared with what was told
        self.complete((row,))
        super().changed(row)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_alert_rule(
            self.actor, rule_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_alert_rule(self.actor, rule_id=row.pk, expected_version=expected_version)

    @extend_schema(responses={200: PreviewSerializer}, filters=False)
    @action(detail=True, methods=["get"], filter_backends=())
    def preview(self, request: Request, pk: str) -> Response:
        """Tell what the rule would have done over the last day."""
        rule: AlertRule = self.get_object()
        found = preview(Question.of(rule), terms_of(rule), timezone.now())
        return Response(PreviewSerializer(_told(found)).data)


def _told(found: Preview) -> dict[str, Any]:
    alerts = None
    if found.fired is not None:
        alerts = [
            {
                "subject_id": place.id,
                "subject_name": place.name,
                "fired_at": one.since,
                "resolved_at": one.until,
                "peak": one.peak,
                "critical_at": one.critical_since,
            }
            for place, one in found.fired
        ]
    return {
        "since": found.since,
        "until": found.until,
        "alerts": alerts,
        "places": found.places,
        "looked_at": found.looked_at,
        "unknown_share": found.unknown,
    }


class SilenceView(Shared, Changing, Removing):
    noun = "silences"
    is_for_whole = True
    selector = staticmethod(list_silences)
    serializer_class = SilenceSerializer
    filterset_class = SilenceFilters
    orderings = BY_ID

    def make(self, organisation: Organisation | None, values: dict[str, Any]) -> Any:
        return create_silence(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_silence(
            self.actor, silence_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_silence(self.actor, silence_id=row.pk, expected_version=expected_version)


class ChannelView(Shared, Changing, Removing):
    noun = "channels"
    is_for_whole = True
    selector = staticmethod(list_channels)
    serializer_class = ChannelSerializer
    filterset_class = ChannelFilters
    orderings = BY_NAME

    def complete(self, rows: Sequence[Any]) -> None:
        """The rules that tell each, and what the host lacks for its kind."""
        for row in rows:
            row.lacking = REGISTRY[ChannelKind(row.kind)].lacking()

    def make(self, organisation: Organisation | None, values: dict[str, Any]) -> Any:
        return create_channel(self.actor, organisation=organisation, **values)

    def changed(self, row: Any) -> None:
        self.complete((row,))
        super().changed(row)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_channel(
            self.actor, channel_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_channel(self.actor, channel_id=row.pk, expected_version=expected_version)


class DeliveryView(Changing, Creating, NounView):
    noun = "deliveries"
    is_for_whole = True
    selector = staticmethod(list_deliveries)
    serializer_class = DeliverySerializer
    filterset_class = DeliveryFilters
    orderings = BY_ID

    def created(self) -> Any:
        """Send a test by the channel that is named."""
        channel = self.of_body(list_channels(self.access), "channel")
        home = self.organisation().pk if channel is None else str(channel.organisation_id)
        self.require_write(self.noun, home)
        values = self.validated()
        if "state" in values:
            raise Invalid.field("state", "This field can't be set.")
        channel = named(list_channels(self.access), "channel", values["channel"])
        return send_test(self.actor, channel_id=channel.pk)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        if changes.get("state") == row.state:
            return
        if changes.get("state") != DeliveryState.QUEUED:
            told = "A message that failed, or is unknown, can be queued again, nothing else."
            raise Invalid.field("state", told)
        resend(self.actor, delivery_id=row.pk, expected_version=expected_version)
