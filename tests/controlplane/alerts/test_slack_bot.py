"""A bot of Slack: a thread an alert, buttons that are acted on once, and nothing sent twice."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import AuditEntry, Channel, Delivery, Episode, Organisation, Role, User
from controlplane.services import deliveries
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.channels import create_channel
from controlplane.services.deliveries import resend, send_test
from controlplane.services.users import create_user, update_user
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.slack_sink import Fault, SlackSink, buttons, press

pytestmark = pytest.mark.slow

Fleet = Callable[[WorkerState], None]


def test_an_alert_is_a_thread_whose_first_message_says_how_it_is(
    fired: Episode, bot: Channel, slack: SlackSink, fleet: Fleet, clock: Clock, client: Client
) -> None:
    (parent,) = slack.parents()
    assert parent["text"] == "Firing: down, pool mine"
    assert parent["metadata"]["event_payload"] == {"id": Delivery.objects.get().pk}
    assert buttons(parent) == ["headworks_acknowledge", "headworks_snooze"]
    assert press(client, bot, fired) == 200
    fired.refresh_from_db()
    assert (fired.state, fired.acknowledged_by) == ("acknowledged", "Slack: ann")
    clock.pass_s(1)
    clock.sends()
    (parent,) = slack.parents()
    assert parent["text"] == "Acknowledged: down, pool mine"
    assert buttons(parent) == ["headworks_snooze"]
    fleet(WorkerState.READY)
    clock.looks(4, every_s=30)
    clock.sends()
    (parent,), (reply,) = slack.parents(), slack.replies()
    assert (parent["text"], buttons(parent)) == ("Resolved: down, pool mine", [])
    assert reply["thread_ts"] == parent["ts"]
    assert slack.methods().count("chat.postMessage") == 2


def test_who_acts_is_the_person_that_is_mapped_with_his_own_roles(
    fired: Episode,
    bot: Channel,
    slack: SlackSink,
    client: Client,
    actor: Actor,
    organisation: Organisation,
) -> None:
    for name, member, role in (
        ("vic", "U0000002", Role.VIEWER),
        ("ola", "U0000003", Role.OPERATOR),
    ):
        user = create_user(actor, username=name, password="a long pass 1")
        grant_role(actor, subject=user, organisation=organisation, role=role)
        update_user(actor, user_id=user.pk, changes={"slack_id": member})
    assert press(client, bot, fired, member="U0000002") == 200
    fired.refresh_from_db()
    assert fired.state == "open"
    assert slack.whispers[0]["user"] == "U0000002"
    assert slack.whispers[0]["text"] == "Your roles in Headworks don't allow that."
    assert press(client, bot, fired, member="U0000003", action="headworks_snooze") == 200
    fired.refresh_from_db()
    assert fired.state == "snoozed"
    assert fired.snoozed_until is not None
    assert fired.snoozed_until <= timezone.now() + timedelta(hours=1)
    entry = AuditEntry.objects.filter(noun="alerts").latest("id")
    assert (entry.actor_kind, entry.actor_label, entry.via) == ("user", "ola", "slack")
    User.objects.filter(username="ola").update(is_active=False)
    press(client, bot, fired, member="U0000003")
    fired.refresh_from_db()
    assert fired.state == "snoozed"


def test_nobody_from_elsewhere_is_named_and_no_member_is_made_up(
    fired: Episode, bot: Channel, slack: SlackSink, client: Client, actor: Actor
) -> None:
    user = create_user(actor, username="root", password="a long pass 1")
    update_user(actor, user_id=user.pk, changes={"slack_id": "U0000009"})
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    for made_up in ("", "u0000009", "U0000009 ", "U1", "B0000009"):
        assert press(client, bot, fired, member=made_up) == 200
    fired.refresh_from_db()
    assert fired.state == "open"
    press(client, bot, fired, member="U0000009")
    entry = AuditEntry.objects.filter(noun="alerts").get()
    assert (entry.actor_kind, entry.actor_label) == ("slack", "Slack: ann")
    assert entry.reason == "By a button in Slack, channel bot."
    Channel.objects.update(is_enabled=False)
    assert press(client, bot, fired, action="headworks_snooze") == 404


def test_calls_are_answered_whatever_their_time_and_the_key_are(
    fired: Episode, bot: Channel, client: Client
) -> None:
    assert press(client, bot, fired, at_s=10**400) == 401
    at_s = int(timezone.now().timestamp())
    Channel.objects.update(secret="not sealed by this key")
    assert press(client, bot, fired, at_s=at_s) == 200
    assert press(client, bot, fired, at_s=at_s) == 200, "and nobody can be told"
    Channel.objects.update(signing_secret="not sealed by this key")
    assert press(client, bot, fired) == 503


def test_a_call_counts_if_it_is_signed_fresh_and_new(
    fired: Episode, bot: Channel, slack: SlackSink, client: Client, hook: Channel
) -> None:
    assert press(client, bot, fired, secret="another-signing-secret") == 401
    assert press(client, bot, fired, age_s=302) == 401
    assert press(client, bot, fired, age_s=-302) == 401
    assert press(client, hook, fired) == 404
    assert client.post(f"/hooks/slack/{bot.pk}/", {"payload": "x"}).status_code == 401
    assert client.get(f"/hooks/slack/{bot.pk}/").status_code == 405
    assert press(client, bot, fired, body=b"payload=%7B") == 200, "signed, and senseless"
    fired.refresh_from_db()
    assert fired.state == "open"
    at_s = int(timezone.now().timestamp()) - 100
    assert press(client, bot, fired, at_s=at_s) == 200
    Episode.objects.update(state="open")
    assert press(client, bot, fired, at_s=at_s) == 200, "the very same call, repeated"
    fired.refresh_from_db()
    assert fired.state == "open"
    assert slack.whispers[-1]["text"] == "This was done already."


def test_no_call_reaches_an_alert_of_another_organisation(
    fired: Episode, bot: Channel, client: Client, make_caller: Callable[..., Any]
) -> None:
    Delivery.objects.all().delete()
    Episode.objects.update(organisation=make_caller("admin").organisation, rule=None)
    press(client, bot, fired)
    assert Episode.objects.get().state == "open"


def test_slack_that_asks_for_patience_gets_it_and_the_message_once(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock
) -> None:
    slack.faults = [
        Fault(429, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}),
        Fault(503, body={}),
    ]
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    clock.pass_s(29)
    assert clock.sends() == 0
    clock.pass_s(2)
    assert clock.sends() == 1
    clock.pass_s(120)
    assert clock.sends() == 1
    assert Delivery.objects.get().state == "sent"
    assert len(slack.messages) == 1
    # after the failure of Slack's own it was looked for first
    assert slack.methods()[-2:] == ["conversations.history", "chat.postMessage"]
    bot.refresh_from_db()
    assert (bot.is_enabled, bot.failures) == (True, 0)


def test_a_message_whose_answer_was_lost_is_found_and_not_sent_again(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock
) -> None:
    slack.faults = [Fault(is_done=True, is_cut=True)]
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    clock.sends()
    assert Delivery.objects.get().state == "queued"
    clock.pass_s(60)
    clock.sends()
    told = Delivery.objects.get()
    assert (told.state, told.receipt) == ("sent", next(iter(slack.messages)))
    assert slack.methods() == ["chat.postMessage", "conversations.history"]


def test_slack_that_never_answers_is_left_and_asked_what_it_has(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.notify.channels.slack_bot.TIMEOUT_S", 0.5)
    slack.faults = [Fault(is_done=True, is_hung=True), Fault(is_hung=True)]
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    for _ in range(3):
        clock.sends()
        clock.pass_s(120)
    told = Delivery.objects.get()
    assert (told.state, told.attempts, len(slack.messages)) == ("sent", 3, 1)
    assert slack.methods() == ["chat.postMessage", *["conversations.history"] * 2]


def test_a_message_that_a_crash_left_is_looked_for(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock
) -> None:
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    assert deliveries.take(clock()) is not None
    clock.pass_s(deliveries.LEASE.total_seconds() + 1)
    clock.sends()
    assert slack.methods() == ["conversations.history", "chat.postMessage"], "it never went out"
    assert Delivery.objects.get().state == "sent"


def test_where_slack_will_not_say_it_is_unknown_until_a_person_decides(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock
) -> None:
    slack.refused["conversations.history"] = "missing_scope"
    slack.faults = [Fault(is_done=True, is_cut=True)]
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    clock.sends()
    clock.pass_s(60)
    clock.sends()
    told = Delivery.objects.get()
    assert told.state == "unknown"
    assert told.error.endswith("Slack answered missing_scope.")
    clock.pass_s(3_600)
    assert clock.sends() == 0
    resend(actor, delivery_id=told.pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    assert Delivery.objects.get().state == "sent"


def test_what_a_webhook_of_slacks_left_open_is_unknown(
    hook: Channel, sink: Any, organisation: Organisation, actor: Actor, clock: Clock
) -> None:
    channel = create_channel(
        actor, organisation=organisation, name="plain", kind="slack", url=sink.url
    )
    send_test(actor, channel_id=channel.pk)
    clock.pass_s(1)
    assert deliveries.take(clock()) is not None
    clock.pass_s(deliveries.LEASE.total_seconds() + 1)
    clock.sends()
    assert sink.posts == []
    assert Delivery.objects.get().state == "unknown"


def test_a_token_that_is_refused_is_final_and_told_nowhere(
    bot: Channel, slack: SlackSink, actor: Actor, clock: Clock, admin: Any, caplog: Any
) -> None:
    slack.refused["chat.postMessage"] = "not_in_channel"
    send_test(actor, channel_id=bot.pk)
    clock.pass_s(1)
    clock.sends()
    told = Delivery.objects.get()
    assert (told.state, told.error) == ("failed", "Slack answered not_in_channel.")
    shown = admin.get(f"/channels/{bot.pk}/").content + admin.get("/deliveries/").content
    shown += json.dumps(list(AuditEntry.objects.values("before", "after"))).encode()
    assert b"CANARY" not in shown + caplog.text.encode()
