"""The usage pages: exact sums, every zone's days, nobody else's figures, and safe files."""

import csv
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.db.models import Sum
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from controlplane.models import Charge, Organisation, Project, Request, Role, UsageDay
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.projects import create_project
from controlplane.services.teams import create_team
from controlplane.services.users import create_user, grant_role
from inference.contract.events import Usage
from inference.contract.kinds import Outcome
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.test_request_pages import rows_of, words_of
from tests.controlplane.ledger_events import NOON_MS, make_charge, make_end, make_origin

pytestmark = pytest.mark.slow


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOVEMBER = "from=2026-11-01T00:00&to=2026-12-01T00:00"


def at(text: str) -> int:
    """A UTC time in ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def of_route(name: str, number: int, **changes: Any) -> Any:
    origin = make_origin(route_id=f"rt_{name}", route_name=name)
    return make_end(number, **({"origin": origin} | changes))


def cells_of(page: str) -> list[str]:
    """The rows of the chart's own table."""
    return rows_of(page)


def lines_of(page: str) -> list[str]:
    """The rows of the table below the chart, its total last."""
    table = page.partition('class="tbl cards usage"')[2]
    body, _, rest = table.partition("<tbody>")[2].partition("</tbody>")
    foot = rest.partition("<tfoot>")[2].partition("</tfoot>")[0]
    return [words_of(row) for part in (body, foot) for row in part.split("</tr>") if "<td" in row]


def figure_of(page: str) -> Any:
    found = re.search(r'data-figure="([^"]+)"', page)
    assert found is not None
    return json.loads(unescape(found[1]))


def file_of(reader: Reader, path: str) -> list[dict[str, str]]:
    response = reader.get(path)
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in response["Content-Disposition"]
    return list(csv.DictReader(StringIO(response.content.decode())))


def test_groups_are_summed_exactly_and_the_total_is_that_of_the_ledger(reader: Reader) -> None:
    reader.record(
        *(of_route("chat", number, at_ms=NOON_MS - number * DAY_MS) for number in range(1, 5)),
        of_route("batch", 5),
    )
    page = reader.page(f"/usage/?{NOVEMBER}")
    chat, batch, total = lines_of(page)
    assert chat == "chat 4 0 7,384 728 $0.00195 80.0 %"
    assert batch == "batch 1 0 1,846 182 $0.000487 20.0 %"
    assert total == "Ledger total = sum of rows 5 0 9,230 910 $0.00244 100.0 %"
    assert ['title="$0.0019488"' in page, 'title="$0.002436"' in page] == [True, True]
    booked = Charge.objects.aggregate(all=Sum("cost_nanousd"))["all"]
    assert (Request.objects.count(), booked) == (5, 2_436_000)
    assert "from the day roll-up" in page


def test_what_nobody_knows_is_counted_and_named_and_never_zero(reader: Reader) -> None:
    unpriced = make_charge(
        usage=Usage(), price=None, cost_nanousd=None, cost_max_nanousd=None, first_token_ms=None
    )
    reader.record(of_route("chat", 1), of_route("blind", 2, charges=(unpriced,)))
    page = reader.page(f"/usage/?{NOVEMBER}&measure=cost")
    by_cost = lines_of(page)
    assert by_cost[0].startswith("chat 1 0 1,846 182 $0.000487 100.0 %")
    assert by_cost[1] == (
        "blind 1 request without a price 1 attempt with unknown tokens 1 0 - - no price 0.0 %"
    )
    assert by_cost[2].startswith(
        "Ledger total = sum of rows 1 request without a price 1 attempt with unknown tokens 2 0"
    )
    assert "Not in the sums: 1 request without a price, 1 attempt with unknown tokens." in page


def test_a_total_without_any_price_is_no_price_though_refusals_cost_nothing(
    reader: Reader,
) -> None:
    unpriced = make_charge(price=None, cost_nanousd=None, cost_max_nanousd=None)
    reader.record(
        of_route("chat", 1, charges=(unpriced,)),
        of_route("chat", 2, charges=(), outcome=Outcome.REFUSED),
    )
    for path in ("/usage/", "/me/usage/"):
        line, total = lines_of(reader.page(f"{path}?{NOVEMBER}"))
        assert "1 request without a price 2" in line
        assert (line.count(" no price "), total.count(" no price ")) == (1, 1)
        assert "$" not in line + total
    reader.record(of_route("chat", 3))
    assert " $0.000487 " in lines_of(reader.page(f"/usage/?{NOVEMBER}"))[-1]


def test_unknown_figures_are_empty_cells_of_the_file_and_never_zero(reader: Reader) -> None:
    unpriced = make_charge(
        usage=Usage(), price=None, cost_nanousd=None, cost_max_nanousd=None, first_token_ms=None
    )
    reader.record(of_route("blind", 1, charges=(unpriced,)))
    (row,) = file_of(reader, f"/usage/export.csv?{NOVEMBER}")
    unknown = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_nanousd", "cost_usd")
    assert [row[name] for name in unknown] == [""] * 5
    assert (row["requests"], row["unknown_usage"], row["unknown_cost"]) == ("1", "1", "1")
    reader.record(of_route("blind", 2))
    (row,) = file_of(reader, f"/usage/export.csv?{NOVEMBER}")
    assert [row[name] for name in unknown] == ["1846", "182", "1024", "487200", "0.0004872"]


def test_what_had_no_route_is_called_so_by_page_chart_and_file(reader: Reader) -> None:
    nowhere = make_end(1, origin=make_origin(route_id="", route_name=""), charges=())
    reader.record(nowhere, of_route("chat", 2))
    page = reader.page(f"/usage/?{NOVEMBER}")
    assert [line.partition(" 1 ")[0] for line in lines_of(page)[:2]] == ["chat", "no route"]
    assert [one["name"] for one in figure_of(page)["data"]] == ["chat", "no route"]
    rows = file_of(reader, f"/usage/export.csv?{NOVEMBER}")
    assert sorted(row["name"] for row in rows) == ["chat", "no route"]
    pools = lines_of(reader.page(f"/usage/?{NOVEMBER}&group_by=pool"))
    assert any(line.startswith("no pool 1 ") for line in pools)


def test_beyond_the_largest_groups_the_rest_is_other_and_still_adds_up(reader: Reader) -> None:
    ends = [
        of_route(f"r{place}", place * 100 + number, at_ms=NOON_MS)
        for place in range(1, 10)
        for number in range(place)
    ]
    reader.record(*ends)
    page = reader.page(f"/usage/?{NOVEMBER}&top=4")
    lines = lines_of(page)
    assert [line.split()[0] for line in lines] == ["r9", "r8", "r7", "r6", "Other", "Ledger"]
    assert [line.split()[1] for line in lines[:5]] == ["9", "8", "7", "6", "15"]
    assert "sum of rows 45 " in lines[5]
    drawn = figure_of(reader.page(f"/usage/?{NOVEMBER}&top=20"))["data"]
    assert [trace["name"] for trace in drawn] == [*(f"r{n}" for n in range(9, 2, -1)), "Other"]
    assert [trace["marker"]["color"] for trace in drawn][-2:] == ["--hw-s7", "--hw-s8"]
    assert sum(sum(trace["y"]) for trace in drawn) == 45


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        ("Pacific/Auckland", "24 Nov 2026 1", "25 Nov 2026 1"),
        ("America/Los_Angeles", "23 Nov 2026 1", "24 Nov 2026 1"),
        ("Asia/Kolkata", "24 Nov 2026 2", ""),
    ],
)
def test_days_are_the_zones_own_on_both_sides_of_utc(
    reader: Reader, zone: str, first: str, second: str
) -> None:
    Organisation.objects.filter(pk=reader.organisation.pk).update(time_zone=zone)
    reader.record(
        make_end(1, at_ms=at("2026-11-24T07:30")), make_end(2, at_ms=at("2026-11-24T12:30"))
    )
    page = reader.page(f"/usage/?{NOVEMBER}")
    assert cells_of(page)[: 1 + bool(second)] == [one for one in (first, second) if one]
    assert zone in page
    assert "sum of rows 2" in lines_of(page)[-1]


@pytest.mark.parametrize(
    ("day", "following", "hours"),
    [("2026-03-29", "2026-03-30", 23), ("2026-10-25", "2026-10-26", 25)],
)
def test_a_day_on_which_clocks_change_has_its_own_hours_all_told_apart(
    reader: Reader, day: str, following: str, hours: int
) -> None:
    Organisation.objects.filter(pk=reader.organisation.pk).update(time_zone="Europe/Berlin")
    begin = {23: at("2026-03-28T23:00"), 25: at("2026-10-24T22:00")}[hours]
    reader.record(
        *(
            make_end(number, at_ms=begin + number * HOUR_MS + HOUR_MS // 2)
            for number in range(-1, hours + 1)
        )
    )
    asked = f"from={day}T00:00&to={following}T00:00"
    by_hour = reader.page(f"/usage/?{asked}&bucket=hour")
    assert len(cells_of(by_hour)) == hours
    assert all(row.endswith(" 1") for row in cells_of(by_hour))
    by_day = reader.page(f"/usage/?{asked}&bucket=day")
    assert len(cells_of(by_day)) == 1
    assert cells_of(by_day)[0].endswith(f"2026 {hours}")
    if hours == 25:
        twice = [row for row in cells_of(by_hour) if " 02:00 " in row]
        assert twice == ["25 Oct 02:00 CEST 1", "25 Oct 02:00 CET 1"]


def test_ranges_are_half_open(reader: Reader) -> None:
    reader.record(
        make_end(1, at_ms=at("2026-11-24T12:00")), make_end(2, at_ms=at("2026-11-24T13:00"))
    )
    page = reader.page("/usage/?from=2026-11-24T12:00&to=2026-11-24T13:00")
    assert "sum of rows 1 " in lines_of(page)[-1]
    assert "24 Nov 2026 12:00 to 24 Nov 2026 13:00, end not included" in words_of(page)


def test_every_named_range_can_be_had_by_every_kind_of_group(reader: Reader) -> None:
    for named in ("24h", "7d", "30d", "mtd", "last-month"):
        for group in ("route", "team", "end_user", "none"):
            page = reader.page(f"/usage/?range={named}&group_by={group}")
            assert "No usage in this range" in page
            assert page.count('aria-current="true"') == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("bucket=hour&group_by=tag&range=7d", "Usage by tag is counted by day alone."),
        ("from=2026-11-24T12:00&to=2026-11-24T12:00", "This must be later than"),
        ("from=2020-01-01T00:00&to=2026-11-24T12:00", "at most 400 days"),
        ("group_by=colour", "Select a valid choice"),
        ("from=soon", "Enter a valid date/time"),
    ],
)
def test_a_question_that_cannot_be_answered_is_marked_at_its_field(
    reader: Reader, asked: str, words: str
) -> None:
    page = unescape(reader.page(f"/usage/?{asked}"))
    assert "The question cannot be answered" in page
    assert words in page
    assert "data-figure" not in page


def test_the_page_and_the_api_say_the_same(reader: Reader) -> None:
    reader.record(of_route("chat", 1), of_route("batch", 2), of_route("batch", 3))
    page = reader.page(f"/usage/?{NOVEMBER}&measure=tokens&top=4")
    call = re.search(r"(/api/v1/usage/\?[^']+)'", unescape(page))
    assert call is not None
    document = reader.get(call[1]).json()
    assert document["is_reconciled"] is True
    assert document["total"]["requests"] == 3
    assert document["total"]["cost_nanousd"] == "1461600"
    told = [(row["label"], row["requests"]) for row in document["results"]]
    assert sorted(told) == [("batch", 2), ("chat", 1)]
    assert "$0.00146" in lines_of(page)[-1]


def test_the_file_has_exact_figures_and_computes_nothing(reader: Reader) -> None:
    reader.record(
        of_route("chat", 1),
        make_end(2, origin=make_origin(route_id="rt_evil", route_name="=cmd|' /C calc'!A0")),
    )
    evil, chat = sorted(file_of(reader, f"/usage/export.csv?{NOVEMBER}"), key=lambda r: r["name"])
    assert evil["name"] == "'=cmd|' /C calc'!A0"
    assert chat == {
        "from": "2026-11-24T00:00:00+00:00",
        "time_zone": "UTC",
        "by": "route",
        "id": "rt_chat",
        "name": "chat",
        "requests": "1",
        "errors": "0",
        "attempts": "1",
        "prompt_tokens": "1846",
        "completion_tokens": "182",
        "cached_tokens": "1024",
        "cost_nanousd": "487200",
        "unknown_usage": "0",
        "unknown_cost": "0",
        "cost_usd": "0.0004872",
    }


def test_another_organisations_usage_is_not_there(
    reader: Reader, make_reader: Callable[..., Reader]
) -> None:
    reader.record(make_end(1))
    stranger = make_reader("stranger")
    assert "No usage in this range" in stranger.page(f"/usage/?{NOVEMBER}")
    for path in ("/usage/", "/usage/export.csv", "/me/usage/"):
        asked = f"{path}?{NOVEMBER}&organisation={reader.organisation.pk}"
        assert stranger.get(asked).status_code == 404


@pytest.fixture
def projects(reader: Reader, actor: Actor) -> tuple[Project, Project]:
    """Two projects of two teams."""
    made = []
    for name in ("one", "two"):
        team = create_team(actor, organisation=reader.organisation, name=f"team {name}")
        made.append(create_project(actor, organisation=reader.organisation, team=team, name=name))
    return made[0], made[1]


def in_project(project: Project, number: int) -> Any:
    origin = make_origin(project_id=project.pk, team_id=project.team_id)
    return make_end(number, origin=origin)


def test_a_role_in_a_team_reads_its_projects_alone_by_every_group(
    reader: Reader, projects: tuple[Project, Project], actor: Actor
) -> None:
    one, two = projects
    reader.record(in_project(one, 1), in_project(two, 2), in_project(two, 3))
    user = create_user(actor, username="scoped", password=PASSWORD)
    grant_role(
        actor, subject=user, organisation=reader.organisation, role=Role.VIEWER, team=one.team
    )
    scoped = Reader(Client(), reader.organisation)
    scoped.client.force_login(user)
    for group in ("route", "pool", "model", "project", "team", "none"):
        lines = lines_of(scoped.page(f"/usage/?{NOVEMBER}&group_by={group}"))
        assert "Ledger total = sum of rows 1 " in lines[-1]
        assert two.name not in " ".join(lines).split()
    assert lines_of(scoped.page(f"/me/usage/?{NOVEMBER}"))[0].startswith("one 1 ")


def test_a_role_in_a_project_reads_its_keys_alone(
    reader: Reader, projects: tuple[Project, Project], actor: Actor
) -> None:
    keys = [
        create_key(actor, organisation=reader.organisation, name=one.name, project=one).key
        for one in projects
    ]
    reader.record(
        *(
            make_end(
                place,
                origin=make_origin(
                    project_id=key.project_id,
                    team_id=key.project.team_id,
                    key_id=key.public_id,
                ),
            )
            for place, key in enumerate(keys)
        )
    )
    user = create_user(actor, username="scoped", password=PASSWORD)
    home = {"organisation": reader.organisation, "project": projects[0]}
    grant_role(actor, subject=user, role=Role.VIEWER, **home)
    scoped = Reader(Client(), reader.organisation)
    scoped.client.force_login(user)
    first, total = lines_of(scoped.page(f"/usage/?{NOVEMBER}&group_by=key"))
    assert first.startswith("one 1 ")
    assert total.startswith("Ledger total = sum of rows 1 ")


def test_my_usage_can_be_read_by_somebody_without_any_role(reader: Reader, actor: Actor) -> None:
    client = Client()
    client.force_login(create_user(actor, username="nobody", password=PASSWORD))
    response = client.get("/me/usage/")
    assert response.status_code == 200
    assert b"Your roles reach no project" in response.content
    assert client.get("/usage/").status_code == 403


def test_more_groups_and_days_ask_no_more_of_the_database(
    reader: Reader, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def record(numbers: Iterable[int]) -> None:
        reader.record(*(of_route(f"r{n % 9}", n, at_ms=NOON_MS - n % 20 * DAY_MS) for n in numbers))

    record(range(2))
    reader.page("/usage/")
    with django_assert_num_queries(7) as captured:
        reader.page(f"/usage/?{NOVEMBER}")
    assert not [one for one in captured if '"controlplane_request"' in one["sql"]]
    record(range(2, 60))
    with django_assert_num_queries(7):
        reader.page(f"/usage/?{NOVEMBER}")
    assert UsageDay.objects.filter(dimension="route").count() > 30
