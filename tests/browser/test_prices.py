"""The price book and what GPUs cost as a person meets them, in a real browser."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from controlplane.models import OwnCost, Repricing, Role, User
from controlplane.services.actors import Actor
from controlplane.services.models import create_model
from controlplane.services.pools import create_pool
from controlplane.services.prices import create_price, update_price
from controlplane.services.repricings import step
from controlplane.services.usage import record_usage
from controlplane.services.users import grant_role
from tests.browser.conftest import USER, Console, Visitor
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.browser

DOLLAR = 10**9


def served_unpriced(console: Console, model_id: str) -> None:
    """A day of requests of a model without a price, by two teams."""
    unknown = {"cost_nanousd": None, "cost_max_nanousd": None, "price": None}
    ends = []
    for number in range(40):
        at = timezone.now() - timedelta(minutes=7 * number + 2)
        at_ms = int(at.timestamp() * 1000)
        origin = make_origin(
            organisation_id=console.organisation.pk, team_id=f"team_{number % 2 + 1}"
        )
        charge = make_charge(model_id=model_id, **unknown)
        ends.append(
            make_end(
                number + 1, at_ms=at_ms, received_at_ms=at_ms, origin=origin, charges=(charge,)
            )
        )
    record_usage(ends, now=timezone.now())


def gpu_hours(console: Console, actor: Actor) -> None:
    """A pool with GPUs that did something, and idled."""
    pool = create_pool(
        actor,
        organisation=console.organisation,
        name="h100",
        model="llama-70b",
        provisioner="process",
        model_source="m",
        port_base=20_000,
        gpu_type="H100",
        capacity_class="on_demand",
    )
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    shared = {
        "organisation_id": console.organisation.pk,
        "pool_id": pool.pk,
        "hour": hour,
        "computed_at": timezone.now(),
    }
    OwnCost.objects.create(
        kind="work",
        project_id="proj_1",
        model_id=pool.model_id,
        gpu_seconds=2_700.0,
        tokens=1_250_000,
        attempts=412,
        own_nanousd=1_875_000_000,
        list_nanousd=2_410_000_000,
        **shared,
    )
    OwnCost.objects.create(kind="idle", gpu_seconds=900.0, own_nanousd=625_000_000, **shared)


def test_prices_are_planned_imported_and_what_was_booked_is_put_right(
    visitor: Visitor, console: Console, actor: Actor, shots: Path, tmp_path: Path
) -> None:
    page = visitor.page
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=console.organisation, role=Role.ADMIN)
    gpu_hours(console, actor)
    model = create_model(actor, organisation=console.organisation, name="qwen3-32b")
    other = create_model(actor, organisation=console.organisation, name="mistral-small")
    served_unpriced(console, model.pk)
    price = create_price(
        actor, model=other, input_nanousd_per_mtok=DOLLAR // 10, output_nanousd_per_mtok=DOLLAR
    )
    begins = timezone.now() + timedelta(days=5)
    changes = {"output_nanousd_per_mtok": 2 * DOLLAR, "effective_from": begins}
    update_price(actor, price_id=price.pk, changes=changes)
    visitor.go("/prices/")
    expect(page.get_by_role("heading", name="Served without a price")).to_be_visible()
    visitor.look_at("prices", shots)
    visitor.go(f"/prices/{price.pk}/")
    visitor.look_at("price", shots)

    listed = tmp_path / "list.csv"
    listed.write_text("model,input,output,effective_from\nqwen3-32b,0.4,1.2,2020-01-01T00:00:00Z\n")
    visitor.go("/prices/import/")
    page.get_by_label("CSV or JSON file").set_input_files(listed)
    page.get_by_role("button", name="See what it would change").click()
    expect(page.locator("#preview")).to_contain_text("1 new")
    visitor.look_at("price-import", shots)
    page.get_by_label("Reason").fill("the vendor's list")
    page.get_by_role("button", name="Add 1 version").click()
    expect(page.locator("#unpriced")).to_contain_text("Price them anew")

    page.get_by_role("link", name="Price them anew").click()
    day = timezone.now() - timedelta(days=1)
    page.get_by_label("Came from").fill(day.strftime("%Y-%m-%dT%H:%M"))
    until = timezone.now()
    page.get_by_label("Until").fill(until.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("Reason").fill("it had no price")
    page.get_by_role("button", name="Sum before and after").click()
    expect(page.locator("#progress")).to_be_visible()
    job = Repricing.objects.get()
    while step(job.pk):
        pass
    book = page.get_by_role("link", name="Review and book the corrections")
    expect(book).to_be_visible()
    visitor.look_at("repricing", shots)
    book.click()
    visitor.look_at("repricing-review", shots)
    page.get_by_label("Reason").fill("as seen")
    page.get_by_role("button", name="Book corrections").click()
    while step(job.pk):
        pass
    visitor.go("/corrections/")
    visitor.look_at("corrections", shots)
    visitor.go("/own-costs/")
    expect(page.locator("#results")).to_contain_text("25.0 % idle")
    visitor.look_at("own-costs", shots)
