"""A console and a recorder as processes, and a Chromium that looks at them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from django.conf import settings
from django.test import Client, override_settings
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from redis import Redis

from controlplane.models import Organisation, Role, User
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_user, grant_role
from inference.contract.events import End
from tests.browser.chromium import PATIENCE_MS, running_chromium
from tests.controlplane.bridge.conftest import MANAGE, environment_of_process
from tests.controlplane.conftest import actor, collected_files, state_store
from tests.controlplane.ledger_events import feed
from tests.installation import free_port, wait_until

__all__ = ["actor", "collected_files", "state_store"]

SCREENSHOTS = "HEADWORKS_SCREENSHOTS"
STARTED_WITHIN_S = 300.0
USER, PASSWORD = "mira", "a-long-enough-passphrase-4"
DESKTOP, PHONE = (1400, 900), (390, 844)
LOOKS: Sequence[tuple[tuple[int, int], Literal["dark", "light"]]] = (
    (DESKTOP, "dark"),
    (PHONE, "light"),
)
LOOK_RULES = (
    "aria-hidden-focus",
    "button-name",
    "color-contrast",
    "link-in-text-block",
    "link-name",
    "scrollable-region-focusable",
    "skip-link",
)
"""Those of axe's rules whose outcome can change with a window's width and theme."""
LOOKED_AT = {"include": [["html"]], "exclude": [["svg *"]]}
"""What is in a drawing is told by the name of the drawing alone, and is most of a page."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of this folder; each has windows of its own."""
    with running_chromium() as chromium:
        yield chromium


@dataclass
class Console:
    """A running console with one organisation, whose traffic the test makes up."""

    url: str
    store: Redis
    organisation: Organisation

    def traffic(self, *ends: End) -> None:
        """Put ends into the stream as this organisation's."""
        for end in ends:
            origin = replace(end.origin, organisation_id=self.organisation.pk)
            feed(self.store, replace(end, origin=origin))


@pytest.fixture(scope="package")
def console_url(browser: Browser, django_db_setup: None, collected_files: None) -> Iterator[str]:
    """Where a console answers, with a recorder beside it; one of each for this folder.

    Both keep nothing between requests that a test's end takes away with its rows and keys.
    """
    port = free_port()
    commands = (
        ("-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)),
        (str(MANAGE), "record_usage"),
    )
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=MANAGE.parent,
            env=environment_of_process(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_serving(url), STARTED_WITHIN_S, "the console")
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(120)


@pytest.fixture
def console(console_url: str, transactional_db: None, state_store: Redis, actor: Actor) -> Console:
    """The console, and an organisation with one reader that is this test's own."""
    organisation = create_organisation(actor, name="Nordhavn")
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        user = create_user(actor, username=USER, password=PASSWORD)
    grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
    return Console(console_url, state_store, organisation)


def is_serving(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/status", timeout=60) as response:
            return bool(response.status == 200)
    except URLError:
        return False


@dataclass
class Visitor:
    """One browser window. What the browser complains about fails the test that opened it."""

    page: Page
    console: Console
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.console.url}{path}")

    def sign_in(self, path: str = "/requests/", heading: str = "Requests") -> None:
        """Go there with a session. The form is used by those tests that are about signing in."""
        client = Client()
        client.force_login(User.objects.get(username=USER))
        name = settings.SESSION_COOKIE_NAME
        cookie = {"name": name, "value": client.cookies[name].value, "url": self.console.url}
        self.page.context.add_cookies([cookie])
        self.go(path)
        expect(self.page.get_by_role("heading", name=heading, exact=True)).to_be_visible()

    def check_accessibility(self, rules: Sequence[str] = ()) -> None:
        """Fail unless axe finds nothing at all, by all of its rules or by these."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = self.page.evaluate("([where, how]) => axe.run(where, how)", [LOOKED_AT, options])
        results = AxeResults(found)
        assert results.violations_count == 0, results.generate_report()

    def look_at(self, name: str, shots: Path) -> None:
        """Fail unless the page fits its window and axe finds nothing, wide and narrow.

        What a rule says of the document itself is asked once, what it says of its looks twice.
        """
        for size, theme in LOOKS:
            self.show_as(size, theme, name)
            self.picture(f"{name}-{size[0]}-{theme}", shots)
            self.check_accessibility(() if size == DESKTOP else LOOK_RULES)
        self.show_as(DESKTOP, "dark", name)

    def show_as(self, size: tuple[int, int], theme: Literal["dark", "light"], name: str) -> None:
        """Give the window a size and a theme; fail unless the page fits it."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=theme)
        expect(self.page.locator("html")).to_have_attribute("data-bs-theme", theme)
        overflow = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{name} is {overflow} px too wide at {size[0]}"

    def picture(self, name: str, shots: Path) -> None:
        """Keep a picture of the whole page, for people; one takes as long as axe does."""
        if SCREENSHOTS in os.environ:
            self.page.screenshot(path=shots / f"{name}.png", full_page=True)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@pytest.fixture
def visit(browser: Browser, console: Console) -> Iterator[Callable[..., Visitor]]:
    """Open windows of a size and theme, on a machine in some time zone."""
    visitors: list[Visitor] = []

    def open_window(
        size: tuple[int, int] = DESKTOP, theme: str = "dark", time_zone: str = "UTC"
    ) -> Visitor:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            timezone_id=time_zone,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(PATIENCE_MS)
        visitor = Visitor(context.new_page(), console)
        visitor.page.on("console", visitor.note)
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        visitors.append(visitor)
        return visitor

    yield open_window
    for visitor in visitors:
        visitor.page.context.close()
    assert [visitor.complaints for visitor in visitors] == [[] for _ in visitors]


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    """A signed-in window on a desk."""
    found = visit()
    found.sign_in()
    return found


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where pictures go: HEADWORKS_SCREENSHOTS, or a folder that goes with the test."""
    folder = Path(os.environ.get(SCREENSHOTS) or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
