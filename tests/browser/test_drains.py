"""Draining a worker and a gateway in a real browser, told live until it is done."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controlplane.models import GatewaySetting, Pool, Role, User
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.users import grant_role
from inference.contract import wire
from inference.contract.kinds import BreakerState, WorkerState
from inference.contract.vitals import Applied
from tests.browser.conftest import USER, Console, Visitor
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker

pytestmark = pytest.mark.browser


@pytest.fixture
def pool(console: Console, actor: Actor) -> Pool:
    """A pool of three workers with a route, for somebody who runs the platform."""
    home = console.organisation
    user = User.objects.get(username=USER)
    grant_role(actor, subject=user, organisation=home, role=Role.ADMIN)
    User.objects.update(is_superuser=True)
    row = create_pool(
        actor, organisation=home, name="smollm2-local", model="smollm2-135m-instruct",
        provisioner="process", model_source="smollm2-135m-instruct", replicas=3, cordoned=[2],
    )  # fmt: skip
    far = create_pool(
        actor, organisation=home, name="gpt-upstream", model="gpt-x", provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )  # fmt: skip
    targets = [
        TargetChoice(row, 3),
        TargetChoice(far, 1, timeouts={"connect_timeout_ms": 500, "total_timeout_ms": 30_000}),
    ]
    create_route(actor, organisation=home, name="chat", targets=targets)
    Pool.objects.update(updated_at="2020-01-01T00:00:00Z")
    return row


def tell(console: Console, pool: Pool, state: WorkerState, left: int, *, is_gone: bool) -> None:
    """What supervisor and gateways say: worker 1 in this state, with so much left there."""
    now, store = time.time(), console.store
    one, two, three = (f"{pool.pk}-{number}" for number in range(3))
    store.set(wire.LEADER, "1:pools-a")
    put_directory(
        store,
        worker(one, WorkerState.READY, changed_at=now - 66_000),
        worker(two, state, changed_at=now - 4),
        worker(three, WorkerState.DRAINED, changed_at=now - 900),
    )
    busy = {one: 4, **({two: left} if left else {})}
    inflight = {} if is_gone else busy
    applied = Applied("l", 7)
    common = {"applied": applied, "written_at": now}
    put_vitals(
        store,
        vitals("nordhavn-a/0", gateway="nordhavn-a", inflight=inflight, is_draining=is_gone,
               breakers={one: BreakerState.OPEN}, **common),
        vitals("nordhavn-b/0", gateway="nordhavn-b", inflight={one: 1}, **common),
        vitals("nordhavn-b/1", gateway="nordhavn-b", breakers={one: BreakerState.HALF_OPEN},
               **common),
    )  # fmt: skip
    store.zadd(wire.SEEN, {name: now for name in ("nordhavn-a/0", "nordhavn-b/0", "nordhavn-b/1")})


def test_a_worker_s_drain_is_followed_until_nothing_is_left(
    visit: Callable[..., Visitor], console: Console, pool: Pool, shots: Path
) -> None:
    visitor = visit()
    visitor.sign_in()
    tell(console, pool, WorkerState.READY, 2, is_gone=False)
    visitor.go(f"/pools/{pool.pk}/?tab=replicas")
    page = visitor.page
    page.get_by_role("link", name="Drain smollm2-local/1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Drain worker smollm2-local/1")
    visitor.look_at("worker-drain", shots)
    page.get_by_label("Reason, kept in the audit log").fill("a bad disk")
    page.get_by_role("button", name="Drain").click()
    expect(page).to_have_url(re.compile("tab=replicas&applied="))
    tell(console, pool, WorkerState.DRAINING, 2, is_gone=False)
    row = page.locator("table.workers tbody tr").nth(1)
    expect(row).to_contain_text("2 requests left: nordhavn-a 2")
    expect(page.locator("#replicas .note")).to_contain_text("Every breaker is open at nordhavn-a/0")
    visitor.look_at("pool-replicas-draining", shots)
    tell(console, pool, WorkerState.DRAINED, 0, is_gone=False)
    expect(row).to_contain_text("Drained")
    assert Pool.objects.get(pk=pool.pk).cordoned == [1, 2]


def test_a_gateway_s_drain_is_followed_until_nothing_is_left(
    visit: Callable[..., Visitor], console: Console, pool: Pool, shots: Path
) -> None:
    visitor = visit()
    visitor.sign_in()
    tell(console, pool, WorkerState.READY, 2, is_gone=False)
    visitor.go("/system/")
    page = visitor.page
    page.get_by_role("link", name="Drain gateway nordhavn-a").click()
    visitor.look_at("gateway-drain", shots)
    page.get_by_label("Reason, kept in the audit log").fill("a new kernel")
    page.get_by_role("button", name="Drain").click()
    table = page.locator("#gateways")
    expect(table).to_contain_text("Draining: 6 requests left")
    visitor.look_at("system-gateways", shots)
    assert GatewaySetting.objects.get().is_drained
    tell(console, pool, WorkerState.READY, 0, is_gone=True)
    expect(table).to_contain_text("Its /ready answers 503")


def test_the_pages_of_these_knobs_fit_and_are_accessible(
    visit: Callable[..., Visitor], console: Console, pool: Pool, shots: Path
) -> None:
    visitor = visit()
    visitor.sign_in()
    tell(console, pool, WorkerState.DRAINING, 2, is_gone=False)
    for name, path in (
        ("pool-edit-faults", f"/pools/{pool.pk}/edit/"),
        ("pool-config-faults", f"/pools/{pool.pk}/?tab=config"),
        ("pool-drain", f"/pools/{pool.pk}/drain/"),
    ):
        visitor.go(path)
        visitor.look_at(name, shots)
    Pool.objects.update(power="drained")
    visitor.go("/pools/")
    visitor.look_at("pools-drained", shots)
