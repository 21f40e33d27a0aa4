"""Pools, keys and the system as an operator uses them, in a real browser."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect
from redis import Redis

from controlplane.bridge.logs import STALE_S
from controlplane.models import Key, Pool, Role, User
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key, revoke_key, rotate_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.users import grant_role
from inference.contract import wire
from inference.contract.kinds import ProcessRole, WorkerState
from inference.contract.vitals import Applied, WorkerGauges
from tests.browser.conftest import USER, Console, Visitor
from tests.controlplane.bridge.conftest import wait_until
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker

pytestmark = pytest.mark.browser

LINES = [f"INFO 11-30 21:{minute:02d}:00 loading weights, {minute} %" for minute in range(60)]


@dataclass
class Fleet:
    """Two pools and what a supervisor would say of them."""

    console: Console
    actor: Actor

    def __post_init__(self) -> None:
        home = self.console.organisation
        user = User.objects.get(username=USER)
        grant_role(self.actor, subject=user, organisation=home, role=Role.ADMIN)
        self.small = create_pool(
            self.actor,
            organisation=home,
            name="smollm2-local",
            model="smollm2-135m-instruct",
            provisioner="process",
            model_source="smollm2-135m-instruct",
            replicas=2,
            engine_arguments={"max_model_len": 2048, "max_num_seqs": 8, "enforce_eager": True},
        )
        self.far = create_pool(
            self.actor,
            organisation=home,
            name="gpt-upstream",
            model="gpt-x",
            provisioner="static",
            addresses=["http://127.0.0.1:9000/v1"],
            credential="a-credential-with-enough-characters",
        )
        create_pool(
            self.actor,
            organisation=home,
            name="llama-70b-stand-by",
            model="llama-3.3-70b",
            provisioner="process",
            model_source="llama-3.3-70b",
            power="stopped",
        )
        targets = [TargetChoice(self.small, 3), TargetChoice(self.far, 1)]
        create_route(self.actor, organisation=home, name="chat", targets=targets)

    def tell(self) -> None:
        """Put directory and vitals into the store, as supervisor and gateway would."""
        store, pool = self.console.store, self.small
        store.set(wire.LEADER, "1:pools-a")
        first, second = f"{pool.pk}-0", f"{pool.pk}-1"
        now = time.time()
        why = "RuntimeError: not enough memory for the KV cache"
        put_directory(
            store,
            worker(first, WorkerState.READY, changed_at=now - 18 * 3600 - 2400, restarts=1),
            worker(second, WorkerState.BACKING_OFF, changed_at=now - 40, detail=why, restarts=4),
        )
        gauges = WorkerGauges(
            worker_id=first, pool_id=pool.pk, at=now, running=3, waiting=1, kv_used=0.62,
            utilisation=87.0, memory_bytes=2_900_000_000,
        )  # fmt: skip
        applied = Applied("l", 7)
        leads = {"role": ProcessRole.POOLS, "is_leader": True, "workers": (gauges,)}
        put_vitals(
            store,
            vitals("nordhavn-a/0", gateway="nordhavn-a", inflight={first: 3}, applied=applied),
            vitals("pools-a", applied=applied, **leads),
        )
        store.zadd(wire.SEEN, {"nordhavn-a/0": now, "nordhavn-a/1": now - 40})

    def ship(self, text: str, *, age_s: float = 0.0) -> None:
        """Ship a log as the supervisor does, or did so long ago."""
        key = wire.worker_log_key(f"{self.small.pk}-0")
        fields = {"at": f"{time.time() - age_s:.3f}", "size": 5_400_000, "text": text}
        self.console.store.hset(key, mapping=fields)


@pytest.fixture
def fleet(console: Console, actor: Actor) -> Fleet:
    return Fleet(console, actor)


@pytest.fixture
def operator(fleet: Fleet, visit: Callable[..., Visitor]) -> Visitor:
    found = visit()
    found.sign_in()
    return found


def test_a_new_key_is_shown_once_copied_and_gone_after_a_reload(operator: Visitor) -> None:
    page = operator.page
    operator.go("/keys/")
    page.get_by_role("link", name="New key").first.click()
    page.get_by_label("Name", exact=True).fill("invoice reader")
    page.get_by_label("these routes only").check()
    page.get_by_label("chat").check()
    page.get_by_role("button", name="Create").click()
    text = page.locator("#key-text").inner_text()
    assert re.fullmatch(r"hw_[0-9a-z]{26}\.[A-Za-z0-9_-]{43}", text)
    page.get_by_role("button", name="Copy key").click()
    assert page.evaluate("navigator.clipboard.readText()") == text
    expect(page.locator("#env-text")).to_contain_text(f"OPENAI_API_KEY={text}")
    key = Key.objects.get()
    expect(page).to_have_url(re.compile(rf"/keys/{key.pk}/$"))
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("invoice reader")
    assert text not in page.content()
    page.go_back()
    assert text not in page.content()


def test_a_pool_is_edited_by_review_with_a_reason_and_the_answer_says_where_it_is_applied(
    operator: Visitor, fleet: Fleet
) -> None:
    page = operator.page
    operator.go(f"/pools/{fleet.small.pk}/")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Requests in one batch").fill("16")
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator(".diff")).to_contain_text("max_num_seqs")
    expect(page.locator(".review")).to_contain_text(
        "Rolling restart of 2 workers, usually about 90 s."
    )
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#problem")).to_have_text("Give a reason. It is kept in the audit log.")
    page.get_by_label("Reason, kept in the audit log").fill("more at once")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#applied")).to_contain_text("Applied on 0 of 0 gateways so far")
    assert Pool.objects.get(pk=fleet.small.pk).engine_arguments["max_num_seqs"] == 16
    page.get_by_role("link", name="Activity").click()
    expect(page.locator(".acts-l li").first).to_contain_text("more at once")


def test_a_log_appears_once_a_supervisor_ships_it_and_grows_while_it_is_read(
    operator: Visitor, fleet: Fleet, state_store: Redis
) -> None:
    page = operator.page
    operator.go(f"/pools/{fleet.small.pk}/?tab=logs")
    expect(page.locator("#log[data-log-state=no_supervisor]")).to_be_visible()
    state_store.set(wire.LEADER, "1:pools-a")
    expect(page.locator("#log[data-log-state=waiting]")).to_be_visible()
    wish = wire.worker_log_wish(f"{fleet.small.pk}-0")
    wait_until(lambda: bool(state_store.exists(wish)), "the wish for the log")
    fleet.ship("\n".join(LINES))
    expect(page.locator("#log-text")).to_contain_text("59 %")
    expect(page.locator("#log[data-log-state=live]")).to_be_visible()
    at_end = "element => element.scrollHeight - element.scrollTop - element.clientHeight < 24"
    assert page.locator("#log-text").evaluate(at_end)
    fleet.ship("\n".join([*LINES, "Application startup complete"]))
    expect(page.locator("#log-text")).to_contain_text("Application startup complete")
    assert page.locator("#log-text").evaluate(at_end)
    fleet.ship("\n".join(LINES), age_s=STALE_S)
    expect(page.locator("#log[data-log-state=stale]")).to_be_visible()


def test_pages_of_operations_are_accessible_fit_their_window_and_are_pictured(
    visit: Callable[..., Visitor],
    fleet: Fleet,
    actor: Actor,
    shots: Path,
) -> None:
    home = fleet.console.organisation
    soon = timezone.now() + timedelta(days=5)
    key = create_key(actor, organisation=home, name="chat front end", routes=["chat"]).key
    rotate_key(actor, key_id=key.pk, overlap_s=86_400)
    create_key(actor, organisation=home, name="nightly evaluation", expires_at=soon)
    create_key(actor, organisation=home, name="prototype", is_enabled=False)
    revoke_key(actor, key_id=create_key(actor, organisation=home, name="leaked").key.pk)
    visitor = visit()
    page = visitor.page

    def show(name: str, path: str) -> None:
        fleet.tell()
        visitor.go(path)
        visitor.look_at(name, shots)

    visitor.sign_in()
    pool = f"/pools/{fleet.small.pk}/"
    show("pools", "/pools/")
    show("pool-live", pool)
    show("pool-replicas", f"{pool}?tab=replicas")
    show("pool-static-replicas", f"/pools/{fleet.far.pk}/?tab=replicas")
    show("pool-config", f"{pool}?tab=config")
    fleet.ship("\n".join(LINES))
    visitor.go(f"{pool}?tab=logs")
    expect(page.locator("#log-text")).to_be_visible()
    visitor.look_at("pool-logs", shots)
    show("pool-edit", f"{pool}edit/")
    show("pool-new-static", "/pools/new/?provisioner=static")
    show("pool-restart", f"{pool}restart/")
    show("pool-delete", f"{pool}delete/")
    show("keys", "/keys/")
    show("key", f"/keys/{key.pk}/")
    show("key-new", "/keys/new/")
    page.get_by_label("Name", exact=True).fill("shown once")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#key-text")).to_be_visible()
    visitor.look_at("key-shown", shots)
    show("key-rotate", f"/keys/{key.pk}/rotate/")
    show("key-revoke", f"/keys/{key.pk}/revoke/")
    show("system", "/system/")
