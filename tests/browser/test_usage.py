"""Usage, people and oneself as a person meets them, in a real browser."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controlplane.models import Role, User
from controlplane.services.actors import Actor
from controlplane.services.users import create_service_account, create_user, grant_role, issue_token
from inference.contract.events import End, Usage
from tests.browser.conftest import PASSWORD, USER, Console, Visitor
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.browser

DAY_MS = 86_400_000
ROUTES = ("chat-default", "batch-nightly", "support-assistant", "code-review")


def used(now_ms: int) -> list[End]:
    """A week of four routes, the last of them without a price."""
    ends = []
    for day in range(7):
        for place, name in enumerate(ROUTES):
            for number in range(1 + (day * 3 + place * 2) % 4):
                is_blind = name == ROUTES[-1]
                blind = make_charge(
                    usage=Usage(), price=None, cost_nanousd=None, cost_max_nanousd=None
                )
                ends.append(
                    make_end(
                        1 + day * 100 + place * 10 + number,
                        at_ms=now_ms - day * DAY_MS,
                        origin=make_origin(route_id=f"rt_{place}", route_name=name),
                        charges=(blind if is_blind else make_charge(),),
                    )
                )
    return ends


def fill(visitor: Visitor, console: Console, ends: list[End]) -> None:
    """Put requests into the ledger, and wait until the last one is there."""
    console.traffic(*ends)
    visitor.go("/requests/?last=ever")
    expect(visitor.page.locator("tbody tr")).to_have_count(min(50, len(ends)))


def heights(visitor: Visitor) -> list[float]:
    """How tall each bar is that the browser has drawn, in px."""
    bars = visitor.page.locator(".barlayer .trace .point path")
    expect(bars.first).to_be_attached()
    drawn: list[float] = bars.evaluate_all("all => all.map(one => one.getBBox().height)")
    return drawn


def test_usage_is_drawn_as_it_is_tabled_and_every_choice_is_in_the_address(
    visitor: Visitor, console: Console
) -> None:
    page = visitor.page
    ends = used(int(time.time() * 1000))
    fill(visitor, console, ends)
    visitor.go("/usage/")
    expect(page.locator("tfoot td").nth(0)).to_contain_text("Ledger total = sum of rows")
    expect(page.locator("tfoot td").nth(1)).to_have_text(str(len(ends)))
    drawn = heights(visitor)
    assert len(drawn) == 7 * len(ROUTES)
    assert min(drawn) > 4
    page.get_by_text("View as table").click()
    expect(page.locator(".as-table tbody tr")).to_have_count(7)
    page.get_by_label("Chart and rank by").select_option("cost")
    expect(page.get_by_role("heading", name="Cost by day")).to_be_visible()
    expect(page).to_have_url(re.compile(r"measure=cost.*range=7d"))
    expect(page.locator("table.usage tbody tr").last).to_contain_text("no price")
    assert len([one for one in heights(visitor) if one > 4]) == 7 * 3
    page.go_back()
    expect(page.get_by_role("heading", name="Requests by day")).to_be_visible()
    assert len(heights(visitor)) == 7 * len(ROUTES)
    page.get_by_role("link", name="24 hours").click()
    expect(page.get_by_role("heading", name="Requests by hour")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    assert download.value.suggested_filename.startswith("usage-route-")
    page.locator("table.usage tbody a").first.click()
    expect(page.get_by_role("heading", name="Requests", exact=True)).to_be_visible()
    expect(page.locator(".chips")).to_contain_text("Route: rt_")


def test_a_person_made_here_signs_in_with_a_password_seen_once(
    visit: Callable[..., Visitor], console: Console, actor: Actor
) -> None:
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=console.organisation, role=Role.ADMIN)
    admin = visit()
    admin.sign_in("/users/new/", "New user")
    page = admin.page
    page.get_by_label("User name").fill("nora")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Review changes").click()
    page.get_by_label("Reason").fill("joins the team")
    page.get_by_role("button", name="Create user").click()
    password = page.locator("#text").inner_text()
    admin.check_accessibility()
    page.get_by_role("link", name="Done, to the person").click()
    expect(page.get_by_role("heading", name="nora")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(password)
    nora = visit()
    nora.go("/usage/")
    nora.page.get_by_label("User name or e-mail").fill("nora")
    nora.page.get_by_label("Password").fill(password)
    nora.page.get_by_role("button", name="Sign in").click()
    expect(nora.page.get_by_role("heading", name="Change my password")).to_be_visible()
    nora.page.get_by_label("Your password").fill(password)
    nora.page.get_by_label("New password", exact=True).fill("a-passphrase-of-her-own")
    nora.page.get_by_label("New password again").fill("a-passphrase-of-her-own")
    nora.page.get_by_role("button", name="Change password").click()
    expect(nora.page.get_by_role("heading", name="nora")).to_be_visible()


def test_usage_and_people_are_accessible_fit_their_window_and_are_pictured(
    visit: Callable[..., Visitor],
    console: Console,
    actor: Actor,
    shots: Path,
) -> None:
    organisation = console.organisation
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=organisation, role=Role.ADMIN)
    other = create_user(actor, username="lea", password=PASSWORD, email="lea@example.org")
    grant_role(actor, subject=other, organisation=organisation, role=Role.FINANCE)
    account = create_service_account(actor, organisation=organisation, name="deployer")
    issue_token(actor, service_account=account)
    visitor = visit()
    visitor.sign_in()
    fill(visitor, console, used(int(time.time() * 1000)))
    for name, path in (
        ("usage", "/usage/"),
        ("usage-cost", "/usage/?measure=cost&group_by=model&range=30d"),
        ("usage-keys", "/usage/?group_by=key"),
        ("usage-empty", "/usage/?range=last-month"),
        ("usage-invalid", "/usage/?group_by=team&bucket=hour"),
        ("my-usage", "/me/usage/"),
        ("me", "/me/"),
        ("my-password", "/me/password/"),
        ("users", "/users/"),
        ("user-new", "/users/new/"),
        ("user", f"/users/{other.pk}/"),
        ("user-may", f"/users/{other.pk}/?tab=may"),
        ("user-deactivate", f"/users/{other.pk}/deactivate/"),
        ("user-password", f"/users/{other.pk}/password/"),
        ("bindings", "/users/bindings/"),
        ("binding-new", "/users/bindings/new/"),
        ("service-accounts", "/users/service-accounts/"),
        ("service-account", f"/users/service-accounts/{account.pk}/"),
        ("token-new", f"/users/service-accounts/{account.pk}/tokens/new/"),
    ):
        visitor.go(path)
        if name in ("usage", "usage-cost", "my-usage"):
            assert max(heights(visitor)) > 4
        visitor.look_at(name, shots)
