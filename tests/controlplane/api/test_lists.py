"""Lists: a fixed number of queries, newest first, by cursor, filtered."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.api.urls import router
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import newest_revision

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

# token, roles, then the list itself and one query for each kind of part; of keys one for their
# use, of versions one for what they changed
TOMORROW = (timezone.now() + timedelta(days=1)).isoformat()
QUERIES = {
    "organisations": 3,
    "teams": 3,
    "projects": 3,
    "models": 3,
    # their versions
    "prices": 4,
    "pools": 3,
    "routes": 4,
    "keys": 6,
    # the names of what they are about
    "limits": 4,
    "budgets": 4,
    "caches": 3,
    # the names of policies
    "purges": 4,
    "switches": 4,
    # channels, and the names of what they watch
    "alert-rules": 6,
    "channels": 3,
    "silences": 3,
    "deliveries": 3,
    "alerts": 3,
    "snapshots": 4,
    "audit": 3,
}


@pytest.fixture(scope="module")
def many(make_standing_caller: Callable[..., Caller]) -> Caller:
    """Several of everything, with several parts each."""
    admin = make_standing_caller("admin")
    for number in range(3):
        admin.made("/teams/", {"name": f"team {number}"})
        admin.made("/projects/", {"name": f"project {number}", "team": f"team {number}"})
        admin.made("/pools/", {**POOL, "name": f"pool-{number}", "model": f"model-{number}"})
        price = {"input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
        admin.made("/prices/", {"model": f"model-{number}", **price})
    targets = [{"pool": f"pool-{number}", "weight": 1} for number in range(3)]
    for number in range(3):
        admin.made("/routes/", {"name": f"route-{number}", "targets": targets})
    for number in range(3):
        told = {"name": f"key {number}", "routes": ["route-0", "route-1"]}
        key = admin.made("/keys/", told)
        admin.post(f"/keys/{key['id']}/rotate/")
        switch = {"subject": "key", "subject_id": key["id"]}
        limit = {"name": f"limit {number}", **switch}
        channel = {"name": f"channel {number}", "kind": "email", "recipients": ["a@example.com"]}
        admin.made("/channels/", channel)
        admin.made("/deliveries/", {"channel": channel["name"]})
        rule = {"name": f"rule {number}", "kind": "pool_down", "scope": "pool"}
        rule |= {"scope_id": f"pool-{number}", "channels": [channel["name"]]}
        admin.made("/alert-rules/", rule)
        admin.made("/silences/", {"rule": rule["name"], "reason": "works", "ends_at": TOMORROW})
        admin.made("/limits/", {**limit, "unit": "requests", "window": "minute", "amount": 1})
        admin.made("/switches/", switch)
        cache = admin.made("/caches/", {"name": f"cache {number}"})
        admin.made("/purges/", {"kind": "policy", "value": cache["id"]})
        budget = {"name": f"budget {number}", "scopes": [switch], "amount_nanousd": "1"}
        admin.made("/budgets/", {**budget, "period": "day"})
    return admin


SEARCHED = [
    noun
    for noun, view, _ in router.registry
    if "search" in getattr(getattr(view, "filterset_class", None), "base_filters", ())
]


@pytest.mark.parametrize("noun", SEARCHED)
def test_every_list_that_has_a_search_can_be_searched(many: Caller, noun: str) -> None:
    asked = many.get(f"/{noun}/?search=nothing-is-called-this")
    assert (asked.status_code, asked.json()["results"]) == (200, [])


@pytest.mark.parametrize("noun", QUERIES)
def test_a_list_takes_the_same_few_queries_however_long_it_is(noun: str, many: Caller) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = many.get(f"/{noun}/")
    assert response.status_code == 200
    assert len(queries) == QUERIES[noun], [one["sql"] for one in queries]


def test_pages_go_from_newest_to_oldest_without_gap_or_repeat(many: Caller) -> None:
    seen: list[str] = []
    path = "/audit/?page_size=7"
    while path:
        page = many.get(path).json()
        seen += [row["id"] for row in page["results"]]
        path = (page["next"] or "").partition("/api/v1")[2]
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(set(seen)) > 20


def test_rows_made_while_paging_repeat_nothing(admin: Caller) -> None:
    for number in range(4):
        admin.made("/teams/", {"name": f"team {number}"})
    first = admin.get("/teams/?page_size=2").json()
    admin.made("/teams/", {"name": "late"})
    second = admin.get(first["next"].partition("/api/v1")[2]).json()
    names = [row["name"] for row in first["results"] + second["results"]]
    assert names == ["team 3", "team 2", "team 1", "team 0"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("/pools/?name=pool-1", ["pool-1"]),
        ("/pools/?power=stopped", []),
        ("/routes/?is_enabled=true&page_size=1", ["route-2"]),
        ("/routes/?strategy=weighted", []),
        ("/keys/?is_revoked=true", []),
        ("/models/?task=generate&name=model-0", ["model-0"]),
        ("/teams/?name=team 2", ["team 2"]),
    ],
)
def test_filters_keep_what_matches(query: str, names: list[str], many: Caller) -> None:
    results = many.get(query).json()["results"]
    assert [row["name"] for row in results] == names


def test_a_parameter_nobody_knows_is_refused(admin: Caller) -> None:
    response = admin.get("/pools/?nmae=mine")
    assert response.status_code == 400
    assert response.json()["fields"] == {"nmae": ["There is no such parameter."]}


def test_references_are_filtered_by_id_and_tell_nothing_of_others(
    many: Caller, make_caller: Callable[..., Caller]
) -> None:
    model = many.get("/models/?name=model-1").json()["results"][0]["id"]
    pools = many.get(f"/pools/?model={model}").json()["results"]
    assert [row["name"] for row in pools] == ["pool-1"]
    stranger = make_caller("admin")
    for value in (model, "mdl_nowhere"):
        response = stranger.get(f"/pools/?model={value}")
        assert (response.status_code, response.json()["results"]) == (200, [])


def test_a_filter_value_that_is_no_choice_is_refused(admin: Caller) -> None:
    response = admin.get("/pools/?power=sideways")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["power"]


def test_the_audit_trail_is_filtered_by_time_and_object(
    admin: Caller, route: dict[str, Any]
) -> None:
    entries = admin.get(f"/audit/?noun=routes&object_id={route['id']}").json()["results"]
    assert [(one["action"], one["noun"]) for one in entries] == [("create", "routes")]
    at = entries[0]["at"]
    assert admin.get(f"/audit/?to={at}&noun=routes").json()["results"] == []
    assert admin.get(f"/audit/?from={at}&noun=routes").json()["results"] == entries


def test_times_are_rfc_3339_in_utc(admin: Caller) -> None:
    team = admin.made("/teams/", {"name": "t"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", team["created_at"])


def test_versions_of_the_configuration_are_told_newest_first(
    admin: Caller, route: dict[str, Any]
) -> None:
    results = admin.get("/snapshots/").json()["results"]
    newest = newest_revision().version
    assert [row["version"] for row in results] == [newest, newest - 1, newest - 2]
    assert results[0]["reason"] == f"create routes {route['id']}"
    assert ROUTE["name"] == "chat"


def test_lists_are_ordered_by_name_and_paged_without_a_gap(admin: Caller) -> None:
    for name in ("delta", "alpha", "charlie", "bravo"):
        admin.made("/teams/", {"name": name})
    seen: list[str] = []
    path = "/teams/?page_size=2&ordering=name"
    while path:
        page = admin.get(path).json()
        seen += [row["name"] for row in page["results"]]
        path = (page["next"] or "").partition("/api/v1")[2]
    assert seen == sorted(seen)
    assert {"alpha", "bravo", "charlie", "delta"} <= set(seen)
    response = admin.get("/teams/?ordering=secret")
    assert (response.status_code, list(response.json()["fields"])) == (400, ["ordering"])
    oldest = admin.get("/audit/?ordering=id&page_size=1").json()["results"][0]["id"]
    assert oldest < admin.get("/audit/?page_size=1").json()["results"][0]["id"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("/pools/?search=OOL-1", ["pool-1"]),
        ("/pools/?model=model-1", ["pool-1"]),
        ("/routes/?pool=pool-3", []),
        ("/models/?is_priced=false", []),
        ("/keys/?is_enabled=true&search=nobody", []),
    ],
)
def test_names_are_searched_and_references_named(
    query: str, names: list[str], many: Caller
) -> None:
    assert [row["name"] for row in many.get(query).json()["results"]] == names


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("/routes/?is_enabled=banana", "is_enabled"),
        ("/snapshots/?version=none", "version"),
        ("/audit/?from=yesterday", "from"),
        ("/pools/?search=%00", "search"),
    ],
)
def test_a_filter_value_that_means_nothing_is_refused(
    query: str, field: str, admin: Caller
) -> None:
    response = admin.get(query)
    assert (response.status_code, list(response.json()["fields"])) == (400, [field])


def test_a_search_finds_ids_of_every_kind(admin: Caller, route: dict[str, Any]) -> None:
    found = admin.get(f"/routes/?search={route['id']}").json()["results"]
    assert [row["id"] for row in found] == [route["id"]]
    assert admin.get("/audit/?search=99999999999999999999").json()["results"] == []
    entry = admin.get("/audit/?page_size=1").json()["results"][0]
    assert entry in admin.get(f"/audit/?search={entry['id']}").json()["results"]
