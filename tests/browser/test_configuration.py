"""The pages of the configuration as a person uses them, in a real browser."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from redis import Redis

from controlplane.bridge import publisher
from controlplane.models import ConfigRevision, Installation, Pool, Role, Route, UsageMinute, User
from controlplane.services.actors import Actor
from controlplane.services.models import create_model
from controlplane.services.pools import create_pool
from controlplane.services.prices import create_price
from controlplane.services.projects import create_project
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.users import grant_role
from inference.contract import codec, wire
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Vitals
from tests.browser.conftest import Console, Visitor

pytestmark = pytest.mark.browser

APPLIED_WITHIN_MS = 3_000


@pytest.fixture
def route(console: Console, actor: Actor) -> Route:
    """A route over two pools with a quarter of an hour of traffic, and an operator to change it."""
    home = console.organisation
    grant_role(actor, subject=User.objects.get(), organisation=home, role=Role.ADMIN)
    pools = []
    for name, model, port, price in (
        ("llama-70b-prod", "llama-70b", 9101, 700_000_000),
        ("qwen3-32b-prod", "qwen3-32b", 9102, 270_000_000),
    ):
        listed = create_model(actor, organisation=home, name=model, max_context_tokens=32_768)
        create_price(
            actor, model=listed, input_nanousd_per_mtok=price, output_nanousd_per_mtok=4 * price
        )
        pool = create_pool(
            actor,
            organisation=home,
            name=name,
            model=model,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port}/v1"],
        )
        pools.append(pool)
    project = create_project(actor, organisation=home, team=home.teams.get(), name="support-chat")
    made = create_route(
        actor,
        organisation=home,
        name="chat-default",
        targets=[TargetChoice(pools[0], 80), TargetChoice(pools[1], 20)],
    )
    minute = int(time.time()) // 60 * 60 - 900
    for pool, attempts in zip(pools, (1_592, 408), strict=True):
        book(made, pool, project.pk, attempts, minute)
    return made


def book(route: Route, pool: object, project_id: str, attempts: int, minute: int) -> None:
    """A roll-up, as the recorder writes it."""
    UsageMinute(
        organisation_id=route.organisation_id,
        minute=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(minute)),
        route_id=route.pk,
        pool_id=pool.pk,  # type: ignore[attr-defined]
        model_id=pool.model_id,  # type: ignore[attr-defined]
        project_id=project_id,
        requests=attempts,
        attempts=attempts,
        prompt_tokens=900 * attempts,
        completion_tokens=180 * attempts,
    ).save(force_insert=True)


def gateway_runs_newest(store: Redis) -> int:
    """One gateway of one process says that it runs the newest version."""
    publisher.publish()
    newest = ConfigRevision.objects.order_by("-id")[0]
    now = time.time()
    record = Vitals(
        process="gw-1/0",
        role=ProcessRole.GATEWAY,
        pid=1,
        gateway="gw-1",
        started_at=now,
        written_at=now,
        applied=Applied(Installation.objects.get().lineage, newest.version),
    )
    store.set(wire.vitals_key(record.process), codec.encode_vitals(record), ex=300)
    store.zadd(wire.SEEN, {record.process: now})
    return int(newest.version)


def test_a_weight_is_changed_reviewed_applied_audited_and_rolled_back(
    visitor: Visitor, route: Route, state_store: Redis, shots: Path
) -> None:
    page = visitor.page
    before = gateway_runs_newest(state_store)
    visitor.go(f"/routes/{route.pk}/")
    expect(page.locator(".fl-l path")).to_have_count(2)
    expect(page.get_by_role("row", name=re.compile("llama-70b-prod"))).to_contain_text("79.6 %")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Weight of target 1").fill("60")
    page.get_by_label("Weight of target 2").fill("40")
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Review changes to route chat-default"
    )
    expect(page.locator(".diff")).to_contain_text("80 (80.0 %)")
    expect(page.get_by_text("~20.0 % of what comes while workers are equally free")).to_be_visible()
    expect(page.get_by_text("2,000 in the last 24 h")).to_be_visible()
    expect(page.get_by_text("support-chat")).to_be_visible()
    visitor.check_accessibility()
    visitor.picture("route-review-1400-dark", shots)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("Give a reason. It is kept in the audit log.")
    page.get_by_label("Reason, kept in the audit log").fill("qwen has room")
    page.get_by_role("button", name="Save", exact=True).click()
    waiting = page.locator("#applied[data-applied=waiting]")
    expect(waiting).to_contain_text("Applied on 0 of 1 gateways so far")
    assert gateway_runs_newest(state_store) == before + 1
    done = page.locator("#applied[data-applied=all]")
    expect(done).to_contain_text(
        f"Applied on 1 of 1 gateways at v{before + 1} in", timeout=APPLIED_WITHIN_MS
    )
    visitor.picture("route-applied-1400-dark", shots)
    page.get_by_role("link", name="view diff").click()
    entry = page.locator(".acts-l > li").first
    expect(entry).to_contain_text("qwen has room")
    visitor.picture("route-activity-1400-dark", shots)
    entry.get_by_role("link").click()
    expect(page.get_by_role("link", name="Revert this change")).to_be_visible()
    visitor.check_accessibility()
    page.get_by_role("link", name="Snapshots").click()
    expect(page.locator(".runs")).to_contain_text("up to date")
    page.get_by_role("link", name=f"v{before}", exact=True).click()
    page.get_by_role("link", name="Roll back to this version").click()
    expect(page.locator(".diff")).to_contain_text("weight 60")
    page.get_by_label("Reason, kept in the audit log").fill("back to what worked")
    visitor.picture("roll-back-1400-dark", shots)
    visitor.check_accessibility()
    page.get_by_role("button", name=f"Roll back to version {before}").click()
    expect(waiting).to_be_visible()
    gateway_runs_newest(state_store)
    expect(page.locator("#applied[data-applied=all]")).to_contain_text(f"at v{before + 2}")
    assert [one.weight for one in route.targets.order_by("position")] == [80, 20]


def test_leaving_a_form_with_changes_is_asked_about(visitor: Visitor, route: Route) -> None:
    page = visitor.page
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    visitor.go(f"/routes/{route.pk}/edit/")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("chat-default")
    assert asked == []
    visitor.go(f"/routes/{route.pk}/edit/")
    page.get_by_label("Weight of target 1").fill("60")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("chat-default")
    assert asked == ["beforeunload"]


PAGES = (
    "/models/",
    "/models/new/",
    "/routes/",
    "/routes/{route}/",
    "/routes/{route}/edit/",
    "/routes/{route}/delete/",
    "/prices/",
    "/limits/",
    "/limits/new/",
    "/switches/",
    "/switches/new/?subject=route&subject_id={route}",
    "/snapshots/",
    "/snapshots/{version}/",
    "/audit/",
    "/organisations/{organisation}/",
    "/teams/",
    "/projects/",
)


def test_every_page_fits_and_is_accessible(
    visit: Callable[..., Visitor],
    route: Route,
    state_store: Redis,
    shots: Path,
) -> None:
    version = gateway_runs_newest(state_store)
    visitor = visit()
    visitor.sign_in()
    places = {
        "route": route.pk,
        "version": str(version),
        "organisation": route.organisation_id,
    }
    for path in PAGES:
        visitor.go(path.format(**places))
        expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
        name = path.strip("/").replace("/", "-").translate(str.maketrans("", "", "{}"))
        visitor.look_at(name, shots)


def choose(page: Page, target: int, rule: int, pool: str) -> None:
    """Choose the pool of one target of one rule."""
    chooser = page.get_by_label(f"Pool of target {target} of rule {rule}")
    chooser.select_option(Pool.objects.get(name=pool).pk)


def test_a_rule_is_written_reviewed_and_drawn(
    visitor: Visitor, route: Route, state_store: Redis, shots: Path
) -> None:
    page = visitor.page
    gateway_runs_newest(state_store)
    visitor.go(f"/routes/{route.pk}/edit/")
    page.get_by_role("button", name="Add a rule").click()
    page.locator("#rules-0-name").fill("code at night")
    page.locator("#rules-0-tags").fill("gold, team=search")
    page.get_by_label("code", exact=True).check()
    page.locator("#rules-0-from").fill("22:00")
    page.locator("#rules-0-to").fill("06:00")
    choose(page, 1, 1, "qwen3-32b-prod")
    page.get_by_role("button", name="Add a target to rule 1").click()
    choose(page, 2, 1, "llama-70b-prod")
    page.get_by_label("Weight of target 2 of rule 1").fill("1")
    page.get_by_label("Tier of target 2 of rule 1").fill("1")
    page.get_by_role("button", name="Add a rule").click()
    page.locator("#rules-1-name").fill("long prompts")
    page.locator("#rules-1-prompt_tokens_min").fill("8000")
    choose(page, 1, 2, "llama-70b-prod")
    page.get_by_role("button", name="Move rule 2 up").click()
    expect(page.locator("#rules-0-name")).to_have_value("long prompts")
    visitor.look_at("route-rules-form", shots)
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator(".diff")).to_contain_text("tagged gold or team=search")
    expect(page.get_by_role("button", name="What would this have done?")).to_be_visible()
    visitor.look_at("route-rules-review", shots)
    page.get_by_label("Reason, kept in the audit log").fill("nights are for code")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".fl-rs > li")).to_have_count(3)
    expect(page.locator(".fl-f")).to_contain_text("llama-70b-prod")
    visitor.look_at("route-rules-detail", shots)
