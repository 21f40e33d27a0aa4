"""Usage by REST: sums by time and group."""

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.models import Organisation
from tests.controlplane.api.test_requests import record
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON_MS, make_charge, make_end, make_origin

HOUR_MS = 3_600_000
DAY = "from=2026-11-24T00:00:00Z&to=2026-11-25T00:00:00Z"


@pytest.fixture
def used(admin: Caller) -> Caller:
    """Three requests at 12:00 of two routes, one at 14:30 without a price."""
    batch = make_origin(route_id="rt_2", route_name="batch", team_id="team_2")
    unpriced = make_charge(price=None, cost_nanousd=None, cost_max_nanousd=None)
    record(
        admin,
        make_end(1),
        make_end(2),
        make_end(3, at_ms=NOON_MS + 60_000, origin=batch),
        make_end(4, at_ms=NOON_MS + 2 * HOUR_MS + HOUR_MS // 2, charges=(unpriced,)),
    )
    return admin


def told(document: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in document["results"]]


def test_hours_sum_requests_tokens_and_cost(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}").json()
    assert (document["bucket"], document["group_by"], document["time_zone"]) == (
        "hour",
        None,
        "UTC",
    )
    assert document["results"][0] == {
        "at": "2026-11-24T12:00:00Z",
        "value": None,
        "label": "All",
        "requests": 3,
        "errors": 0,
        "attempts": 3,
        "prompt_tokens": 5_538,
        "completion_tokens": 546,
        "cached_tokens": 3_072,
        "cost_nanousd": "1461600",
        "unknown_usage": 0,
        "unknown_cost": 0,
    }
    assert told(document, "at", "requests", "cost_nanousd", "unknown_cost")[1:] == [
        ("2026-11-24T14:00:00Z", 1, "0", 1)
    ]


def test_minutes_and_groups_carry_names(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=minute&group_by=route").json()
    assert told(document, "at", "value", "label", "requests") == [
        ("2026-11-24T12:00:00Z", "rt_1", "chat-default", 2),
        ("2026-11-24T12:01:00Z", "rt_2", "batch", 1),
        ("2026-11-24T14:30:00Z", "rt_1", "chat-default", 1),
    ]


def test_groups_beyond_the_largest_are_summed_as_one(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=day&group_by=route&top=1").json()
    assert told(document, "value", "label", "requests") == [
        ("rt_1", "chat-default", 3),
        (None, "Other", 1),
    ]


def test_days_are_those_of_the_organisations_zone(used: Caller) -> None:
    Organisation.objects.filter(pk=used.organisation.pk).update(time_zone="Asia/Kolkata")
    late = make_end(5, at_ms=NOON_MS + 7 * HOUR_MS)
    record(used, late)
    query = "from=2026-11-23T18:30:00Z&to=2026-11-25T18:30:00Z&bucket=day"
    document = used.get(f"/usage/?{query}").json()
    assert document["time_zone"] == "Asia/Kolkata"
    assert [row["requests"] for row in document["results"]] == [4, 1]
    assert told(document, "at") == [
        ("2026-11-23T18:30:00Z",),
        ("2026-11-24T18:30:00Z",),
    ]


def test_teams_and_keys_are_counted_by_utc_day(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=day&group_by=team").json()
    assert document["time_zone"] == "UTC"
    assert told(document, "at", "value", "requests", "cost_nanousd") == [
        ("2026-11-24T00:00:00Z", "team_1", 3, "974400"),
        ("2026-11-24T00:00:00Z", "team_2", 1, "487200"),
    ]


def test_keys_are_told_by_the_ids_their_rows_have(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=day&group_by=key").json()
    assert told(document, "value", "requests") == [("key_01jdkey00000000000000000a", 4)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("bucket=week", "bucket"),
        ("group_by=colour", "group_by"),
        ("group_by=key", "bucket"),
        ("top=0", "top"),
        ("from=2026-11-24T00:00:00Z&to=2026-11-24T00:00:00Z", "to"),
        ("bucket=minute&from=2026-11-22T00:00:00Z&to=2026-11-24T00:00:00Z", "from"),
        ("from=0001-01-01T00:00:00Z", "from"),
        ("to=soon", "to"),
    ],
)
def test_questions_that_cannot_be_answered_name_the_field(
    used: Caller, query: str, field: str
) -> None:
    response = used.get(f"/usage/?{query}")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]


def test_a_stranger_has_used_nothing(used: Caller, make_caller: Callable[..., Caller]) -> None:
    stranger = make_caller("admin")
    assert stranger.get(f"/usage/?{DAY}").json()["results"] == []
    asked = stranger.get(f"/usage/?{DAY}&organisation={used.organisation.pk}")
    assert asked.status_code == 400


@pytest.mark.parametrize("path", ["/usage/", "/requests/"])
def test_a_parameter_nobody_knows_is_refused_and_lists_nothing(used: Caller, path: str) -> None:
    response = used.get(f"{path}?rout=chat")
    assert response.status_code == 400
    assert response.json()["fields"] == {"rout": ["There is no such parameter."]}


@pytest.mark.parametrize("path", ["/usage/", "/requests/"])
def test_the_organisation_may_be_named(used: Caller, path: str) -> None:
    assert used.get(f"{path}?organisation={used.organisation.pk}").status_code == 200


@pytest.mark.parametrize("asked", ["rt_2", "batch"])
def test_usage_of_one_route_is_had_by_id_or_name_and_with_groups(used: Caller, asked: str) -> None:
    document = used.get(f"/usage/?{DAY}&route={asked}&group_by=pool").json()
    assert told(document, "at", "value", "requests") == [("2026-11-24T12:00:00Z", "pool_1", 1)]
    assert (document["total"]["requests"], document["is_reconciled"]) == (1, True)


def test_filters_hold_together_and_by_whole_days_too(used: Caller) -> None:
    query = f"{DAY}&bucket=day&group_by=team"
    assert told(used.get(f"/usage/?{query}&route=rt_1").json(), "value", "requests") == [
        ("", 3)  # its project is gone, and nobody keeps which team that was in
    ]
    assert used.get(f"/usage/?{query}&route=rt_1&pool=none").json()["results"] == []


def test_usage_by_key_is_counted_whole(used: Caller) -> None:
    response = used.get(f"/usage/?{DAY}&bucket=day&group_by=key&route=rt_1")
    assert (response.status_code, list(response.json()["fields"])) == (400, ["group_by"])
