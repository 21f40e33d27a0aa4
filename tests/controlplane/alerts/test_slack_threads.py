"""Threads of Slack whose first message is gone, late or one of many: nothing is lost by it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.alerting import outbox
from controlplane.decisions.alert_kinds import DeliveryKind
from controlplane.models import Channel, Delivery, Episode
from controlplane.services import deliveries
from controlplane.services.actors import Actor
from controlplane.services.channels import update_channel
from controlplane.services.deliveries import send_test
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.slack_sink import CONVERSATION, Fault, SlackSink, buttons, press

pytestmark = pytest.mark.slow

Fleet = Callable[[WorkerState], None]


@pytest.mark.parametrize("what", ["deleted", "elsewhere", "locked"])
def test_a_first_message_that_cannot_be_changed_costs_no_other(
    fired: Episode,
    bot: Channel,
    slack: SlackSink,
    fleet: Fleet,
    clock: Clock,
    client: Client,
    actor: Actor,
    what: str,
) -> None:
    place = CONVERSATION
    if what == "deleted":
        slack.messages.clear()
    elif what == "locked":
        slack.refused["chat.update"] = "cant_update_message"
    else:
        place = "C9999999999"
        update_channel(actor, channel_id=bot.pk, changes={"conversation": place})
    press(client, bot, fired)
    clock.pass_s(1)
    clock.sends()
    Episode.objects.update(state="open")
    for state in (WorkerState.READY, WorkerState.FAILED, WorkerState.READY):
        fleet(state)
        clock.looks(4, every_s=30)
        clock.sends()
    bot.refresh_from_db()
    assert (bot.is_enabled, bot.failures) == (True, 0)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    ended = [one for one in slack.messages.values() if one["text"].startswith("Resolved")]
    own = [one for one in ended if one["metadata"]["event_payload"]["id"]]
    assert {one["channel"] for one in own} == {place}
    assert len([one for one in own if one.get("thread_ts")]) == (2 if what == "locked" else 1)


def test_a_lost_thread_begins_anew_and_goes_on(
    fired: Episode, slack: SlackSink, clock: Clock, fleet: Fleet
) -> None:
    slack.messages.clear()
    told = Delivery.objects.get()
    for number in (1, 2):
        content = {**told.content, "title": f"Still firing {number}"}
        deliveries.queue(told.channel, DeliveryKind.REMINDED, content, now=clock(), episode=fired)
        clock.pass_s(1)
        clock.sends()
    (parent,), (reply,) = slack.parents(), slack.replies()
    assert (parent["text"], reply["thread_ts"]) == ("Still firing 2", parent["ts"])
    assert buttons(parent) == ["headworks_acknowledge", "headworks_snooze"]


def test_a_message_that_began_a_thread_anew_unheard_is_found(
    fired: Episode, slack: SlackSink, clock: Clock
) -> None:
    slack.messages.clear()
    told = Delivery.objects.get()
    again = deliveries.queue(
        told.channel, DeliveryKind.REMINDED, told.content, now=clock(), episode=fired
    )
    slack.faults = [Fault(is_done=True), Fault(is_done=True, is_cut=True)]
    clock.pass_s(1)
    clock.sends()
    clock.pass_s(60)
    clock.sends()
    again.refresh_from_db()
    assert (again.state, again.receipt) == ("sent", next(iter(slack.messages)))
    assert slack.methods()[-2:] == ["conversations.replies", "conversations.history"]
    assert Delivery.objects.get(pk=told.pk).receipt == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"ok": True}, "Slack's answer makes no sense."),
        (["odd"], "An error of ours ended it; the log has more."),
    ],
)
def test_what_goes_wrong_after_slack_took_it_is_looked_for(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock, answer: Any, told: str
) -> None:
    slack.faults = [Fault(is_done=True, body=answer)]
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    clock.sends()
    assert Delivery.objects.get().error == told
    clock.pass_s(60)
    clock.sends()
    assert (Delivery.objects.get().state, len(slack.messages)) == ("sent", 1)


def test_the_next_message_of_an_alert_waits_for_the_first(
    make_rule: Callable[..., Any], bot: Channel, slack: SlackSink, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["bot"])
    fleet(WorkerState.FAILED)
    clock.looks(1)
    fleet(WorkerState.READY)
    clock.looks(4, every_s=30)
    first = deliveries.take(clock())
    assert first is not None
    assert first.kind == "fired"
    assert clock.sends() == 0, "another worker finds nothing that may go out"
    outbox.send(first, clock)
    assert clock.sends() == 1
    (parent,), (reply,) = slack.parents(), slack.replies()
    assert reply["thread_ts"] == parent["ts"]


def test_alerts_that_are_listed_can_be_taken_up_one_by_one(
    make_rule: Callable[..., Any],
    bot: Channel,
    slack: SlackSink,
    fleet: Fleet,
    clock: Clock,
    client: Client,
) -> None:
    for name in ("one", "two", "three", "four"):
        make_rule(name=name, channels=["bot"])
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.sends()
    (parent,) = slack.parents()
    shown = [one["accessory"]["value"] for one in parent["blocks"] if "accessory" in one]
    assert sorted(shown) == sorted(Episode.objects.values_list("pk", flat=True))
    mine = Episode.objects.get(name="two")
    press(client, bot, mine)
    assert [one.name for one in Episode.objects.filter(state="acknowledged")] == ["two"]
    assert [one["text"] for one in slack.whispers] == ["two, mine: acknowledged."]
