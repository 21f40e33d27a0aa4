"""A mail about an alert as people see it: from a real server's hands, drawn by a real browser.

`HEADWORKS_SCREENSHOTS=docs/pictures` takes the picture of the documentation anew.
"""

from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import Browser
from pydantic import SecretStr

from controlplane.decisions.alert_kinds import DeliveryKind
from controlplane.decisions.alert_words import Told, content_of
from controlplane.notify.base import Message, Target
from controlplane.notify.channels.email import send
from tests.controlplane.alerts.sinks import smtp_sink

pytestmark = pytest.mark.browser

ALERT = Told(
    id="ale_01",
    name="Support budget",
    kind="budget_forecast",
    scope="budget",
    subject_id="bud_01:account",
    subject_name="budget Support, $900.00 until 2026-12-31 23:00 UTC",
    threshold=100.0,
    window_s=0,
    severity="critical",
    value=118.4,
    peak=118.4,
    opened_at=datetime(2026, 12, 9, 8, 41, tzinfo=UTC),
    detail="$301.20 so far; $1065.60 at the end of the period at this pace, four times in five"
    " between $1012.40 and $1118.80; the budget is $900.00.",
    runbook="https://wiki.example.com/budgets",
)


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> EmailMessage:
    """The mail as the server was handed it."""
    with smtp_sink() as server:
        told = {"smtp_url": SecretStr(server.url), "mail_from": "headworks@example.com"}
        monkeypatch.setattr(settings, "HEADWORKS", settings.HEADWORKS.model_copy(update=told))
        content = content_of(DeliveryKind.FIRED, [ALERT])
        message = Message("dlv_01", "fired", "2026-12-09T08:41:00Z", content, "https://hw.example")
        send(Target(recipients=("ann@example.com",)), message)
        (found,) = server.mails
        assert isinstance(found, EmailMessage)
        return found


def test_a_mail_is_drawn_whole_and_says_in_text_what_it_shows(
    mail: EmailMessage, browser: Browser, shots: Path
) -> None:
    html = mail.get_body(("html",))
    text = mail.get_body(("plain",))
    assert html is not None
    assert text is not None
    page = browser.new_page(viewport={"width": 700, "height": 640}, color_scheme="light")
    page.set_content(html.get_content())
    shown = page.locator("body").inner_text()
    for words in ("Firing: Support budget", "$1065.60 at the end", "118", "Message dlv_01"):
        assert words in shown
        assert words in text.get_content()
    link = page.get_by_role("link", name="Open in Headworks")
    assert link.get_attribute("href") == "https://hw.example/alerts/ale_01/"
    assert page.locator("script").count() == 0
    page.screenshot(path=shots / "alert-mail.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
