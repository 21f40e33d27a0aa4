"""Messages: each goes out once, whatever receivers, workers and channels do."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from pydantic import SecretStr

from controlplane.alerting.outbox import send_due
from controlplane.errors import Conflict
from controlplane.models import AuditEntry, Channel, Delivery, Episode, Organisation
from controlplane.notify.base import Sent
from controlplane.notify.channels.webhook import signature_of
from controlplane.services import deliveries
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel, update_channel
from controlplane.services.deliveries import resend, send_test
from tests.controlplane.alerts.conftest import SECRET, Clock
from tests.controlplane.alerts.sinks import MailSink, Sink

pytestmark = pytest.mark.slow

TEST_WORDS = "If you read this, alerts reach you here. Nothing is wrong."


def the_only() -> Delivery:
    return Delivery.objects.get()


def test_a_webhook_is_signed_over_time_and_body(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    delivery = send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    (post,) = sink.posts
    assert post.headers["x-headworks-delivery"] == delivery.pk
    seconds = int(post.headers["x-headworks-signature"].split(",")[0].removeprefix("t="))
    expected = signature_of(SECRET, seconds, post.body)
    assert post.headers["x-headworks-signature"] == expected
    told = json.loads(post.body)
    assert (told["id"], told["kind"]) == (delivery.pk, "test")
    assert (the_only().state, the_only().attempts, the_only().status) == ("sent", 1, 200)


def test_patience_that_is_asked_for_is_had_and_later_messages_come_too(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    sink.answers = [(429, {"Retry-After": "2"}), (429, {"Retry-After": "2"})]
    first = send_test(actor, channel_id=hook.pk)
    second = send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    assert clock.sends() == 1, "the second waits with the first"
    assert clock.sends() == 0
    clock.pass_s(1.9)
    assert clock.sends() == 0
    clock.pass_s(0.2)
    assert clock.sends() == 1
    clock.pass_s(2.1)
    assert clock.sends() == 2
    # the one that was refused twice came a third time, and nothing came that was taken already
    ids = Counter(post.headers["x-headworks-delivery"] for post in sink.posts)
    assert sum(ids.values()) == 4
    assert set(ids) == {first.pk, second.pk}
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    hook.refresh_from_db()
    assert (hook.is_enabled, hook.failures, hook.waits_until) == (True, 0, None)
    third = send_test(actor, channel_id=hook.pk)
    clock.pass_s(3)
    assert clock.sends() == 1
    assert Delivery.objects.get(pk=third.pk).state == "sent"


def test_a_message_that_a_crash_left_is_sent_again_under_the_same_id(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    delivery = send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    left = deliveries.take(clock())
    assert left is not None
    assert the_only().state == "sending", "marked, and committed, before any call"
    clock.pass_s(deliveries.LEASE.total_seconds() - 1)
    assert clock.sends() == 0
    clock.pass_s(2)
    assert clock.sends() == 1
    (post,) = sink.posts
    assert post.headers["x-headworks-delivery"] == delivery.pk
    assert (the_only().state, the_only().attempts) == ("sent", 2)
    # the first process was slow, not dead: what it has to say counts no more
    assert deliveries.note_sent(left, Sent(200), clock()) is False
    assert the_only().attempts == 2


def test_a_message_no_process_survives_is_given_up(
    hook: Channel, actor: Actor, clock: Clock
) -> None:
    send_test(actor, channel_id=hook.pk)
    for _ in range(deliveries.TRIES):
        clock.pass_s(deliveries.LEASE.total_seconds() + 1)
        assert deliveries.take(clock()) is not None
    clock.pass_s(deliveries.LEASE.total_seconds() + 1)
    assert clock.sends() == 0
    assert the_only().state == "failed"
    assert the_only().error.startswith("Processes that sent it ended")


def test_it_is_tried_ever_more_rarely_then_given_up_and_can_be_sent_again(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    sink.answers = [(500, {})] * 8
    send_test(actor, channel_id=hook.pk)
    waits = []
    for _ in range(8):
        clock.now = max(clock.now, the_only().next_try_at) + timedelta(milliseconds=1)
        began = clock.now
        assert clock.sends() == 1
        waits.append(round((the_only().next_try_at - began).total_seconds()))
    assert waits == [5, 15, 60, 180, 600, 1_200, 1_800, 0]
    assert (the_only().state, the_only().error) == ("failed", "The receiver answered 500.")
    clock.pass_s(7_200)
    assert clock.sends() == 0
    resend(actor, delivery_id=the_only().pk)
    with pytest.raises(Conflict):
        resend(actor, delivery_id=the_only().pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    assert len({post.headers["x-headworks-delivery"] for post in sink.posts}) == 1
    assert (the_only().state, the_only().attempts) == ("sent", 1)


def test_a_channel_that_keeps_failing_is_switched_off_says_so_and_comes_back_without_a_burst(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    sink.answers = [(410, {})] * 2
    for _ in range(5):
        send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    assert clock.sends() == 2, "what waited behind is given up with the channel"
    hook.refresh_from_db()
    assert hook.is_dead
    assert hook.disabled_reason == "It kept failing: The receiver answered 410."
    assert set(Delivery.objects.values_list("state", flat=True)) == {"failed"}
    entry = AuditEntry.objects.get(action="disable", object_id=hook.pk)
    assert entry.after is not None
    assert entry.after["is_enabled"] is False
    with pytest.raises(Conflict):
        send_test(actor, channel_id=hook.pk)
    clock.looks()
    episode = Episode.objects.get(kind="dead_channel")
    assert (episode.state, episode.subject_id, episode.rule_id) == ("open", hook.pk, None)
    update_channel(actor, channel_id=hook.pk, changes={"is_enabled": True})
    clock.looks()
    assert clock.sends() == 0
    assert len(sink.posts) == 2
    episode.refresh_from_db()
    assert episode.state == "resolved"


def test_a_receiver_that_keeps_a_call_for_too_long_is_left(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.notify.posting.WHOLE_S", 0.1)
    is_left = threading.Event()
    sink.on_post = lambda: is_left.wait(120)
    send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    is_left.set()
    assert the_only().state == "queued"
    assert the_only().error.startswith("No connection: ")


def test_a_redirect_is_not_followed(hook: Channel, sink: Sink, actor: Actor, clock: Clock) -> None:
    sink.answers = [(302, {"Location": f"{sink.url}/elsewhere"})]
    send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    assert clock.sends() == 1
    assert [post.path for post in sink.posts] == ["/in"]
    assert "redirects are not followed" in the_only().error


def test_an_address_that_is_closed_by_now_is_not_called(
    hook: Channel,
    sink: Sink,
    actor: Actor,
    clock: Clock,
    with_settings: Callable[..., None],
) -> None:
    send_test(actor, channel_id=hook.pk)
    with_settings(allow_private_webhooks=False)
    clock.pass_s(1)
    assert clock.sends() == 1
    assert sink.posts == []
    assert "private or loopback" in the_only().error


def test_a_mail_has_text_and_markup_and_the_same_id_on_repeat(
    mail: MailSink, organisation: Organisation, actor: Actor, clock: Clock
) -> None:
    channel = create_channel(
        actor,
        organisation=organisation,
        name="ops <b>",
        kind="email",
        recipients=["ann@example.com", "bob@example.com"],
    )
    mail.refusals = ["451 try again later"]
    delivery = send_test(actor, channel_id=channel.pk)
    clock.pass_s(1)
    clock.sends()
    assert (the_only().state, the_only().status) == ("queued", 451)
    clock.pass_s(6)
    clock.sends()
    clock.pass_s(1)
    # a crash after the server took it, before that was written down
    Delivery.objects.update(state="sending", taken_at=clock.now - timedelta(minutes=5))
    clock.sends()
    assert [one["Message-ID"] for one in mail.mails] == [f"<{delivery.pk}@example.com>"] * 2
    sent = mail.mails[0]
    assert sent["Subject"] == "Test of channel ops <b>"
    assert mail.recipients[0] == ["ann@example.com", "bob@example.com"]
    text, markup = (part.get_content() for part in sent.iter_parts())
    assert text.splitlines()[:3] == ["Test of channel ops <b>", "", TEST_WORDS]
    assert "<h1" in markup
    assert "ops &lt;b&gt;" in markup
    assert "ops <b>" not in markup


def test_mail_that_is_not_set_up_says_what_to_set(
    organisation: Organisation, actor: Actor, clock: Clock
) -> None:
    channel = create_channel(
        actor, organisation=organisation, name="ops", kind="email", recipients=["a@example.com"]
    )
    send_test(actor, channel_id=channel.pk)
    clock.pass_s(1)
    clock.sends()
    assert the_only().state == "failed"
    assert the_only().error.startswith("Set HEADWORKS_SMTP_URL")


def test_slack_is_given_blocks_whose_values_are_no_commands(
    hook: Channel, sink: Sink, organisation: Organisation, actor: Actor, clock: Clock
) -> None:
    channel = create_channel(
        actor, organisation=organisation, name="x <!channel> *b*", kind="slack", url=sink.url
    )
    send_test(actor, channel_id=channel.pk)
    clock.pass_s(1)
    clock.sends()
    document = json.loads(sink.posts[0].body)
    assert [one["type"] for one in document["blocks"]] == ["header", "section", "context"]
    assert document["text"] == "Test of channel x &lt;!channel&gt; \u200b*b\u200b*"
    assert document["blocks"][0]["text"]["type"] == "plain_text"


@pytest.mark.django_db(transaction=True)
def test_several_workers_send_each_message_once(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock
) -> None:
    ids = {send_test(actor, channel_id=hook.pk).pk for _ in range(8)}
    clock.pass_s(1)

    def work(_: int) -> int:
        try:
            return send_due(clock)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 8
    assert sorted(post.headers["x-headworks-delivery"] for post in sink.posts) == sorted(ids)


def test_nothing_of_a_secret_is_told(
    hook: Channel, sink: Sink, actor: Actor, clock: Clock, admin: Any, caplog: Any
) -> None:
    sink.answers = [(500, {})]
    send_test(actor, channel_id=hook.pk)
    clock.pass_s(1)
    clock.sends()
    update_channel(actor, channel_id=hook.pk, changes={"secret": SECRET + "-2", "url": sink.url})
    told = admin.get(f"/channels/{hook.pk}/").content + admin.get("/deliveries/").content
    told += json.dumps(list(AuditEntry.objects.values("before", "after"))).encode()
    told += caplog.text.encode()
    assert b"CANARY" not in told
    assert b"/in" not in told.replace(b"/installation", b"")
    hook.refresh_from_db()
    assert "CANARY" not in f"{hook.url} {hook.secret}"
    smtp = SecretStr("smtp://bob:CANARY@mail.example.com")
    process = settings.HEADWORKS.model_copy(update={"smtp_url": smtp})
    assert "CANARY" in process.known_secrets
    assert "CANARY" not in repr(process) + repr(process.mail_server)
