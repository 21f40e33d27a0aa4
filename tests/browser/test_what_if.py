"""Explain and Replay as a person meets them, in a real browser."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from controlplane.models import Replay, Role, User
from controlplane.services.actors import Actor
from controlplane.services.usage import record_usage
from controlplane.services.users import grant_role
from controlplane.tasks.replays import run_queued
from tests.browser.conftest import USER, Console, Visitor
from tests.controlplane.replayed import make_route, served, when_recorded

pytestmark = pytest.mark.browser


@pytest.fixture
def ids(console: Console, actor: Actor) -> Mapping[str, str]:
    home = console.organisation
    user = User.objects.get(username=USER)
    grant_role(actor, subject=user, organisation=home, role=Role.OPERATOR)
    return make_route(actor, home)


def test_a_change_of_a_route_is_explained_and_replayed_before_it_is_made(
    visitor: Visitor, ids: Mapping[str, str], shots: Path
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
