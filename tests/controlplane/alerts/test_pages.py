"""The pages of alerts: what people see, and what they do there."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from redis import Redis

from controlplane.models import (
    AlertRule,
    AuditEntry,
    Channel,
    Delivery,
    Episode,
    Role,
    Silence,
)
from controlplane.services.actors import Actor
from controlplane.services.users import create_user, grant_role
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import SECRET, Clock
from tests.controlplane.alerts.sinks import Sink
from tests.controlplane.conftest import Caller
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.fleet import put_directory, worker

pytestmark = pytest.mark.slow

Make = Callable[..., AlertRule]


@pytest.fixture
def browser(admin: Caller, actor: Actor, collected_files: None, state_store: Redis) -> Client:
    """Somebody who may write in the admin's organisation."""
    user = create_user(actor, username="ada", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.OPERATOR)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def fired(make_rule: Make, pool: Any, state_store: Redis, clock: Clock) -> Episode:
    """An alert that holds."""
    make_rule(severity="critical")
    put_directory(state_store, worker(f"{pool['id']}-0", WorkerState.FAILED))
    clock.looks(1)
    return Episode.objects.get()


def test_a_channel_is_made_by_a_review_that_carries_its_secrets_sealed(
    browser: Client, with_settings: Callable[..., None], sink: Sink, clock: Clock
) -> None:
    with_settings(allow_private_webhooks=True)
    flow = Flow(browser, "/alerts/channels/new/")
    url = f"{sink.url}/CANARY"
    flow.send("review", name="ops", kind="webhook", url=url, secret=SECRET)
    assert "Review the new channel" in flow.words
    assert "CANARY" not in flow.page
    flow.send("save", reason="for the night")
    channel = Channel.objects.get()
    assert (channel.name, channel.host, channel.organisation_id is not None) == (
        "ops",
        "127.0.0.1",
        True,
    )
    page = browser.get(f"/alerts/channels/{channel.pk}/").content.decode()
    assert "set, ends in hook" in words_of(page)
    assert "CANARY" not in page
    test = Flow(browser, f"/alerts/channels/{channel.pk}/test/")
    assert test.send("save")["Location"].startswith("/alerts/deliveries/")
    assert sink.posts == [], "the request sends nothing; the jobs do"
    clock.pass_s(1)
    assert clock.sends() == 1
    assert len(sink.posts) == 1
    assert "Sent" in words_of(browser.get("/alerts/deliveries/").content.decode())


def test_an_edit_keeps_the_secrets_that_are_not_given_anew(browser: Client, hook: Channel) -> None:
    before = (hook.url, hook.secret)
    flow = Flow(browser, f"/alerts/channels/{hook.pk}/edit/")
    flow.send("review", name="night")
    flow.send("save")
    hook.refresh_from_db()
    assert (hook.name, hook.url, hook.secret) == ("night", *before)


def test_private_addresses_are_closed_unless_the_host_opens_them(
    browser: Client, admin: Caller
) -> None:
    for url in ("http://127.0.0.1:9/x", "http://10.0.0.1/x", "http://localhost/x"):
        flow = Flow(browser, "/alerts/channels/new/")
        flow.send("review", name="ops", kind="slack", url=url)
        assert "points at a private or loopback address" in flow.words
    answer = admin.post(
        "/channels/", {"name": "x", "kind": "slack", "url": "http://169.254.169.254/"}
    )
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["url"])
    assert not Channel.objects.exists()


def test_a_rule_is_reviewed_with_what_the_last_day_would_have_brought(
    browser: Client, hook: Channel, pool: Any
) -> None:
    flow = Flow(browser, "/alerts/rules/new/")
    filled = {"name": "errors", "kind": "error_rate", "scope": "pool", "scope_id": "mine"}
    flow.send("review", **filled, channels="hook", severity="critical")
    assert "Error rate 5 % or more in 5 min, for 1 min" in flow.words
    assert "Last 24 h no data" in flow.words
    flow.send("save")
    assert "Give a reason" in flow.words
    flow.send("save", reason="it was missed")
    rule = AlertRule.objects.get()
    assert (rule.threshold, rule.window_s, rule.for_s) == (5.0, 300, 60)
    assert [one.name for one in rule.channels.all()] == ["hook"]
    page = words_of(browser.get(f"/alerts/rules/{rule.pk}/").content.decode())
    assert "Nobody has looked yet" in page
    edit = Flow(browser, f"/alerts/rules/{rule.pk}/edit/")
    edit.send("review", threshold="7.5")
    assert "5 % 7.5 %" in edit.words
    edit.send("save", reason="less noise")
    rule.refresh_from_db()
    assert rule.threshold == 7.5
    entry = AuditEntry.objects.get(noun="alert_rules", action="update")
    assert (entry.reason, entry.before, entry.after) == (
        "less noise",
        {"threshold": 5.0},
        {"threshold": 7.5},
    )
    gone = Flow(browser, f"/alerts/rules/{rule.pk}/delete/")
    gone.send("save", confirm="errors", reason="done")
    assert not AlertRule.objects.exists()


def test_an_alert_is_seen_taken_up_and_ended(
    browser: Client, fired: Episode, admin: Caller
) -> None:
    page = browser.get("/alerts/").content.decode()
    assert '<span class="cnt crit">1<span class="vh"> open</span></span>' in page
    assert "down Critical pool mine 100 % 100 % Open" in words_of(page)
    needs = admin.get("/attention/?window=5m").json()["needs"]
    assert (needs[0]["kind"], needs[0]["alert_id"]) == ("alert", fired.pk)
    flow = Flow(browser, f"/alerts/{fired.pk}/acknowledge/")
    assert flow.send("save").status_code == 302
    page = browser.get("/alerts/").content.decode()
    assert "Acknowledged" in words_of(page)
    assert "cnt crit" not in page
    Flow(browser, f"/alerts/{fired.pk}/snooze-1h/").send("save")
    fired.refresh_from_db()
    assert (fired.state, fired.acknowledged_by) == ("snoozed", "ada")
    ended = Flow(browser, f"/alerts/{fired.pk}/resolve/")
    ended.send("save")
    assert "Give a reason" in ended.words
    ended.send("save", reason="the host is gone")
    assert "Nothing holds" in words_of(browser.get("/alerts/").content.decode())
    history = words_of(browser.get("/alerts/history/").content.decode())
    assert "Ended by ada." in history


def test_it_is_silenced_from_its_row_with_an_end(
    browser: Client, fired: Episode, clock: Clock
) -> None:
    page = browser.get("/alerts/").content.decode()
    rule = fired.rule_id
    assert f"/alerts/silences/new/?rule={rule}&amp;subject_id={fired.subject_id}" in page
    flow = Flow(browser, f"/alerts/silences/new/?rule={rule}&subject_id={fired.subject_id}")
    flow.send("save", told="works on the host", ends="14400")
    silence = Silence.objects.get()
    assert (silence.rule_id, silence.subject_id) == (rule, fired.subject_id)
    assert 14_000 < (silence.ends_at - silence.created_at).total_seconds() < 14_800
    assert "Open, silenced" in words_of(browser.get("/alerts/").content.decode())
    assert "works on the host" in words_of(browser.get("/alerts/silences/").content.decode())
    Flow(browser, f"/alerts/silences/{silence.pk}/delete/").send(
        "save", confirm="of down", reason="done"
    )
    assert not Silence.objects.exists()


def test_a_dead_letter_is_sent_again_by_page_and_by_rest(
    browser: Client, hook: Channel, sink: Sink, admin: Caller, clock: Clock
) -> None:
    made = admin.made("/deliveries/", {"channel": "hook"})
    for again in ("page", "rest"):
        Delivery.objects.update(state="failed", attempts=8, error="The receiver answered 500.")
        page = browser.get(f"/alerts/deliveries/{made['id']}/").content.decode()
        assert "Send again" in page
        if again == "page":
            Flow(browser, f"/alerts/deliveries/{made['id']}/resend/").send("save")
        else:
            told = admin.patch(f"/deliveries/{made['id']}/", {"state": "queued"})
            assert told.status_code == 200
        clock.pass_s(2)
        assert clock.sends() == 1
    assert {post.headers["x-headworks-delivery"] for post in sink.posts} == {made["id"]}
    assert admin.patch(f"/deliveries/{made['id']}/", {"state": "queued"}).status_code == 409


def test_a_dead_channel_says_why_on_its_page(browser: Client, hook: Channel) -> None:
    why = "It kept failing: The receiver answered 410."
    Channel.objects.update(is_enabled=False, disabled_reason=why)
    page = words_of(browser.get(f"/alerts/channels/{hook.pk}/").content.decode())
    assert f"Switched off by itself. {why}" in page
    assert "Dead" in words_of(browser.get("/alerts/channels/").content.decode())


def test_what_is_another_organisations_can_not_be_named(
    admin: Caller, make_caller: Callable[..., Caller], hook: Channel, pool: Any
) -> None:
    stranger = make_caller("admin")
    rule = {"name": "x", "kind": "pool_down", "scope": "pool"}
    for field, value in (("channels", [hook.pk]), ("scope_id", pool["id"])):
        answer = stranger.post("/alert-rules/", {**rule, field: value})
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    answer = stranger.post("/deliveries/", {"channel": hook.pk})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["channel"])
    assert stranger.get(f"/channels/{hook.pk}/").status_code == 404


def test_what_is_the_installations_is_the_platform_administrators(
    admin: Caller, actor: Actor, collected_files: None
) -> None:
    user = create_user(actor, username="root", password="a long pass 1", is_platform_admin=True)
    client = Client()
    client.force_login(user)
    document = {"name": "all", "kind": "ledger_behind", "scope": "all", "organisation": None}
    made = client.post("/api/v1/alert-rules/", document, "application/json")
    assert made.status_code == 201, made.content
    assert made.json()["organisation_id"] is None
    assert "all" in client.get("/alerts/rules/").content.decode()
    assert admin.get("/alert-rules/").json()["results"] == []
    assert admin.get(f"/alert-rules/{made.json()['id']}/").status_code == 404
    edit = Flow(client, f"/alerts/rules/{made.json()['id']}/edit/")
    edit.send("review", name="whole")
    edit.send("save")
    assert AlertRule.objects.get().name == "whole"
    mine = {"name": "x", "kind": "ledger_behind", "scope": "all"}
    answer = admin.post("/alert-rules/", mine)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["scope"])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"scope": "route"}, "scope"),
        ({"threshold": 101}, "threshold"),
        ({"window_s": 60}, "window_s"),
        ({"kind": "error_rate", "window_s": 90}, "window_s"),
        ({"scope_id": "nowhere"}, "scope_id"),
        ({"channels": ["nobody"]}, "channels"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_at_its_field(
    admin: Caller, fields: dict[str, Any], wrong: str
) -> None:
    answer = admin.post(
        "/alert-rules/", {"name": "x", "kind": "pool_down", "scope": "pool"} | fields
    )
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [wrong])
