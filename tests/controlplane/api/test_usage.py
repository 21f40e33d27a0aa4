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


def test_teams_are_counted_by_day(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=day&group_by=team").json()
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
        (f"group_by=key&bucket=minute&{DAY}", "bucket"),
        ("group_by=tag", "bucket"),
        ("group_by=end_user&bucket=day&route=rt_1", "group_by"),
        ("top=0", "top"),
        ("from=2026-11-24T00:00:00Z&to=2026-11-24T00:00:00Z", "to"),
        ("bucket=minute&from=2026-11-22T00:00:00Z&to=2026-11-24T00:00:00Z", "from"),
        ("bucket=hour&route=rt_1&range=30d", "from"),
        ("bucket=hour&group_by=pool&model=mdl_1&range=30d", "from"),
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


def test_keys_are_told_by_hour_too(used: Caller) -> None:
    document = used.get(f"/usage/?{DAY}&bucket=hour&group_by=key").json()
    key = "key_01jdkey00000000000000000a"
    assert told(document, "at", "value", "requests") == [
        ("2026-11-24T12:00:00Z", key, 3),
        ("2026-11-24T14:00:00Z", key, 1),
    ]
    assert document["is_reconciled"] is True


@pytest.fixture
def tagged(used: Caller) -> Caller:
    """Beside four without: one request of two tags, one of one, both of an end user."""
    both = make_origin(tags=("batch", "nightly"), end_user="ann")
    one = make_origin(tags=("batch",), end_user="ann", project_id="proj_2")
    record(used, make_end(11, origin=both), make_end(12, origin=one))
    return used


def test_tags_add_up_to_the_total_though_requests_have_several(tagged: Caller) -> None:
    document = tagged.get(f"/usage/?{DAY}&bucket=day&group_by=tag").json()
    assert told(document, "value", "label", "requests", "cost_nanousd") == [
        ("", "None", 4, "1461600"),
        ("(several)", "counted under several tags", -1, "-487200"),
        ("batch", "batch", 2, "974400"),
        ("nightly", "nightly", 1, "487200"),
    ]
    assert (document["total"]["requests"], document["is_reconciled"]) == (6, True)
    alone = tagged.get(f"/usage/?{DAY}&bucket=day&group_by=tag&top=1").json()
    assert told(alone, "value", "requests")[-1] == (None, 1)


def test_end_users_are_told_by_project_too(tagged: Caller) -> None:
    document = tagged.get(f"/usage/?{DAY}&bucket=day&group_by=end_user&project=proj_2").json()
    assert told(document, "value", "requests") == [("ann", 1)]
    assert (document["total"]["requests"], document["is_reconciled"]) == (1, True)


def test_beyond_the_cap_of_a_key_end_users_are_summed_as_others(
    used: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.selectors.usage_recording.MOST_NAMED", 2)
    for number in range(20, 26):
        record(used, make_end(number, origin=make_origin(end_user=f"user-{number % 3}")))
    document = used.get(f"/usage/?{DAY}&bucket=day&group_by=end_user").json()
    assert told(document, "value", "requests") == [
        ("", 4),
        ("user-0", 2),
        ("user-2", 2),
        (None, 2),
    ]
    assert document["is_reconciled"] is True


def test_a_new_time_zone_tells_the_days_before_it_anew(used: Caller) -> None:
    record(used, make_end(7, at_ms=NOON_MS + 11 * HOUR_MS))
    path = f"/organisations/{used.organisation.pk}/"
    response = used.patch(path, {"time_zone": "Europe/Berlin"})
    assert response.status_code == 200, response.content
    query = "from=2026-11-23T23:00:00Z&to=2026-11-25T23:00:00Z&bucket=day&group_by=route"
    document = used.get(f"/usage/?{query}").json()
    assert told(document, "at", "label", "requests") == [
        ("2026-11-23T23:00:00Z", "chat-default", 3),
        ("2026-11-23T23:00:00Z", "batch", 1),
        ("2026-11-24T23:00:00Z", "chat-default", 1),
    ]
    assert document["is_reconciled"] is True


def test_usage_by_key_is_counted_whole(used: Caller) -> None:
    response = used.get(f"/usage/?{DAY}&bucket=day&group_by=key&route=rt_1")
    assert (response.status_code, list(response.json()["fields"])) == (400, ["group_by"])
