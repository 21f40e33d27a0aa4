"""The caches as a person meets them, in a real browser."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from controlplane.models import CacheHour, CachePolicy, Role, Route, User
from controlplane.services.actors import Actor
from controlplane.services.caches import create_policy
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.users import grant_role
from inference.contract import codec, wire
from inference.contract.events import CacheUse, End
from inference.contract.kinds import CacheOutcome, CacheTier, ProcessRole
from inference.contract.vitals import Applied, TierGauge, TopEntry, Vitals
from tests.browser.conftest import USER, Console, Visitor
from tests.browser.test_usage import heights
from tests.controlplane.ledger_events import make_end, make_origin
from tests.installation import wait_until

pytestmark = pytest.mark.browser

HOUR_MS = 3_600_000
TIERS = (CacheTier.LOCAL, CacheTier.SHARED, CacheTier.SEMANTIC)


def kept(now_ms: int, policy_id: str, route_id: str) -> list[End]:
    """A day of hits, misses and checks of one route."""
    ends = []
    origin = make_origin(route_id=route_id, route_name="chat")
    for number in range(120):
        at_ms = now_ms - (number % 24) * HOUR_MS
        times = {"at_ms": at_ms, "received_at_ms": at_ms - 1_000}
        tier = TIERS[number % 3]
        use = CacheUse(
            policy_id,
            CacheOutcome.HIT,
            tier=tier,
            entry_id=f"e_{number % 5}",
            similarity=0.9 + (number % 10) / 100 if tier is CacheTier.SEMANTIC else None,
            age_ms=1_000,
            saved_prompt_tokens=1_000,
            saved_completion_tokens=100,
            saved_nanousd=None if number == 0 else 400_000,
            saved_ms=900.0,
        )
        end = make_end(1 + number, **times, origin=origin, charges=(), cache=use)
        if number % 4 == 3:
            use = CacheUse(policy_id, CacheOutcome.MISS, similarity=0.8, refused_by="threshold")
            end = make_end(1 + number, **times, origin=origin, cache=use)
        elif tier is CacheTier.SEMANTIC and number % 5 == 0:
            use = replace(use, outcome=CacheOutcome.CHECKED, agreed=number % 3 != 2)
            end = make_end(1 + number, **times, origin=origin, cache=use)
        ends.append(end)
    return ends


def gateway(policy_id: str, route_id: str) -> Vitals:
    """A gateway that tells of its tiers and of one entry."""
    now = time.time()
    entry = TopEntry(
        entry_id="e_1",
        policy_id=policy_id,
        route_id=route_id,
        tier=CacheTier.LOCAL,
        hits=41,
        bytes=2_048,
        stored_at=now,
        saved_nanousd=16_400_000,
    )
    tiers = (
        TierGauge(
            tier=CacheTier.LOCAL,
            entries=40,
            bytes=9_000_000,
            bytes_max=67_108_864,
            evictions_total=3,
        ),
        TierGauge(tier=CacheTier.SHARED, is_down=True),
    )
    return Vitals(
        role=ProcessRole.GATEWAY,
        gateway="gw-1",
        process="gw-1/0",
        pid=1,
        started_at=now,
        written_at=now,
        applied=Applied(),
        tiers=tiers,
        top_entries=(entry,),
    )


def a_day_of_traffic(console: Console, actor: Actor) -> tuple[CachePolicy, Route]:
    """A route with a policy, and all that the recorder heard of it and of its gateway."""
    home = console.organisation
    policy = create_policy(
        actor, organisation=home, name="by meaning", tiers=["local", "shared", "semantic"]
    )
    pool = create_pool(
        actor,
        organisation=home,
        name="mine",
        model="gpt-x",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )
    targets = [TargetChoice(pool, 1)]
    route = create_route(
        actor, organisation=home, name="chat", targets=targets, cache_policy=policy
    )
    ends = kept(int(time.time() * 1000), policy.pk, route.pk)
    console.traffic(*ends)
    told = codec.encode_vitals(gateway(policy.pk, route.pk))
    console.store.set(wire.vitals_key("gw-1/0"), told, ex=600)
    rows = CacheHour.objects.filter(organisation_id=home.pk)
    wait_until(lambda: sum(one.requests for one in rows.all()) == len(ends), 60, "all is recorded")
    return policy, route


def test_a_policy_is_made_its_savings_read_and_an_entry_purged(
    visitor: Visitor, console: Console, actor: Actor, shots: Path
) -> None:
    page, home = visitor.page, console.organisation
    mira = User.objects.get(username=USER)
    grant_role(actor, subject=mira, organisation=home, role=Role.OPERATOR)
    visitor.go("/caches/savings/")
    expect(page.locator(".empty").first).to_contain_text("There is no cache policy")
    visitor.go("/caches/new/")
    page.get_by_label("Name").fill("answers")
    page.get_by_role("button", name="Add a bypass").click()
    page.get_by_label("Tags").fill("fresh")
    visitor.look_at("cache-policy-new", shots)
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator("main")).to_contain_text("tagged fresh")
    visitor.look_at("cache-policy-review", shots)
    policy, route = a_day_of_traffic(console, actor)
    visitor.go("/caches/")
    expect(page.locator("tbody tr")).to_have_count(1)
    visitor.look_at("caches", shots)
    visitor.go(f"/caches/savings/?route={route.pk}")
    expect(page.get_by_role("heading", name="Served from caches")).to_be_visible()
    assert max(heights(visitor)) > 20
    expect(
        page.locator("#alike .shapelayer path, #similarity .shapelayer path").first
    ).to_be_attached()
    expect(page.locator("#stores")).to_contain_text("1 of 1 can't ask it")
    expect(page.locator("#false-hits tbody tr").first).to_be_visible()
    visitor.look_at("cache-savings", shots)
    visitor.go(f"/caches/{policy.pk}/?tab=what-if")
    expect(page.locator("#what-if tbody tr").first).to_be_visible()
    visitor.look_at("cache-what-if", shots)
    visitor.go(f"/caches/savings/?route={route.pk}")
    page.get_by_role("link", name="Purge entry e_1").click()
    page.get_by_role("button", name="Review changes").click()
    page.get_by_label("Reason").fill("it was wrong")
    visitor.look_at("purge-review", shots)
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("heading", name="Purge of the entry e_1")).to_be_visible()
    visitor.go("/caches/purges/")
    visitor.look_at("purges", shots)
