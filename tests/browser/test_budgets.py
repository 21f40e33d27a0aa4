"""Budgets in a real browser: made, reviewed, drawn, and told by who spent the most."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from redis import Redis

from controlplane.models import Budget, BudgetAccount, BudgetCount, Role, User
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budget_upkeep import get_or_make_upkeep, note
from controlplane.services.budgets import create_budget
from controlplane.services.usage import record_usage
from controlplane.services.users import grant_role
from inference.contract.kinds import BudgetPeriod
from inference.decisions.budgets import period_of
from inference.decisions.rules import zone_of
from tests.browser.conftest import Console, Visitor
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.browser

DOLLAR = 10**9
USERS = ("ann", "bob", "carla")


@pytest.fixture
def budgets(console: Console, actor: Actor, state_store: Redis) -> Sequence[Budget]:
    """A budget for all and one for each end user, on the traffic of the present week, and one of
    nothing."""
    home = console.organisation
    grant_role(actor, subject=User.objects.get(), organisation=home, role=Role.ADMIN)
    for days in range(14):
        spend(home.pk, days)
    whole = [{"subject": "organisation", "subject_id": None}]
    each = [{"subject": "end_user", "subject_id": None}]
    made = tuple(
        create_budget(
            actor,
            organisation=home,
            name=name,
            scopes=scopes,
            amount_nanousd=amount * DOLLAR,
            period="week",
            action=action,
        )
        for name, scopes, amount, action in (
            ("All assistants", whole, 100, "block"),
            ("Every customer", each, 20, "notify"),
            ("No more trials", whole, 0, "block"),
        )
    )
    for budget in made:
        begin_to_count(budget, timezone.now())
    for row in BudgetAccount.objects.filter(budget_id=made[1].pk):
        state_store.hset(row.key, mapping={"g": 0, "late": DOLLAR, "past": DOLLAR // 4})
    BudgetCount.objects.update(seeded_epoch="run:1")
    note(get_or_make_upkeep(), epoch="run:1", is_seeded=True, looked_at=timezone.now())
    return made


def spend(organisation_id: str, days: int) -> None:
    """Each end user spends some on that day of this week or the last, as far as it is past."""
    zone = zone_of("UTC")
    now = timezone.now()
    week = period_of(BudgetPeriod.WEEK, zone, now.timestamp())
    ends = []
    for number, user in enumerate(USERS):
        at = datetime.fromtimestamp(week.starts_s, tz=now.tzinfo)
        at += timedelta(days=days - 7, hours=5 * number)
        if at >= now:
            continue
        at_ms = int(at.timestamp() * 1000)
        cost = (4 + number + (days % 3)) * DOLLAR
        ends.append(
            make_end(
                100 * days + number,
                at_ms=at_ms,
                received_at_ms=at_ms,
                origin=make_origin(organisation_id=organisation_id, end_user=user),
                charges=(make_charge(cost_nanousd=cost),),
            )
        )
    record_usage(ends, now=now)


def test_a_budget_is_drawn_raised_and_made(
    visitor: Visitor, budgets: Sequence[Budget], shots: Path
) -> None:
    page = visitor.page
    whole, each, _ = budgets
    visitor.go("/budgets/")
    expect(page.get_by_role("row", name=re.compile("All assistants"))).to_contain_text("$100.00")
    visitor.look_at("budgets", shots)
    visitor.go(f"/budgets/{whole.pk}/")
    chart = page.locator("#burn-down [data-figure]")
    # even pace, budget, spent, forecast at least, and each of them drawn
    lines = chart.locator(".scatterlayer .trace path.js-line")
    expect(lines.first).to_be_attached()
    drawn = [line.get_attribute("d") or "" for line in lines.all()]
    assert len(drawn) >= 3
    assert all(drawn)
    expect(page.locator("#burn-down .sum")).to_contain_text("of $100.00 spent")
    expect(page.locator("#past tbody tr")).to_have_count(1)
    visitor.look_at("budget", shots)
    visitor.go(f"/budgets/{each.pk}/")
    expect(page.locator("#accounts tbody tr").first).to_contain_text("end user")
    expect(page.get_by_text("went past the amount")).to_be_visible()
    visitor.look_at("budget-each", shots)
    visitor.go(f"/budgets/{whole.pk}/test/")
    page.get_by_role("button", name="Test now").click()
    expect(page.get_by_role("row", name=re.compile("Accrues Proved"))).to_be_visible()
    visitor.look_at("budget-test", shots)
    home = f"/organisations/{whole.organisation_id}/"
    for path, name in ((home, "organisation"), ("/me/usage/", "my-usage")):
        visitor.go(path)
        expect(page.get_by_role("alert")).to_contain_text("Requests that cost anything are refused")
        visitor.look_at(f"budget-warned-{name}", shots)
    visitor.go(f"/budgets/{whole.pk}/raise/")
    page.get_by_label("At most until then, USD").fill("150")
    page.get_by_label("Until, UTC").fill("2100-01-01T10:00")
    visitor.look_at("budget-raise", shots)
    page.get_by_role("button", name="Review changes").click()
    page.get_by_label("Reason, kept in the audit log").fill("launch week")
    visitor.look_at("budget-raise-review", shots)
    page.get_by_role("button", name="Raise", exact=True).click()
    expect(page.get_by_text("until 1 Jan 2100 10:00")).to_be_visible()
    visitor.go("/budgets/new/")
    page.get_by_label("Name", exact=True).fill("By night")
    page.get_by_label("Counts together requests of").select_option("end_user")
    page.get_by_label("Only those also of").select_option("tag")
    page.get_by_label("Which one of that kind").fill("night")
    page.get_by_label("At most, USD").fill("12")
    visitor.look_at("budget-form", shots)
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_text("for each end user and tag night")).to_have_count(1)
    visitor.look_at("budget-review", shots)
