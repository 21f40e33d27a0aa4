"""Explain and Replay as a person meets them, in a real browser."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from controlplane.models import Project, Replay, Role, User
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.usage import record_usage
from controlplane.services.users import grant_role
from controlplane.tasks.replays import run_queued
from tests.browser.conftest import USER, Console, Visitor
from tests.controlplane.replayed import SLOTS, served, when_recorded

pytestmark = pytest.mark.browser


@pytest.fixture
def ids(console: Console, actor: Actor) -> dict[str, str]:
    home = console.organisation
    user = User.objects.get(username=USER)
    grant_role(actor, subject=user, organisation=home, role=Role.OPERATOR)
    pools = {
        name: create_pool(
            actor,
            organisation=home,
            name=name,
            model=name,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port + place}/v1" for place in range(2)],
            worker_concurrency=SLOTS,
        )
        for port, name in ((9_000, "large"), (9_100, "small"))
    }
    targets = [TargetChoice(pools["large"], 9), TargetChoice(pools["small"], 1)]
    route = create_route(
        actor, organisation=home, name="chat", targets=targets, strategy="weighted"
    )
    project = Project.objects.filter(organisation=home).first()
    key = create_key(actor, organisation=home, project=project, name="mine").key
    return {
        **{name: pool.pk for name, pool in pools.items()},
        "route": route.pk,
        "key": key.pk.removeprefix("key_"),
    }


def test_a_change_of_a_route_is_explained_and_replayed_before_it_is_made(
    visitor: Visitor, ids: dict[str, str], shots: Path
) -> None:
    ends = served(ids, timezone.now() - timedelta(minutes=20), seed=1)
    record_usage(ends, now=when_recorded(ends))
    page = visitor.page
    visitor.go("/explain/?model=chat")
    page.get_by_label("Caller").select_option(label="mine, Default")
    page.get_by_label("Prompt", exact=True).fill("What does a weir do?")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#answer")).to_contain_text("it goes to large")
    page.get_by_text("Tags, priority").click()
    visitor.look_at("explain", shots)

    visitor.go(f"/routes/{ids['route']}/edit/")
    page.get_by_label("Strategy").select_option("least_work")
    page.get_by_role("button", name="Review changes").click()
    visitor.look_at("route-review-what-if", shots)
    page.get_by_role("button", name="What would this have done?").click()
    expect(page.locator("#progress")).to_contain_text("A job takes it up within seconds.")
    assert run_queued() == Replay.objects.get().pk
    # the page asks again by itself
    expect(page.locator("#afterwards")).to_contain_text("The draft is not published.")
    visitor.look_at("replay", shots)
    visitor.go("/replay/")
    expect(page.locator("tbody tr")).to_have_count(1)
    visitor.look_at("replay-list", shots)
