"""A day's work in the console: see a request live, move traffic with review, take it back."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import running_chromium
from tests.browser.conftest import DESKTOP, PHONE
from tests.installation import Installation, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.browser]

ON_SCREEN_MS = 5_000
ENOUGH_FOR_P95 = 25
APPLIED_S = 5.0
POOLS = ("smollm2", "smollm2-direct")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for these tests."""
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def shots() -> Path | None:
    """Where pictures go, if HEADWORKS_SCREENSHOTS names a folder; to draw them takes seconds."""
    given = os.environ.get("HEADWORKS_SCREENSHOTS")
    if not given:
        return None
    folder = Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser: Browser, installation: Installation) -> Iterator[Page]:
    """The console, signed in; what the browser complains about fails the test."""
    complaints: list[str] = []
    context = browser.new_context(
        viewport={"width": DESKTOP[0], "height": DESKTOP[1]},
        color_scheme="dark",
        reduced_motion="reduce",
    )
    made = context.new_page()
    made.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    made.goto(installation.demo["CONSOLE_URL"])
    made.get_by_label("User name or e-mail").fill(installation.demo["ADMIN_USER"])
    made.get_by_label("Password").fill(installation.demo["ADMIN_PASSWORD"])
    made.get_by_role("button", name="Sign in").click()
    expect(made.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    yield made
    context.close()
    assert complaints == []


def picture(page: Page, shots: Path | None, name: str) -> None:
    """The page in both themes, wide and narrow; nothing of it is wider than its window."""
    for theme in ("dark", "light"):
        for width, height in (DESKTOP, PHONE):
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size({"width": width, "height": height})
            expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if shots is not None:
                page.screenshot(path=shots / f"{name}-{width}-{theme}.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})


def ask(client: openai.OpenAI, times: int = 1) -> str:
    """Some short streamed questions; the id of the last."""
    for _ in range(times):
        raw = client.chat.completions.with_raw_response.create(
            model="chat",
            messages=[{"role": "user", "content": "What is a waterworks?"}],
            max_tokens=2,
            stream=True,
        )
        assert list(raw.parse())
    return str(raw.headers["x-request-id"])


def go(page: Page, name: str) -> None:
    """Open a page by the navigation."""
    page.locator("#nav").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_request_is_soon_on_the_overview(
    client: openai.OpenAI, page: Page, shots: Path | None
) -> None:
    expect(page.locator("[data-live=live]")).to_be_visible()
    tile = page.locator("[data-tile=requests] [data-tile-text]")
    ask(client, ENOUGH_FOR_P95)
    wait_until(lambda: float(tile.inner_text()) > 0, 10, "figures")
    before = tile.inner_text()
    ask(client, 5)
    expect(tile).not_to_have_text(before, timeout=ON_SCREEN_MS)
    for drawn in ("first_token", "utilisation", "kv_cache"):
        line = page.locator(f"[data-panel={drawn}] .scatterlayer .trace path.js-line[d*=L]").first
        expect(line).to_be_attached()
    picture(page, shots, "overview")


def test_traffic_is_moved_with_a_reason_applied_at_once_and_taken_back(
    installation: Installation, client: openai.OpenAI, page: Page, shots: Path | None
) -> None:
    before = installation.api("GET", "/gateways/")["version"]
    go(page, "Routes")
    page.get_by_role("link", name="chat", exact=True).click()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Weight of target 1").fill("0")
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator(".diff")).to_be_visible()
    picture(page, shots, "route-review")
    page.get_by_label("Reason, kept in the audit log").fill("the direct one has room")
    page.get_by_role("button", name="Save", exact=True).click()
    applied = page.locator("#applied[data-applied=all]")
    expect(applied).to_contain_text(f"Applied on 1 of 1 gateways at v{before + 1}")
    took_s = float(re.search(r"in (\d+\.\d+) s", applied.inner_text())[1])  # type: ignore[index]
    assert took_s < APPLIED_S
    moved = installation.wait_for_request(ask(client))
    assert moved["pool_name"] == POOLS[1]
    go(page, "Audit")
    expect(page.locator("tbody tr").first).to_contain_text("the direct one has room")
    go(page, "Snapshots")
    page.get_by_role("link", name=f"v{before}", exact=True).click()
    page.get_by_role("link", name="Roll back to this version").click()
    page.get_by_label("Reason, kept in the audit log").fill("enough of it")
    page.get_by_role("button", name=f"Roll back to version {before}").click()
    expect(page.locator("#applied[data-applied=all]")).to_contain_text(f"v{before + 2}")
    seen = {installation.wait_for_request(ask(client))["pool_name"] for _ in range(12)}
    assert seen == set(POOLS)


def test_the_signed_in_user_sees_the_request_with_worker_timings_tokens_and_cost(
    installation: Installation, page: Page
) -> None:
    go(page, "Requests")
    event_id, answer = installation.chat(model="chat", max_tokens=4, temperature=0)
    usage = answer["usage"]
    row = page.locator("tbody tr", has=page.locator(f"a[href*='{event_id}']"))
    expect(row).to_contain_text("chat")
    expect(row).to_contain_text("smollm2-135m-instruct on smollm2")
    expect(row).to_contain_text(f"{usage['prompt_tokens']} / {usage['completion_tokens']}")
    expect(row).to_contain_text("$0.0000")
    row.locator("a").first.click()
    expect(page.get_by_role("heading", name=event_id)).to_be_visible()
    expect(page.locator("main")).to_contain_text("smollm2-135m-instruct")
