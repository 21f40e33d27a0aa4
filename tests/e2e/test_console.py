"""What the signed-in user sees in the console of a request that an engine has just answered."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import browser
from tests.installation import Installation

__all__ = ["browser"]

pytestmark = [pytest.mark.engine, pytest.mark.browser]


def test_the_signed_in_user_sees_the_request_with_worker_timings_tokens_and_cost(
    browser: Browser, installation: Installation
) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(installation.demo["CONSOLE_URL"])
    page.get_by_label("User name or e-mail").fill(installation.demo["ADMIN_USER"])
    page.get_by_label("Password").fill(installation.demo["ADMIN_PASSWORD"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Requests", exact=True)).to_be_visible()
    event_id, answer = installation.chat(model="chat", max_tokens=4, temperature=0)
    usage = answer["usage"]
    row = page.locator("tbody tr", has=page.locator(f"a[href*='{event_id}']"))
    expect(row).to_contain_text("chat", timeout=5_000)
    expect(row).to_contain_text("smollm2-135m-instruct on smollm2")
    expect(row).to_contain_text(f"{usage['prompt_tokens']} / {usage['completion_tokens']}")
    expect(row).to_contain_text("$0.0000")
    row.locator("a").first.click()
    expect(page.get_by_role("heading", name=event_id)).to_be_visible()
    expect(page.locator("main")).to_contain_text("smollm2-135m-instruct")
    page.close()
