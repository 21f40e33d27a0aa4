"""The pages of channels, and of the messages that went by them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.urls import reverse

from controlplane.console.acting import ActPage
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State, Tab
from controlplane.console.diffs import Line
from controlplane.console.editing import EditPage
from controlplane.console.formats import clock
from controlplane.console.forms.alerts import EVERYWHERE
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.channels import ChannelForm
from controlplane.console.lists import Empty
from controlplane.console.nouns import ALERTS, CHANNELS, DELIVERIES
from controlplane.console.pages import Action
from controlplane.console.tables.alerts import (
    ChannelTable,
    DeliveryTable,
    state_of_channel,
    state_of_delivery,
    tells_words,
    where_of,
)
from controlplane.console.views.alerts import HIDDEN, TabPage
from controlplane.decisions.alert_kinds import ChannelKind, DeliveryState, seconds_words
from controlplane.errors import Conflict
from controlplane.models import Channel, Delivery
from controlplane.notify.registry import REGISTRY
from controlplane.selectors.alert_filters import ChannelFilters, DeliveryFilters
from controlplane.selectors.alerts import list_channels, list_deliveries
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel, delete_channel, update_channel
from controlplane.services.deliveries import RESENDABLE, resend, send_test
from controlplane.services.drafts import Draft


class ChannelList(TabPage):
    noun = CHANNELS
    tab = "channels"
    selector = staticmethod(list_channels)
    filters = ChannelFilters
    table = ChannelTable
    hidden_filters = HIDDEN | {"name"}
    intro = "Ways to reach people; rules name them, and kill switches are told to those marked"
    empty = Empty(
        "Nobody is reached",
        "A channel is a mail address, a Slack channel or a webhook of your own.",
    )


class ChannelDetail(DetailPage):
    noun = CHANNELS
    selector = staticmethod(list_channels)
    template_name = "console/alerts/channel.html"
    is_name_mono = False

    def state_of(self, row: Channel) -> State:
        return state_of_channel(row)

    def actions_of(self, row: Channel) -> Sequence[Action]:
        found = list(super().actions_of(row))
        if found and row.is_enabled:
            found.insert(1, Action("Send test", reverse("channel-test", args=[row.pk])))
        return found

    def facts_of(self, row: Any) -> Sequence[Fact]:
        secret = f"set, ends in {row.secret_last4}" if row.has_secret else "none"
        zone = self.scope.zone
        sent = "never" if row.last_sent_at is None else clock(row.last_sent_at, zone)
        home = "this organisation" if row.organisation_id else "the whole installation"
        told = ", ".join(row.rule_names) or "no rule yet"
        found = [
            Fact("Kind", REGISTRY[ChannelKind(row.kind)].label),
            Fact("Leads to", where_of(row)),
            Fact("Told by", told),
            Fact("Kill switches", "are told" if row.tells_switches else "are not told"),
            Fact("Last sent", sent, url=f"{DELIVERIES.list_url()}?channel={row.pk}"),
            Fact("Belongs to", home),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        ]
        if row.kind == ChannelKind.WEBHOOK:
            found.insert(2, Fact("Secret", secret))
        if row.kind == ChannelKind.SLACK_BOT:
            found[2:2] = [Fact("Token", secret), Fact("Buttons", *_buttons(row))]
        if row.digest_s:
            found.insert(-2, Fact("Collects for", seconds_words(row.digest_s)))
        if row.quiet_from is not None and row.quiet_until is not None:
            hours = f"{row.quiet_from:%H:%M} to {row.quiet_until:%H:%M}, {zone.key}"
            passes = "critical alerts pass" if row.critical_passes else "nothing passes"
            found.insert(-2, Fact("Quiet hours", hours, unit=passes))
        if row.waits_until is not None:
            found.insert(0, Fact("Left alone until", clock(row.waits_until, zone)))
        return found

    def extra(self, row: Channel, tab: str) -> Mapping[str, Any]:
        return {"lacking": REGISTRY[ChannelKind(row.kind)].lacking()}


def _buttons(row: Channel) -> tuple[str, str]:
    """Whether messages have any, and where Slack is to call."""
    if not row.has_signing_secret:
        return "none: give Slack's signing secret", ""
    path = reverse("slack-acts", args=[row.pk])
    return "shown; Slack's request URL is", f"{settings.HEADWORKS.console_address}{path}"


class ChannelCreate(CreatePage):
    noun = CHANNELS
    form_class = ChannelForm
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Channel:
        home = None if values.pop(EVERYWHERE, False) else self.scope.organisation
        return create_channel(actor, organisation=home, **values)


class ChannelEdit(EditPage):
    noun = CHANNELS
    selector = staticmethod(list_channels)
    form_class = ChannelForm

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_channel(
            actor, channel_id=row.pk, changes=changes, expected_version=expected_version
        )


class ChannelDelete(DeletePage):
    noun = CHANNELS
    selector = staticmethod(list_channels)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_channel(actor, channel_id=row.pk, expected_version=expected_version)


class ChannelTest(ActPage):
    """Have a message sent that says it is a test."""

    noun = CHANNELS
    act = "test"
    selector = staticmethod(list_channels)
    form_class = NounForm
    verbs: ClassVar[Mapping[str, str]] = {"test": "Send test"}
    titles: ClassVar[Mapping[str, str]] = {"test": "Send a test by"}
    is_for_tokens = False

    def values_of(self, row: Channel) -> Mapping[str, Any]:
        if not row.is_enabled:
            raise Conflict("The channel is off; switch it on first.")
        return {"channel": row.pk}

    def is_act_risky(self, row: Any, changes: Mapping[str, Any]) -> bool:
        return False

    def lines_of_act(self, row: Any, changes: Mapping[str, Any]) -> Sequence[Line]:
        return (Line("Message", None, f"a test to {where_of(row)}"),)

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return "The jobs send it within seconds, as they send alerts."

    def back_url(self, row: Channel) -> str:
        return f"{DELIVERIES.list_url()}?channel={row.pk}"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return send_test(actor, channel_id=row.pk)


class DeliveryList(TabPage):
    noun = DELIVERIES
    tab = "deliveries"
    selector = staticmethod(list_deliveries)
    filters = DeliveryFilters
    table = DeliveryTable
    order = "-created_at"
    api_orders: ClassVar[Mapping[str, str]] = {"created_at": "id"}
    is_created_here = False
    intro = "Messages that went out, wait, or were given up; kept for 90 days"
    empty = Empty("No message yet", "Each message to a channel shows here with its attempts.")


class DeliveryDetail(DetailPage):
    noun = DELIVERIES
    selector = staticmethod(list_deliveries)
    template_name = "console/alerts/delivery.html"
    tabs = (Tab("overview", "Overview"), Tab("activity", "Activity"))
    is_name_mono = False

    def title_of(self, row: Delivery) -> str:
        return str(row.content["title"])

    def state_of(self, row: Delivery) -> State:
        return state_of_delivery(row)

    def actions_of(self, row: Delivery) -> Sequence[Action]:
        if row.state not in RESENDABLE or not self.may_write(DELIVERIES.key):
            return ()
        url = reverse("delivery-resend", args=[row.pk])
        return (Action("Send again", url, "primary", "restart"),)

    def facts_of(self, row: Delivery) -> Sequence[Fact]:
        zone = self.scope.zone
        alert = "" if row.episode_id is None else ALERTS.detail_url(row.episode_id)
        found = [
            Fact("Tells of", tells_words(row.kind), url=alert),
            Fact("Channel", row.channel.name, url=CHANNELS.detail_url(row.channel_id)),
            Fact("Queued", clock(row.created_at, zone)),
            Fact("Attempts", str(row.attempts)),
        ]
        if row.sent_at is not None:
            found.append(Fact("Sent", clock(row.sent_at, zone)))
        if row.state == DeliveryState.QUEUED:
            found.append(Fact("Next attempt", clock(row.next_try_at, zone)))
        if row.state == DeliveryState.HELD:
            found.append(Fact("Kept back until", clock(row.next_try_at, zone)))
        if row.digest_id is not None:
            url = DELIVERIES.detail_url(row.digest_id)
            found.append(Fact("Told by", "a digest", url=url))
        if row.receipt:
            found.append(Fact("The receiver's id", row.receipt, is_mono=True))
        if row.status is not None:
            found.append(Fact("Answer", str(row.status)))
        if row.error:
            found.append(Fact("Why not", row.error))
        return (*found, Fact("Message id", row.pk, is_mono=True))


class DeliveryResend(ActPage):
    """Send a message again that was given up."""

    noun = DELIVERIES
    act = "resend"
    selector = staticmethod(list_deliveries)
    form_class = NounForm
    verbs: ClassVar[Mapping[str, str]] = {"resend": "Send again"}

    def title_of(self, row: Delivery) -> str:
        return str(row.content["title"])

    def values_of(self, row: Delivery) -> Mapping[str, Any]:
        if row.state not in RESENDABLE:
            raise Conflict("Only messages that were given up, or are unknown, are sent again.")
        return {"state": DeliveryState.QUEUED.value}

    def is_act_risky(self, row: Any, changes: Mapping[str, Any]) -> bool:
        return False

    def lines_of_act(self, row: Any, changes: Mapping[str, Any]) -> Sequence[Line]:
        return (Line("State", state_of_delivery(row).words, "Waits"),)

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        return "It goes out within seconds, with the same id, so that a receiver knows a repeat."

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return resend(actor, delivery_id=row.pk, expected_version=expected_version)
