"""The live pages as a person sees them: lines are drawn, states are told, gaps are gaps."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, WebSocketRoute, expect

from controlplane.models import Pool, Route
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from tests.browser.conftest import LOOKS, Console, Visitor
from tests.browser.test_requests import ended_now
from tests.controlplane.bridge.conftest import MANAGE, environment_of_process, wait_until
from tests.dashboards.living import LivingFleet

pytestmark = pytest.mark.browser

SOON_MS = 90_000
REMEMBERED_S = 16 * 60
GAP = (200, 100)
BUCKET_S = 5
NEW_S = 60
WINDOW_S = 300
DAY_S = 24 * 3600
FAR_EAST = "Asia/Kolkata"


@pytest.fixture
def pools(console: Console, actor: Actor) -> list[Pool]:
    return [
        create_pool(
            actor,
            organisation=console.organisation,
            name=name,
            model=model,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port}/v1"],
        )
        for name, model, port in (
            ("llama-70b-prod", "llama-3.3-70b", 9001),
            ("qwen3-32b-prod", "qwen3-32b", 9002),
            ("mistral-24b-prod", "mistral-small-24b", 9003),
        )
    ]


@pytest.fixture
def route(console: Console, pools: list[Pool], actor: Actor) -> Route:
    targets = [TargetChoice(pool, weight) for pool, weight in zip(pools, (6, 3, 1), strict=True)]
    return create_route(
        actor,
        organisation=console.organisation,
        name="chat",
        targets=targets,
        degradation=["trim_batch", "smaller_model", "shed_batch"],
    )


@pytest.fixture
def fleet(console: Console, pools: list[Pool], route: Route) -> Iterator[LivingFleet]:
    """Two gateways with a quarter of an hour behind them, two minutes of it untold."""
    made = LivingFleet(
        console.store,
        console.organisation.pk,
        [pool.pk for pool in pools],
        route_id=route.pk,
    )
    made.remember(REMEMBERED_S, gap=GAP)
    with made.living():
        yield made


@pytest.fixture
def feed(console: Console, fleet: LivingFleet) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "run_feed"],
        env=environment_of_process(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait(120) == 0


CHECKED = {("overview", 390, "light"), ("pool-live", 1400, "dark"), ("route-live", 390, "light")}
"""Each page and each theme; the overview on a desk in the dark is looked at with its table open."""


def expect_state(page: Page, state: str, words: str | re.Pattern[str]) -> None:
    expect(page.locator("[data-live]")).to_have_attribute("data-live", state, timeout=SOON_MS)
    expect(page.locator("[data-live-words]")).to_have_text(words)


def drawn_lines(page: Page, panel: str) -> list[str]:
    """The paths on the screen of one panel's lines."""
    lines = page.locator(f"[data-panel={panel}] .scatterlayer .trace path.js-line")
    return [line.get_attribute("d") or "" for line in lines.all()]


@dataclass
class Wire:
    """The sockets a page opened; `lose_one` keeps the next message from it."""

    page: Page
    sockets: list[WebSocketRoute] = field(default_factory=list)
    lose_one: bool = False

    def tap(self) -> None:
        self.page.route_web_socket(re.compile("/ws/live/"), self._relay)

    def cut(self) -> None:
        self.sockets[-1].close(code=1012)

    def _relay(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        self.sockets.append(socket)

        def pass_on(message: str | bytes) -> None:
            if self.lose_one:
                self.lose_one = False
            else:
                socket.send(message)

        server.on_message(pass_on)


def test_figures_are_drawn_move_and_tell_their_state(
    visit: Callable[..., Visitor], feed: subprocess.Popen[bytes], fleet: LivingFleet
) -> None:
    visitor = visit(time_zone=FAR_EAST)
    page, wire = visitor.page, Wire(visitor.page)
    wire.tap()
    kept = cache_rules(page)
    visitor.sign_in("/?window=5m", "Overview")
    expect_state(page, "live", "Live")
    assert set(kept) == {"private, no-store"}
    check_age(page)
    expect(page.locator("[data-live-said]")).to_have_text("Live")
    check_drawing(page)
    # it takes a record's life until that is noticed
    fleet.silent.add("gw-b")
    check_tiles(page)
    check_rules(page)
    check_newest(page, wire)
    check_pauses(page)
    check_silence(page, feed, fleet)
    wire.cut()
    expect(page.locator("[data-live-said]")).to_have_text("Reconnecting…")
    expect_state(page, "live", "Live")
    assert len(wire.sockets) >= 2
    check_table(visitor)
    check_past(visitor, wire)
    # signed out elsewhere: the page ends up at the sign-in
    page.context.clear_cookies()
    wire.cut()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=SOON_MS)
    assert [one for one in visitor.complaints if "401" not in one and "403" not in one] == []
    visitor.complaints.clear()


def check_drawing(page: Page) -> None:
    """Lines are there, on both sides of a gap that says so, with their words and footers."""
    drawn = {"first_token": 3, "tokens": 2, "kv_cache": 3, "queue": 2, "waiting": 3}
    for panel, lines in drawn.items():
        paths = [path for path in drawn_lines(page, panel) if "L" in path]
        assert len(paths) >= 2 * lines, "a line before the gap and one after it"
        assert all(path.startswith("M") for path in paths)
    assert page.locator("[data-panel=requests] .barlayer .trace .point path").count() > 100
    gap = page.locator("[data-panel=first_token] .annotation-text").first
    expect(gap).to_have_text("no data")
    expect(page.locator("[data-needs]")).to_contain_text("buckets have no data")
    expect(page.locator("[data-live-coverage]")).to_have_text("2 of 2 gateways report")
    expect(page.locator("[data-tile=first_token] [data-tile-unit]")).to_have_text("ms")
    expect(page.locator("[data-panel=utilisation] [data-sentence]")).to_contain_text("CPU")
    expect(page.locator("[data-panel=tokens] .pf")).to_contain_text("5-s buckets")
    expect(page.locator("[data-panel=tokens] .pf")).to_contain_text("UTC")
    expect(page.locator("[data-pools] tr")).to_have_count(3)


def check_tiles(page: Page) -> None:
    """Each is a link that says what it is, and the keyboard gets there."""
    tile = page.get_by_role("link", name=re.compile(r"Errors .*last minute"))
    tile.focus()
    expect(tile).to_be_focused()
    expect(tile).to_have_attribute("href", re.compile(r"^/requests/\?failed=true&last=15m"))


def cache_rules(page: Page) -> list[str]:
    """What the answers with documents will say of keeping them."""
    told: list[str] = []

    def note(answer: Response) -> None:
        if "/live/" in answer.url:
            told.append(answer.headers.get("cache-control", ""))

    page.on("response", note)
    return told


NEWEST = """(plot) => {
  const axis = plot._fullLayout.xaxis;
  const newest = plot.data[0].x.at(-1);
  return {
    hours_east: -new Date().getTimezoneOffset() / 60,
    age_s: (Date.now() - newest) / 1000,
    from_the_right: 1 - axis.c2p(newest) / axis._length,
  };
}"""

ZOOMED = """(plot) => {
  const [from, to] = plot._fullLayout.xaxis.range;
  const first = plot.data[0].x[0];
  return { from_s: (from - first) / 1000, to_s: (to - first) / 1000 };
}"""


def check_age(page: Page) -> None:
    """However far from the organisation's zone: what is new is drawn and told as new."""
    panel = page.locator("[data-panel=tokens]")
    data = page.locator("[data-live-data]")
    # the feed may have begun after the page
    wait_until(lambda: 0 <= seconds_since(data.inner_text()[-8:]) < NEW_S, "data that is new")
    drawn = panel.locator(".js-plotly-plot").evaluate(NEWEST)
    assert drawn["hours_east"] == 5.5
    # the newest bucket began at most its length before its record
    assert 0 <= drawn["age_s"] < BUCKET_S + NEW_S
    assert 0 < drawn["from_the_right"] < 0.02
    until = panel.locator("[data-until]").inner_text()
    assert -BUCKET_S <= seconds_since(until.split()[1]) < NEW_S
    ticks = panel.locator(".xtick text").all_text_contents()
    assert len(ticks) >= 4
    assert all(0 <= seconds_since(f"{tick}:00") < 6 * 60 for tick in ticks)


def seconds_since(clock: str) -> float:
    """How long ago a clock in the organisation's zone, UTC, showed this."""
    now = datetime.now(UTC)
    then = datetime.combine(now.date(), time.fromisoformat(clock), UTC)
    # just after midnight it showed it yesterday, and just before it will tomorrow
    return ((now - then).total_seconds() + DAY_S / 2) % DAY_S - DAY_S / 2


RULES = """async () => {
  const found = performance.getEntriesByType("resource").find((one) => /live-rules/.test(one.name));
  const { follows, waitBeforeReadMs } = await import(found.name);
  const heard = (first, seq, epoch = "a") => ({ at: [first, first + 5, first + 10], seq, epoch });
  return {
    document: [90, 95, 100, 105].map((first) => follows(heard(first, 7), null, 100, 5)),
    next: [heard(95, 8), heard(95, 9), heard(95, 8, "b"), heard(100, 8)].map(
      (message) => follows(message, heard(90, 7), 100, 5)),
    waits: [0, 0.5].map(waitBeforeReadMs),
  };
}"""


def check_rules(page: Page) -> None:
    """A message goes on from a document or message only if no bucket can be left half told."""
    assert page.evaluate(RULES) == {
        "document": [True, True, False, False],
        "next": [True, False, False, False],
        "waits": [0, 1000],
    }


def check_newest(page: Page, wire: Wire) -> None:
    """The newest bucket is later than it was; a lost message has the document read again."""
    panel, root = page.locator("[data-panel=tokens]"), page.locator("[data-live-page]")
    before = int(panel.get_attribute("data-drawn") or 0)
    # a busy page draws several at once
    wait_until(
        lambda: int(panel.get_attribute("data-drawn") or 0) >= before + BUCKET_S, "a newer bucket"
    )
    reread = int(root.get_attribute("data-rereads") or 0)
    wire.lose_one = True
    expect(root).to_have_attribute("data-rereads", str(reread + 1), timeout=SOON_MS)
    expect_state(page, "live", "Live")


def check_pauses(page: Page) -> None:
    """By key and by zoom; what comes meanwhile is counted."""
    page.keyboard.press("p")
    expect_state(page, "paused", re.compile(r"Paused \([1-9]\d* buffered\)"))
    expect(page.locator("[data-live-said]")).to_have_text("Paused")
    page.get_by_role("button", name="Jump to live").click()
    expect_state(page, "live", "Live")
    chart = page.locator("[data-panel=tokens] [data-chart]")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 120, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 60, steps=4)
    page.mouse.up()
    expect_state(page, "paused", re.compile(r"Paused \(\d+ buffered\)"))
    zoomed = chart.evaluate(ZOOMED)
    assert 0 < zoomed["from_s"] < zoomed["to_s"] < WINDOW_S
    assert zoomed["to_s"] - zoomed["from_s"] < WINDOW_S / 2
    page.get_by_role("button", name="Jump to live").click()
    expect_state(page, "live", "Live")


def check_silence(page: Page, feed: subprocess.Popen[bytes], fleet: LivingFleet) -> None:
    """A silent gateway is named; a silent feed is told by the page's own clock."""
    coverage = page.locator("[data-live-coverage]")
    expect(coverage).to_have_text("1 of 2 gateways report: gw-b is silent", timeout=SOON_MS)
    expect(page.locator("[data-needs]")).to_contain_text("gw-b is silent")
    fleet.silent.clear()
    expect(coverage).to_have_text("2 of 2 gateways report", timeout=SOON_MS)
    feed.send_signal(signal.SIGSTOP)
    expect_state(page, "stale", re.compile(r"Stale . no data for \d+ s"))
    expect(page.locator("[data-live-said]")).to_have_text("Stale, no data")
    feed.send_signal(signal.SIGCONT)
    expect_state(page, "live", "Live")


def check_table(visitor: Visitor) -> None:
    """The same figures as a table, gaps as words."""
    panel = visitor.page.locator("[data-panel=tokens]")
    panel.get_by_role("button", name="View as table").click()
    table = panel.locator("table")
    expect(table.locator("thead th")).to_have_text(["Bucket, UTC", "in", "out"])
    expect(table.locator("tbody tr")).to_have_count(60)
    assert table.get_by_text("no data").count() >= 16
    visitor.check_accessibility()


def check_past(visitor: Visitor, wire: Wire) -> None:
    """The past has no socket and says so."""
    opened = len(wire.sockets)
    visitor.go("/?window=5m&until=2026-01-01T12:00:00Z")
    expect_state(visitor.page, "historical", "Historical")
    assert len(wire.sockets) == opened
    visitor.page.get_by_role("button", name="Jump to live").click()
    expect_state(visitor.page, "live", "Live")
    expect(visitor.page).not_to_have_url(re.compile("until="))


def test_live_pages_are_accessible_fit_their_window_and_are_pictured(
    visit: Callable[..., Visitor],
    feed: subprocess.Popen[bytes],
    console: Console,
    pools: list[Pool],
    route: Route,
    shots: Path,
) -> None:
    console.traffic(ended_now())
    visitor = visit()
    page = visitor.page
    visitor.sign_in("/", "Overview")
    for name, path in (
        ("overview", "/"),
        ("pool-live", f"/pools/{pools[0].pk}/"),
        ("route-live", f"/routes/{route.pk}/?tab=live"),
    ):
        visitor.go(path)
        expect_state(page, "live", "Live")
        expect(page.locator("[data-panel=cost]")).to_have_attribute(
            "data-drawn", re.compile(r"\d+")
        )
        for size, theme in LOOKS:
            visitor.show_as(size, theme, name)
            if (name, size[0], theme) in CHECKED:
                visitor.check_accessibility()
            visitor.picture(f"{name}-{size[0]}-{theme}", shots)
