"""One of two gateways stands still: pages and API say 1 of 2 and name it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import running_chromium
from tests.faults.fleet import SECOND, Fleet
from tests.installation import SOON_S, processes_of, wait_until

pytestmark = [pytest.mark.fault, pytest.mark.browser]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with running_chromium() as chromium:
        yield chromium


def test_a_gateway_that_stands_still_is_counted_and_named(fleet: Fleet, browser: Browser) -> None:
    installation = fleet.installation
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(installation.demo["CONSOLE_URL"])
    page.get_by_label("User name or e-mail").fill(installation.demo["ADMIN_USER"])
    page.get_by_label("Password").fill(installation.demo["ADMIN_PASSWORD"])
    page.get_by_role("button", name="Sign in").click()
    main = page.locator("main")
    wait_until(lambda: fleet.coverage() == (2, 2, []), SOON_S, "both gateways to report")
    with fleet.stopped(list(processes_of(fleet.gateways[1].var))):
        wait_until(lambda: fleet.coverage() == (1, 2, [SECOND]), SOON_S, "it to be missed")
        expect(main).to_contain_text("1 of 2 gateways", timeout=1000 * SOON_S)
        expect(main).to_contain_text(SECOND)
        applied = installation.api("GET", "/gateways/")
        assert (applied["applied"], applied["seen"]) == (1, 2)
    wait_until(lambda: fleet.coverage() == (2, 2, []), SOON_S, "it to be back")
    page.close()
