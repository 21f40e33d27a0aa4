"""Spending as a person meets it, in a real browser."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controlplane.models import Request, Role, User
from controlplane.services.actors import Actor
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
    month = time.strftime("%Y-%m", time.gmtime(now_ms / 1000 - 9 * 86_400))
    visitor.go(f"/spend/?group_by=route&month={month}")
    expect(page.get_by_role("heading", name="Spent by when")).to_be_visible()
    lines = page.locator("#course .scatterlayer .trace path.js-line")
    assert lines.first.get_attribute("d")
    assert max(heights(visitor)) > 20
    expect(page.locator("#by-day .scatterlayer .points path").first).to_be_attached()
    expect(page.locator("#days .crit").first).to_contain_text("above the usual")
    visitor.look_at("spend", shots)
    page.locator("#days tbody a").first.click()
    expect(page.locator("#hours tbody tr").first).to_be_visible()
    visitor.look_at("spend-day", shots)
    page.locator("#hours tbody a").first.click()
    expect(page.get_by_role("heading", name="Requests", exact=True)).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
