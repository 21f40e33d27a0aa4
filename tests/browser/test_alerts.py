"""The pages of alerts in a real browser: each fits, axe finds nothing, and an alert is taken up."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from redis import Redis

from controlplane.alerting.evaluation import evaluate
from controlplane.models import (
    AlertRule,
    Channel,
    Delivery,
    Episode,
    LiveTraffic,
    Organisation,
    Role,
    User,
)
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.channels import create_channel
from controlplane.services.deliveries import send_test
from controlplane.services.episodes import update_episode
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.silences import create_silence
from controlplane.services.users import grant_role
from inference.contract.kinds import WorkerState
from inference.decisions.histograms import bucket_of
from tests.browser.conftest import Console, Visitor
from tests.controlplane.fleet import put_directory, worker

pytestmark = pytest.mark.browser

# one of each template and of each table's kind of cell; the other tabs are the same list
PAGES = (
    ("alerts", "/alerts/"),
    ("alert", "/alerts/{alert}/"),
    ("alert-rule", "/alerts/rules/{rule}/"),
    ("alert-rule-new", "/alerts/rules/new/"),
    ("service-levels", "/alerts/levels/"),
    ("silence-new", "/alerts/silences/new/?rule={rule}"),
    ("channel-new", "/alerts/channels/new/"),
    ("channel", "/alerts/channels/{channel}/"),
    ("delivery", "/alerts/deliveries/{delivery}/"),
)


def rules(actor: Actor, home: Organisation) -> tuple[Channel, AlertRule]:
    """Two channels and two rules: the channel that will be dead, and the rule that fires."""
    create_channel(
        actor,
        organisation=home,
        name="on call",
        kind="email",
        recipients=["ann@example.com", "bob@example.com", "eve@example.com"],
        tells_switches=True,
    )
    dead = create_channel(
        actor, organisation=home, name="old", kind="slack", url="https://hooks.example.com/x"
    )
    rule = create_alert_rule(
        actor,
        organisation=home,
        name="Pool down",
        kind="pool_down",
        scope="pool",
        severity="critical",
        channels=["on call"],
    )
    create_alert_rule(
        actor, organisation=home, name="Errors", kind="error_rate", scope="organisation"
    )
    return dead, rule


def routes(actor: Actor, home: Organisation, now: datetime) -> None:
    """A route that keeps its objectives, one that doesn't, and one nobody asked."""
    for name, failed in (("chat", 0), ("summaries", 9), ("spare", None)):
        targets = [TargetChoice("spare", 1)]
        route = create_route(actor, organisation=home, name=name, targets=targets)
        if failed is None:
            continue
        LiveTraffic.objects.create(
            resolution_s=5,
            organisation_id=home.pk,
            at=now - timedelta(minutes=2),
            pool_id="",
            route_id=route.pk,
            source="a/0",
            requests=1_000,
            failures={"timeout": failed},
            first_token_ms={bucket_of(120.0): 995, bucket_of(900.0): 5},
            output_token_ms={},
            **dict.fromkeys(("prompt_tokens", "completion_tokens", "cost_nanousd"), 0),
            **dict.fromkeys(("unknown_usage", "unknown_cost"), 0),
        )


@pytest.fixture
def places(console: Console, actor: Actor, state_store: Redis) -> dict[str, str]:
    """Two pools that are down, one of them acknowledged, and what belongs to alerts."""
    home = console.organisation
    grant_role(actor, subject=User.objects.get(), organisation=home, role=Role.ADMIN)
    pools = [
        create_pool(
            actor,
            organisation=home,
            name=name,
            model="llama-70b",
            provisioner="static",
            addresses=["http://127.0.0.1:9101/v1"],
        )
        for name in ("llama-70b-prod", "llama-70b-batch", "spare")
    ]
    dead, rule = rules(actor, home)
    now = timezone.now()
    routes(actor, home, now)
    states = (WorkerState.FAILED, WorkerState.FAILED, WorkerState.READY)
    entries = [worker(f"{one.pk}-0", state) for one, state in zip(pools, states, strict=True)]
    put_directory(state_store, *entries)
    evaluate(now)
    ended, held = Episode.objects.order_by("subject_name")
    update_episode(actor, episode_id=ended.pk, changes={"state": "resolved"})
    send_test(actor, channel_id=dead.pk)
    why = "It kept failing: The receiver answered 410."
    Delivery.objects.filter(channel=dead).update(
        state="failed", attempts=8, status=410, error="The receiver answered 410."
    )
    Channel.objects.filter(pk=dead.pk).update(is_enabled=False, disabled_reason=why)
    create_silence(
        actor,
        organisation=home,
        subject_id=pools[1].pk,
        reason="works on the host",
        ends_at=now + timedelta(hours=4),
    )
    delivery = Delivery.objects.filter(kind="fired").first()
    assert delivery is not None
    return {
        "alert": held.pk,
        "rule": rule.pk,
        "channel": dead.pk,
        "delivery": delivery.pk,
    }


def test_every_page_fits_and_is_accessible(
    visitor: Visitor, places: dict[str, str], shots: Path
) -> None:
    for name, path in PAGES:
        visitor.go(path.format(**places))
        expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
        visitor.look_at(name, shots)


def test_an_alert_is_found_on_the_overview_and_taken_up(
    visitor: Visitor, places: dict[str, str], shots: Path
) -> None:
    page = visitor.page
    visitor.go("/")
    expect(page.get_by_role("link", name="summaries")).to_contain_text("99.10 %, burn rate 90.0")
    visitor.look_at("overview-levels", shots)
    page.locator("[data-needs]").get_by_role("link", name="Pool down: llama-70b-prod").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pool down: pool llama-70b-prod")
    expect(page.locator(".ni .cnt")).to_have_text("1 open")
    page.get_by_role("link", name="Acknowledge", exact=True).click()
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.locator(".ph .chip")).to_have_text("Acknowledged")
    expect(page.locator(".ni .cnt")).to_have_count(0)
    assert Episode.objects.get(pk=places["alert"]).acknowledged_by == "mira"


def test_a_rule_is_written_and_reviewed(
    visitor: Visitor, places: dict[str, str], shots: Path
) -> None:
    page = visitor.page
    visitor.go("/alerts/rules/new/")
    page.get_by_label("Name", exact=True).fill("Slow")
    page.get_by_label("Watches").select_option("first_token")
    page.get_by_label("Where", exact=True).select_option("pool")
    page.get_by_label("on call").check()
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator(".rv-b")).to_contain_text("First token, p95 2,000 ms or more in 5 min")
    visitor.look_at("alert-rule-review", shots)
    page.get_by_label("Reason, kept in the audit log").fill("people wait")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Slow")
    assert AlertRule.objects.get(name="Slow").window_s == 300
