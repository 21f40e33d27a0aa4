"""The pages of the ledger."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.console.formats import UNKNOWN
from controlplane.models import Organisation, Role
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_user, grant_role
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Outcome
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.ledger_events import NOON_MS, PRICE, make_charge, make_end, make_origin

pytestmark = pytest.mark.slow


def words_of(page: str) -> str:
    """A page as its reader sees it: no tags, one blank between words, dashes plain."""
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
    return words.replace(UNKNOWN, "-")


def rows_of(page: str) -> list[str]:
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [words_of(row) for row in body.split("</tr>") if "<td" in row]


def test_a_row_tells_route_worker_times_tokens_and_cost(reader: Reader) -> None:
    reader.record(make_end(1))
    (row,) = rows_of(reader.page("/requests/?last=ever"))
    assert row == (
        "12:00:00.412 24 Nov …00000001 chat-default chat mdl_1 on pool_1-0 200 251 ms 3,692 ms "
        "1,846 / 182 $0.0004872"
    )


def test_unknown_price_tokens_and_times_are_said_to_be_unknown(reader: Reader) -> None:
    unpriced = make_charge(
        usage=Usage(), price=None, cost_nanousd=None, cost_max_nanousd=None, first_token_ms=None
    )
    reader.record(make_end(1, charges=(unpriced,), first_token_ms=None))
    (row,) = rows_of(reader.page("/requests/?last=ever"))
    assert row.endswith("200 - 3,692 ms - no price")
    assert "$0" not in row


def test_a_refusal_costs_a_dash_and_a_lost_gateway_at_most_its_bound(reader: Reader) -> None:
    bounded = make_charge(
        kind=ChargeKind.ESTIMATED, usage=Usage(), cost_nanousd=0, cost_max_nanousd=1_203_000
    )
    lost = Outcome.LOST_GATEWAY
    reader.record(
        make_end(1, charges=(), outcome=Outcome.REFUSED, http_status=429, error_code="no_capacity"),
        make_end(2, charges=(bounded,), outcome=lost, http_status=0, total_ms=0.0),
    )
    second, first = rows_of(reader.page("/requests/?last=ever"))
    assert "429 no_ capacity" in first
    assert first.endswith("- -")
    assert "lost gateway 251 ms - -" in second
    assert second.endswith("≤ $0.001203")


def test_nobody_knows_how_long_what_a_lost_gateway_had_took(reader: Reader) -> None:
    charge = make_charge(
        kind=ChargeKind.ESTIMATED, usage=Usage(), duration_ms=0.0, http_status=None,
        first_token_ms=None,
    )  # fmt: skip
    lost = make_end(
        1, charges=(charge,), outcome=Outcome.LOST_GATEWAY, http_status=0, total_ms=0.0,
        queued_ms=None, first_token_ms=None,
    )  # fmt: skip
    reader.record(lost)
    assert "0.0 ms" not in reader.page("/requests/?last=ever")
    page = reader.page(f"/requests/{lost.event_id}/")
    assert "0.0 ms" not in page
    assert "estimated" in page


def test_the_newest_row_is_on_top_and_older_ones_are_a_page_away(reader: Reader) -> None:
    reader.record(*(make_end(n, at_ms=NOON_MS + n * 1_000) for n in range(1, 61)))
    page = reader.page("/requests/?last=ever")
    assert len(rows_of(page)) == 50
    assert "…00000060" in rows_of(page)[0]
    older = re.search(r'href="([^"]+)" rel="next"', page)
    assert older is not None
    following = reader.page(unescape(older[1]))
    assert "…00000010" in rows_of(following)[0]
    assert len(rows_of(following)) == 10
    assert "Historical" in following
    assert "data-poll" not in following


def test_times_are_told_in_the_organisations_zone(reader: Reader) -> None:
    Organisation.objects.filter(pk=reader.organisation.pk).update(time_zone="Asia/Kolkata")
    reader.record(make_end(1))
    page = reader.page("/requests/?last=ever")
    assert rows_of(page)[0].startswith("17:30:00.412")
    assert "Times in Asia/Kolkata" in page
    assert "From, Asia/Kolkata" in page
    assert rows_of(reader.page("/requests/?to=2026-11-24T17:30")) == []
    assert len(rows_of(reader.page("/requests/?from=2026-11-24T17:30"))) == 1


def test_the_first_request_is_explained_before_there_is_one(reader: Reader) -> None:
    page = words_of(reader.page("/requests/?last=ever"))
    assert "No request has come through a gateway yet" in page
    assert "/v1/chat/completions" in page


def test_filters_stand_in_the_address_and_as_chips(reader: Reader) -> None:
    reader.record(make_end(1))
    page = reader.page("/requests/?outcome=error&route=batch&endpoint=embeddings")
    assert "No results for 4 filters" in page
    assert unescape(page).count("Remove the filter") == 4
    assert 'href="/requests/?route=batch&amp;endpoint=embeddings"' in page
    assert "/api/v1/requests/?outcome=error&endpoint=embeddings&route=batch" in unescape(page)


def test_a_list_is_of_the_last_day_unless_told_otherwise_and_says_so(reader: Reader) -> None:
    now = timezone.now()
    reader.record(make_end(1), make_end(2, at_ms=int(now.timestamp() * 1000)), now=now)
    page = reader.page("/requests/")
    assert [row.split()[1] for row in rows_of(page)] == ["…00000002"]
    assert "Time: Last 24 hours" in words_of(page)
    assert 'href="/requests/?last=ever" aria-label="Remove the filter Time"' in page
    assert "/api/v1/requests/?last=24h" in page
    assert len(rows_of(reader.page("/requests/?last=ever"))) == 2
    assert len(rows_of(reader.page("/requests/?from=2026-11-01T00:00"))) == 2


def test_a_selective_filter_reads_no_more_than_the_day_it_is_about(reader: Reader) -> None:
    with CaptureQueriesContext(connection) as captured:
        reader.page("/requests/?key=nobody")
    (listed,) = [
        one["sql"] for one in captured if "ORDER BY" in one["sql"] and "key_id" in one["sql"]
    ]
    assert '"controlplane_request"."day" >=' in listed


def test_costs_of_one_list_line_up(reader: Reader) -> None:
    free = make_charge(cost_nanousd=0, cost_max_nanousd=0)
    round_figure = make_charge(cost_nanousd=250_000_000, cost_max_nanousd=250_000_000)
    reader.record(make_end(1), make_end(2, charges=(free,)), make_end(3, charges=(round_figure,)))
    costs = [row.split()[-1] for row in rows_of(reader.page("/requests/?last=ever"))]
    assert costs == ["$0.2500000", "$0.0000000", "$0.0004872"]


def test_an_answer_that_broke_off_says_what_happened_after_its_status(reader: Reader) -> None:
    cut = make_charge(kind=ChargeKind.CUT, error_code="upstream_closed")
    broken = {"outcome": Outcome.ERROR, "http_status": 200, "error_code": "upstream_closed"}
    reader.record(make_end(1, charges=(cut,), **broken))
    (row,) = rows_of(reader.page("/requests/?last=ever"))
    assert "answered 200, then the worker closed" in row


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (None, "The model had no price, so nothing is booked."),
        (
            PRICE,
            "An attempt ended without the engine's closing usage, so its lower bound is booked.",
        ),
    ],
)
def test_what_is_booked_for_an_estimate_is_told_by_its_price(
    reader: Reader, price: object, words: str
) -> None:
    booked = None if price is None else 0
    estimated = make_charge(
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        price=price,
        cost_nanousd=booked,
        cost_max_nanousd=booked,
    )
    reader.record(make_end(1, charges=(estimated,)))
    page = words_of(unescape(reader.page(f"/requests/req_{1:026d}/")))
    assert words in page
    assert page.count("is booked") == 1


def test_a_request_leads_to_its_route_and_key_while_they_are_there(
    reader: Reader, actor: Actor
) -> None:
    key = create_key(actor, organisation=reader.organisation, name="mine").key
    reader.record(make_end(1, origin=make_origin(key_id=key.public_id, project_id=key.project_id)))
    page = reader.page(f"/requests/req_{1:026d}/")
    assert f'href="/keys/{key.pk}/"' in page
    assert f'href="/projects/{key.project_id}/"' in page
    assert "/routes/rt_1/" not in page


def test_a_filter_that_makes_no_sense_is_marked_at_its_field(reader: Reader) -> None:
    page = reader.page("/requests/?min_cost=much")
    assert "A filter is not valid" in page
    assert re.search(r'name="min_cost"[^>]*aria-invalid="true"', page)


def test_a_whole_id_leads_straight_to_its_request(reader: Reader) -> None:
    reader.record(make_end(1))
    response = reader.get(f"/requests/?id=req_{1:026d}")
    assert response.status_code == 302
    assert response["Location"] == f"/requests/req_{1:026d}/"


def test_a_poll_brings_new_rows_and_nothing_when_there_are_none(reader: Reader) -> None:
    now = timezone.now()
    now_ms = int(now.timestamp() * 1000)
    reader.record(make_end(1, at_ms=now_ms - 1_000), now=now)
    poll = poll_of(reader.page("/requests/?outcome=ok"))
    assert reader.poll(poll).status_code == 204
    failed = make_end(2, at_ms=now_ms, outcome=Outcome.ERROR, http_status=502)
    reader.record(failed, now=now)
    assert reader.poll(poll).status_code == 204
    reader.record(make_end(3, at_ms=now_ms), now=now)
    response = reader.poll(poll)
    assert response.status_code == 200
    part = response.content.decode()
    assert part.startswith("<section")
    assert [row.split()[1] for row in rows_of(part)] == ["…00000003", "…00000001"]
    assert reader.poll(poll_of(part)).status_code == 204


def test_a_poll_without_news_reads_nothing_else(
    reader: Reader,
) -> None:
    reader.record(make_end(1))
    poll = poll_of(reader.page("/requests/?route=none"))
    with CaptureQueriesContext(connection) as captured:
        assert reader.poll(poll).status_code == 204
    ledger = [one["sql"] for one in captured if "controlplane_request" in one["sql"]]
    assert len(ledger) == 1
    assert "recorded_at" in ledger[0]


def poll_of(page: str) -> str:
    """The address a page polls, with what it says it showed."""
    text = unescape(page)
    address = re.search(r'hx-get="([^"]+)" hx-vals', text)
    seen = re.search(r'"seen":"([^"]+)"', text)
    assert address is not None
    assert seen is not None
    return f"{address[1]}&seen={seen[1]}"


def test_a_paused_page_does_not_poll_and_can_go_on(reader: Reader) -> None:
    reader.record(make_end(1))
    page = reader.page("/requests/?live=off&outcome=ok")
    assert "data-poll" not in page
    assert "Paused" in page
    assert 'href="/requests/?outcome=ok"' in page


def test_one_request_shows_its_timings_attempts_price_and_decision(reader: Reader) -> None:
    failed = make_charge(
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        error_code="upstream_timeout",
        first_token_ms=None,
        duration_ms=620.0,
        cost_nanousd=0,
        cost_max_nanousd=553_800,
    )
    reader.record(make_end(1, charges=(failed, make_charge(attempt=2, duration_ms=3_000.0))))
    page = words_of(reader.page(f"/requests/req_{1:026d}/"))
    assert "Total 3,692 ms First token 251 ms" in page
    assert "Cost $0.0004872 at most $0.001041" in page
    assert "1, Not reported - - ≤ $0.0005538" in page
    assert "2, Input 822 $0.300 $0.0002466" in page
    assert "2, Input, cached 1,024 $0.075 $0.0000768" in page
    assert "2, Output 182 $0.900 $0.0001638" in page
    assert "strategy: weighted" in page
    assert "version 41" in page


def test_a_request_refused_before_a_route_says_so(reader: Reader) -> None:
    origin = make_origin(route_id=None, route_name=None)
    refused = make_end(
        1, origin=origin, charges=(), outcome=Outcome.REFUSED, http_status=404, decision=None,
        first_token_ms=None, queued_ms=None, output_tokens_max=None,
    )  # fmt: skip
    reader.record(refused)
    page = words_of(reader.page(f"/requests/req_{1:026d}/"))
    assert "the request ended before a route was planned" in page
    assert "Attempts" not in page


def test_another_organisations_requests_are_not_there(
    reader: Reader, make_reader: Callable[..., Reader]
) -> None:
    reader.record(make_end(1))
    stranger = make_reader("stranger")
    assert rows_of(stranger.page("/requests/?last=ever")) == []
    for path in (
        f"/requests/req_{1:026d}/",
        f"/requests/?organisation={reader.organisation.pk}",
        f"/requests/req_{1:026d}/?organisation={reader.organisation.pk}",
    ):
        assert stranger.get(path).status_code == 404


def test_a_reader_of_two_organisations_chooses_and_stays(reader: Reader, actor: Actor) -> None:
    other = create_organisation(actor, name="Zweite")
    user = create_user(actor, username="both", password=PASSWORD)
    for organisation in (reader.organisation, other):
        grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
    reader.record(make_end(1))
    both = Reader(Client(), other)
    both.client.force_login(user)
    assert len(rows_of(both.page("/requests/?last=ever"))) == 1
    assert rows_of(both.page(f"/requests/?last=ever&organisation={other.pk}")) == []
    assert rows_of(both.page("/requests/?last=ever")) == []
    assert f"organisation={other.pk}" in both.page("/requests/?last=ever")


def test_somebody_without_a_role_is_told_so(reader: Reader, actor: Actor) -> None:
    client = Client()
    client.force_login(create_user(actor, username="nobody", password=PASSWORD))
    response = client.get("/requests/")
    assert response.status_code == 403
    assert b"You may not see this page" in response.content


def test_strangers_sign_in_first_and_come_back(reader: Reader) -> None:
    client = Client()
    response = client.get("/requests/?outcome=ok")
    assert response.status_code == 302
    assert response["Location"] == "/accounts/login/?next=/requests/%3Foutcome%3Dok"
    part = client.get("/requests/", headers={"HX-Request": "true", "HX-Target": "results"})
    assert part["HX-Redirect"] == "/accounts/login/"


@pytest.mark.parametrize("path", ["/requests/?cursor=x", "/requests/?cursor=%00"])
def test_an_address_that_makes_no_sense_is_a_400(reader: Reader, path: str) -> None:
    response = reader.get(path)
    assert response.status_code == 400
    assert b"The request was not understood" in response.content


@pytest.mark.parametrize("path", ["/requests/", f"/requests/req_{1:026d}/", "/accounts/login/"])
def test_pages_hold_no_inline_script_or_style(reader: Reader, path: str) -> None:
    reader.record(make_end(1))
    client = Client() if "login" in path else reader.client
    response = client.get(path)
    page = response.content.decode()
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page)
    assert "unsafe" not in response["Content-Security-Policy"]
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize(
    ("cookie", "expected"),
    [("dark", 'data-bs-theme="dark"'), ("light", 'data-bs-theme="light"'), ("x", 'theme="system"')],
)
def test_the_chosen_theme_is_in_the_page_itself(reader: Reader, cookie: str, expected: str) -> None:
    reader.client.cookies["headworks_theme"] = cookie
    assert expected in reader.page("/requests/?last=ever").partition("<head>")[0]


def test_signing_in_and_out_works_by_form(reader: Reader) -> None:
    client = Client()
    wrong = client.post("/accounts/login/", {"login": "mira", "password": "wrong"})
    assert wrong.status_code == 200
    assert b'role="alert"' in wrong.content
    right = client.post("/accounts/login/", {"login": "mira", "password": PASSWORD})
    assert (right.status_code, right["Location"]) == (302, "/")
    assert client.get("/requests/").status_code == 200
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/requests/").status_code == 302


def test_error_pages_look_alike_and_name_the_request(reader: Reader) -> None:
    response = reader.get("/nowhere/")
    assert response.status_code == 404
    page = response.content.decode()
    assert "There is no such page" in page
    assert response["X-Request-ID"] in page


@pytest.mark.parametrize("path", ["signup", "password/reset", "password/reset/done", "inactive"])
def test_every_account_page_shares_the_look(reader: Reader, path: str) -> None:
    response = Client().get(f"/accounts/{path}/")
    assert response.status_code == 200
    page = response.content.decode()
    assert '<body class="bare">' in page
    assert page.count("<main") == page.count("<h1>") == 1
