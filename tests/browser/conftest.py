"""A console and a recorder as processes, and a Chromium that looks at them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client, override_settings
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from redis import Redis

from controlplane.models import Organisation, Role, User
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_user, grant_role
from inference.contract.events import End
from tests.controlplane.bridge.conftest import MANAGE, environment_of_process, wait_until
from tests.controlplane.conftest import actor, collected_files, state_store
from tests.controlplane.ledger_events import feed
from tests.installation import free_port

__all__ = ["actor", "collected_files", "state_store"]

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = "HEADWORKS_SCREENSHOTS"
USER, PASSWORD = "mira", "a-long-enough-passphrase-4"
DESKTOP, PHONE = (1400, 900), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium a module. Playwright's loop runs in this thread, so Django must be told."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=list(FLAGS)
        )
        yield chromium
        chromium.close()


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


@pytest.fixture(scope="module")
def console_url(browser: Browser, django_db_setup: None, collected_files: None) -> Iterator[str]:
    """Where a console answers, with a recorder beside it; one of each a module.

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
        wait_until(lambda: is_serving(url), "the console")
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


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
        with urlopen(f"{url}/-/status", timeout=5) as response:
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

    def check_accessibility(self) -> None:
        """Fail unless axe finds nothing at all."""
        results = Axe().run(self.page)
        assert results.violations_count == 0, results.generate_report()

    def look_at(self, name: str, shots: Path) -> None:
        """Fail unless the page fits its window and axe finds nothing; picture it if that's wanted.

        A picture of a whole page takes as long as axe does, so it is taken for people alone.
        """
        overflow = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, f"{name} is {overflow} px too wide"
        if SCREENSHOTS in os.environ:
            width = self.page.evaluate("window.innerWidth")
            theme = self.page.locator("html").get_attribute("data-bs-theme")
            self.page.screenshot(path=shots / f"{name}-{width}-{theme}.png", full_page=True)
        self.check_accessibility()

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@pytest.fixture
def visit(browser: Browser, console: Console) -> Iterator[Callable[..., Visitor]]:
    """Open windows of a size and theme."""
    visitors: list[Visitor] = []

    def open_window(size: tuple[int, int] = DESKTOP, theme: str = "dark") -> Visitor:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
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
