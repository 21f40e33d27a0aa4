"""The API's reference in a real browser, under the console's own content security policy."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_every_operation_is_shown_offline_and_without_a_complaint(visitor: Visitor) -> None:
    elsewhere: list[str] = []
    visitor.page.on(
        "request",
        lambda request: (
            None if request.url.startswith(visitor.console.url) else elsewhere.append(request.url)
        ),
    )
    visitor.go("/api/docs/")
    tags = visitor.page.locator(".opblock-tag")
    expect(tags.first).to_be_visible()
    assert tags.count() >= 30
    visitor.page.locator("#operations-tag-users").click()
    expect(visitor.page.locator("#operations-users-users_list")).to_be_visible()
    visitor.page.locator("#operations-tag-pools").click()
    visitor.page.locator("#operations-pools-pools_create .opblock-summary").click()
    expect(visitor.page.locator("#operations-pools-pools_create")).to_contain_text("provisioner")
    assert [url for url in elsewhere if not url.startswith("data:")] == []
