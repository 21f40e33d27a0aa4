"""The pages of the ledger as a person uses them, in a real browser."""

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import RequestFactory
from playwright.sync_api import Route as PageRoute
from playwright.sync_api import expect

from inference.contract.events import End, Usage
from inference.contract.kinds import ChargeKind, Outcome
from tests.browser.conftest import PHONE, Console, Visitor
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.browser

VISIBLE_WITHIN_MS = 2_000


def ended_now(number: int = 1, **changes: object) -> End:
    """A request that ended just now, its attempt a fallback's second."""
    now_ms = int(time.time() * 1000)
    failed = make_charge(
        pool_id="pool_2",
        worker_id="pool_2-1",
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        started_at_ms=now_ms - 4_280,
        duration_ms=620.0,
        first_token_ms=None,
        http_status=None,
        error_code="upstream_timeout",
        cost_nanousd=0,
        cost_max_nanousd=553_800,
    )
    served = make_charge(attempt=2, started_at_ms=now_ms - 3_654)
    values = {
        "at_ms": now_ms,
        "received_at_ms": now_ms - 4_287,
        "charges": (failed, served),
        "total_ms": 4_287.0,
        "first_token_ms": 866.0,
    }
    return make_end(number, **(values | changes))


def mixed_traffic() -> list[End]:
    """One of each kind of ending, the oldest first."""
    now_ms = int(time.time() * 1000)
    unpriced = make_charge(price=None, cost_nanousd=None, cost_max_nanousd=None)
    cut = make_charge(kind=ChargeKind.CUT, cost_max_nanousd=600_000)
    nowhere = make_origin(route_id=None, route_name=None, requested_model="gpt-9")
    made = [
        ended_now(1),
        make_end(2),
        make_end(3, charges=(unpriced,)),
        make_end(4, charges=(cut,), outcome=Outcome.CANCELLED, http_status=499),
        make_end(
            5, charges=(), origin=nowhere, outcome=Outcome.REFUSED, http_status=404,
            error_code="model_not_found", total_ms=0.6, queued_ms=None, first_token_ms=None,
            decision=None, output_tokens_max=None,
        ),
        make_end(6, outcome=Outcome.ERROR, http_status=502, error_code="upstream_error"),
        make_end(7, outcome=Outcome.LOST_GATEWAY, http_status=0, total_ms=0.0, decision=None),
        *(make_end(number) for number in range(8, 15)),
    ]  # fmt: skip
    return [
        make_end_at(end, now_ms - (len(made) - place) * 1_700) for place, end in enumerate(made)
    ]


def make_end_at(end: End, at_ms: int) -> End:
    """The same end at another time, its attempts moved along."""
    changes = {name: getattr(end, name) for name in end.__dataclass_fields__}
    moved = at_ms - end.at_ms
    charges = [
        make_charge(
            **{name: getattr(charge, name) for name in charge.__dataclass_fields__}
            | {"started_at_ms": charge.started_at_ms + moved}
        )
        for charge in end.charges
    ]
    return make_end(
        **changes
        | {"at_ms": at_ms, "received_at_ms": end.received_at_ms + moved, "charges": tuple(charges)}
    )


def test_a_request_is_seen_within_two_seconds_of_its_end_and_opens(
    visitor: Visitor, console: Console
) -> None:
    page = visitor.page
    expect(page.get_by_text("No request has come through a gateway yet")).to_be_visible()
    expect(page.locator("[data-live=live]")).to_contain_text("Live")
    console.traffic(ended_now())
    row = page.locator("tbody tr").first
    expect(row).to_be_visible(timeout=VISIBLE_WITHIN_MS)
    for words in ("chat-default", "pool_1-0", "200", "866 ms", "4,287 ms", "1,846 / 182"):
        expect(row).to_contain_text(words)
    expect(row).to_contain_text("≥ $0.0004872")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"req_{1:026d}")
    expect(page.locator(".strip")).to_contain_text("4,287 ms")
    expect(page.locator("#decision")).to_contain_text("strategy: weighted")
    assert drawn_bars(visitor) == [
        ("f2", 18.2),
        ("f5", 620.0),
        ("f8", 3_654.4),
        ("f1", 232.6),
        ("f3", 3_421.8),
        ("f8", 4_287.0),
    ]


def drawn_bars(visitor: Visitor) -> list[tuple[str, float]]:
    """The waterfall's bars as they are on the screen, in ms by their length."""
    boxes = visitor.page.locator(".wf rect").evaluate_all(
        "bars => bars.map(bar => [bar.getAttribute('class'), bar.getBoundingClientRect().width])"
    )
    whole = boxes[-1][1]
    assert whole > 400
    ms = [4_287.0 * width / whole for _, width in boxes]
    expected = (18.2, 620.0, 3_654.4, 232.6, 3_421.8, 4_287.0)
    return [
        (name, near if abs(near - seen) < 5 else seen)
        for (name, _), seen, near in zip(boxes, ms, expected, strict=True)
    ]


def test_newer_rows_come_on_top_and_leave_the_keyboard_where_it_is(
    visitor: Visitor, console: Console
) -> None:
    page = visitor.page
    console.traffic(ended_now(1))
    first = page.locator(f"#open-req_{1:026d}")
    first.focus()
    console.traffic(ended_now(2))
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").first).to_contain_text("…00000002")
    expect(first).to_be_focused()


def test_the_whole_list_is_used_by_keyboard_alone(visitor: Visitor, console: Console) -> None:
    page = visitor.page
    console.traffic(ended_now())
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(16):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "() => { const at = document.activeElement;"
                " return at.getAttribute('aria-label') || at.id || at.textContent.trim(); }"
            )
        )
        if reached[-1].startswith("Request req_"):
            break
    assert reached == [
        "View API request",
        "id_last",
        "id_outcome",
        "id_reason",
        "id_route",
        "id_pool",
        "id_model",
        "id_id",
        "More filters",
        "Remove the filter Time",
        "Clear all",
        "pause",
        f"Request req_{1:026d}",
    ]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/requests/req_0+1/$"))


def test_filters_are_in_the_address_and_the_back_button_undoes_them(
    visitor: Visitor, console: Console
) -> None:
    page = visitor.page
    console.traffic(ended_now(1), ended_now(2, outcome=Outcome.ERROR, http_status=502))
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Outcome").select_option("error")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"outcome=error"))
    expect(page.locator(".chips")).to_contain_text("Outcome: error")
    page.get_by_role("button", name="View API request").click()
    expect(page.locator("#api-call-text")).to_contain_text("outcome=error")
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Request id").fill(f"req_{2:026d}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"req_{2:026d}")


def test_a_paused_list_stands_still_until_it_goes_live(visitor: Visitor, console: Console) -> None:
    page = visitor.page
    console.traffic(ended_now(1))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Pause").click()
    expect(page.locator("[data-live=paused]")).to_contain_text("Paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    console.traffic(ended_now(2))
    with page.expect_event("console", predicate=lambda message: message.text == "waited"):
        page.evaluate("setTimeout(() => console.log('waited'), 1500)")
    assert [address for address in asked if "seen=" in address] == []
    page.get_by_role("link", name="Go live").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_list_without_answers_says_it_is_stale_and_recovers(
    visitor: Visitor, console: Console
) -> None:
    page = visitor.page
    page.route(re.compile("seen="), lambda route: route.fulfill(status=503))
    expect(page.locator("[data-live=stale]")).to_contain_text("Stale: no answer for")
    page.unroute(re.compile("seen="))
    expect(page.locator("[data-live=live]")).to_have_text("Live")
    assert all("503" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_the_theme_follows_the_system_until_one_is_chosen_and_is_remembered(
    visitor: Visitor,
) -> None:
    page, root = visitor.page, visitor.page.locator("html")
    expect(root).to_have_attribute("data-bs-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-bs-theme", "light")
    toggle = page.locator("[data-theme-toggle]")
    toggle.click()
    toggle.click()
    expect(toggle).to_have_attribute("aria-label", "Theme: dark")
    expect(root).to_have_attribute("data-bs-theme", "dark")
    sent = page.reload()
    assert sent is not None
    assert 'data-bs-theme="dark"' in sent.text().partition("<head>")[0]
    toggle.click()
    expect(root).to_have_attribute("data-bs-theme", "light")


def test_the_navigation_of_a_phone_opens_over_the_page_and_closes(
    visit: Callable[..., Visitor], shots: Path
) -> None:
    visitor = visit(PHONE)
    visitor.sign_in()
    page = visitor.page
    link = page.get_by_role("navigation", name="Main").get_by_role("link", name="Requests")
    expect(link).to_be_hidden()
    opener = page.get_by_role("button", name="Open navigation")
    opener.click()
    expect(link).to_be_visible()
    visitor.check_accessibility()
    visitor.picture("navigation-390-dark", shots)
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    expect(opener).to_be_focused()


def test_long_error_codes_keep_the_table_inside_a_small_desk(
    visit: Callable[..., Visitor], console: Console
) -> None:
    visitor = visit((1280, 800))
    visitor.sign_in()
    console.traffic(
        ended_now(outcome=Outcome.ERROR, http_status=502, error_code="upstream_credential_refused"),
        ended_now(2, outcome=Outcome.ERROR, http_status=200, error_code="upstream_closed"),
    )
    page = visitor.page
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody")).to_contain_text("answered 200, then the worker closed")
    hidden_px = page.locator("#results .tw").evaluate("it => it.scrollWidth - it.clientWidth")
    assert hidden_px <= 0


def test_an_id_is_copied(visitor: Visitor, console: Console) -> None:
    console.traffic(ended_now())
    visitor.page.locator("tbody tr").first.get_by_role("link").click()
    visitor.page.get_by_role("button", name="Copy id").click()
    expect(visitor.page.locator("#said")).to_have_text("Copied")
    assert visitor.page.evaluate("navigator.clipboard.readText()") == f"req_{1:026d}"


REFUSALS = {
    "not-found": "/nowhere/",
    "forbidden": "/system/",
    "bad-request": "/usage/export.csv?range=soon",
}
FAILURES = {"form-too-old": "403_csrf.html", "broken": "500.html", "outage": "outage.html"}


def answer(body: str, route: PageRoute) -> None:
    """Answer with a page that no healthy console sends."""
    route.fulfill(status=500, content_type="text/html", body=body)


def test_every_page_is_accessible_fits_its_window_and_is_pictured(
    visit: Callable[..., Visitor],
    console: Console,
    shots: Path,
) -> None:
    visitor = visit()
    page = visitor.page

    def check(name: str) -> None:
        visitor.look_at(name, shots)

    visitor.go("/")
    check("sign-in")
    visitor.sign_in()
    check("requests-first")
    console.traffic(*mixed_traffic())
    expect(page.locator("tbody tr")).to_have_count(14)
    check("requests")
    page.get_by_role("button", name="View API request").click()
    check("requests-api")
    page.keyboard.press("Escape")
    page.locator(".avatar").click()
    check("account")
    visitor.go("/requests/?outcome=ok&route=none&min_cost=0.5")
    check("requests-filtered")
    visitor.go("/requests/?min_cost=-1&live=off")
    check("requests-invalid")
    for number, name in ((1, "fallback"), (5, "refused"), (7, "lost")):
        visitor.go(f"/requests/req_{number:026d}/")
        check(f"request-{name}")
    visitor.go("/-/status")
    check("status")
    visitor.go("/accounts/password/reset/")
    check("password-reset")
    for name, path in REFUSALS.items():
        visitor.go(path)
        check(name)
    asked = RequestFactory().get("/broken/")
    for name, template in FAILURES.items():
        told = {"request": asked, "detail": "The database is not answering."}
        body = render_to_string(template, told)
        page.route("**/broken/", partial(answer, body))
        visitor.go("/broken/")
        check(name)
    assert [complaint for complaint in visitor.complaints if "status of" not in complaint] == []
    visitor.complaints.clear()
