"""The spend page: a month down to its requests, with the figures of the API."""

import json
from html import unescape

import pytest

from controlplane.models import Organisation
from tests.controlplane.api.test_spend import charged
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_request_pages import words_of

pytestmark = pytest.mark.slow


def figures_of(page: str) -> list[dict[str, object]]:
    return [
        json.loads(unescape(part.partition('"')[0])) for part in page.split('data-figure="')[1:]
    ]


def test_a_month_leads_to_a_day_to_an_hour_to_its_requests(reader: Reader) -> None:
    Organisation.objects.filter(pk=reader.organisation.pk).update(time_zone="Asia/Kolkata")
    reader.record(
        charged(1, "2026-11-09T20:00", 10**9, project_id="proj_a"),
        charged(2, "2026-11-10T12:00", 2 * 10**9, project_id="proj_b"),
    )
    page = reader.page("/spend/?month=2026-11")
    words = words_of(page)
    assert "November 2026" in words
    assert "Asia/Kolkata" in words
    assert "$3.00 spent" in words
    assert "/spend/?month=2026-11&day=2026-11-10#hours" in unescape(page)
    assert len(figures_of(page)) == 2
    page = reader.page("/spend/?month=2026-11&day=2026-11-10")
    assert len(figures_of(page)) == 3
    hour = "/requests/?from=2026-11-10T01%3A00&to=2026-11-10T02%3A00"
    assert hour in unescape(page)
    found = reader.page(hour)
    assert "req_00000000000000000000000001" in found
    assert "req_00000000000000000000000002" not in found


def test_days_out_of_the_ordinary_are_marked_in_words_and_picture(reader: Reader) -> None:
    ends = [charged(day, f"2026-11-{day:02}T12:00", 10**9) for day in range(1, 20)]
    reader.record(*ends, charged(20, "2026-11-20T12:00", 9 * 10**9))
    page = reader.page("/spend/?month=2026-11")
    assert "above the usual $1.00" in words_of(page)
    dots = [one for one in figures_of(page)[1]["data"] if one["name"] == "out of the ordinary"]
    assert [one["x"] for one in dots] == [["2026-11-20T12:00", *dots[0]["x"][1:]]]


@pytest.mark.parametrize("group", ["tag", "end_user", "key", "team", "none"])
def test_every_group_has_a_page_by_day_and_hour(reader: Reader, group: str) -> None:
    reader.record(charged(1, "2026-11-10T12:00", 10**9, tags=("a", "b"), end_user="ann"))
    page = reader.page(f"/spend/?month=2026-11&group_by={group}&day=2026-11-10")
    assert "Ledger total = sum of rows" in page
    assert "10 Nov 12:00 UTC" in page


def test_a_month_without_usage_and_one_that_is_none_say_so(reader: Reader) -> None:
    assert "Nothing was used in May 2020" in reader.page("/spend/?month=2020-05")
    assert "Give a month as 2026-11." in reader.page("/spend/?month=soon")
