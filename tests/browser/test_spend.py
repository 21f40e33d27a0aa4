"""Spending as a person meets it, in a real browser."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controlplane.models import Request, Role, User
from controlplane.services.actors import Actor
from controlplane.services.models import create_model
from controlplane.services.prices import create_price, update_price
from controlplane.services.users import grant_role
from inference.contract.events import End
from tests.browser.conftest import USER, Console, Visitor
from tests.browser.test_usage import heights
from tests.controlplane.ledger_events import make_charge, make_end, make_origin
from tests.installation import wait_until

pytestmark = pytest.mark.browser

DAY_MS = 86_400_000
TEAMS = ("Search", "Support", "Research")


def spent(now_ms: int) -> list[End]:
    """Twenty days of three projects, one of them with a day that is far too dear."""
    ends = []
    for day in range(20):
        for place, name in enumerate(TEAMS):
            cost = (40 + 7 * ((day * 5 + place * 3) % 6)) * 10**9 // (place + 1)
            if day == 9 and place == 1:
                cost *= 9
            ends.append(
                make_end(
                    1 + day * 10 + place,
                    at_ms=now_ms - day * DAY_MS,
                    origin=make_origin(
                        project_id=f"proj_{place}", route_id=f"rt_{place}", route_name=name
                    ),
                    charges=(make_charge(cost_nanousd=cost, cost_max_nanousd=cost),),
                )
            )
    return ends


def test_a_month_is_drawn_and_leads_from_a_day_to_its_requests(
    visitor: Visitor, console: Console, actor: Actor, shots: Path
) -> None:
    page = visitor.page
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=console.organisation, role=Role.ADMIN)
    now_ms = int(time.time() * 1000)
    ends = spent(now_ms)
    console.traffic(*ends)
    # each day gets its partitions, which takes a slow machine a while
    wait_until(
        lambda: (
            Request.objects.filter(organisation_id=console.organisation.pk).count() == len(ends)
        ),
        60,
        "all is recorded",
    )
    begins = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=9)
    month = f"{begins:%Y-%m}"
    model = create_model(actor, organisation=console.organisation, name="large")
    amounts = {"input_nanousd_per_mtok": 10**9, "output_nanousd_per_mtok": 4 * 10**9}
    price = create_price(actor, model=model, effective_from=begins - timedelta(days=90), **amounts)
    changes = {"reasoning_output_nanousd_per_mtok": 6 * 10**9, "effective_from": begins}
    update_price(actor, price_id=price.pk, changes=changes)
    visitor.go(f"/spend/?group_by=route&month={month}")
    expect(page.get_by_role("heading", name="Spent by when")).to_be_visible()
    lines = page.locator("#course .scatterlayer .trace path.js-line")
    assert lines.first.get_attribute("d")
    assert max(heights(visitor)) > 20
    expect(page.locator("#by-day .scatterlayer .points path").first).to_be_attached()
    expect(page.locator("#days .crit").first).to_contain_text("above the usual")
    expect(page.locator("#prices li")).to_contain_text("large reasoning as the output, from then")
    expect(page.locator("#course .shapelayer path").first).to_be_attached()
    visitor.look_at("spend", shots)
    page.locator("#days tbody a").first.click()
    expect(page.locator("#hours tbody tr").first).to_be_visible()
    visitor.look_at("spend-day", shots)
    page.locator("#hours tbody a").first.click()
    expect(page.get_by_role("heading", name="Requests", exact=True)).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_reports_are_read_closed_and_scheduled(
    visitor: Visitor, console: Console, actor: Actor, shots: Path
) -> None:
    page = visitor.page
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=console.organisation, role=Role.ADMIN)
    made = make_origin(tags=("batch", "nightly"), team_id="team_1")
    # a month that is over wherever the test runs: the end of the one before
    first = time.strftime("%Y-%m-01", time.gmtime())
    at_ms = int(datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp() * 1000) - 3_600_000
    console.traffic(make_end(901, at_ms=at_ms, origin=made), make_end(902, at_ms=at_ms))
    mine = Request.objects.filter(organisation_id=console.organisation.pk)
    wait_until(lambda: mine.filter(event_id__endswith="902").exists(), 60, "all is recorded")
    month = time.strftime("%Y-%m", time.gmtime(at_ms / 1000))
    visitor.go(f"/reports/?month={month}&group_by=tag")
    expect(page.locator("tbody tr", has_text="nightly").first).to_be_visible()
    page.get_by_role("button", name="Make a file of this").click()
    expect(page.locator("#file-list")).to_contain_text("waits")
    visitor.look_at("reports", shots)
    visitor.go(f"/reports/?month={month}&group_by=tag")
    page.get_by_role("link", name="Close the month").click()
    visitor.look_at("report-close", shots)
    page.get_by_label("Reason").fill("invoiced")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".note")).to_contain_text("invoiced")
    visitor.go("/reports/schedules/new/")
    visitor.look_at("report-schedule-new", shots)
    visitor.go("/system/")
    expect(page.get_by_role("heading", name="Books")).to_be_visible()
    visitor.check_accessibility()
