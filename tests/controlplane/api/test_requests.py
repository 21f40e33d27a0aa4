"""The ledger by REST."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.services.usage import record_usage
from inference.contract.events import End, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome, PriorityClass, TaskClass
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON, NOON_MS, make_charge, make_end, make_origin

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


def record(caller: Caller, *ends: End) -> None:
    """Record ends as the caller's organisation's."""
    mine = [
        replace(end, origin=replace(end.origin, organisation_id=caller.organisation.pk))
        for end in ends
    ]
    record_usage(mine, now=NOON)


def ids_of(document: Any) -> list[int]:
    return [int(row["id"].removeprefix("req_")) for row in document["results"]]


def test_a_request_shows_what_the_ledger_holds(admin: Caller) -> None:
    record(admin, make_end(1))
    (row,) = admin.get("/requests/").json()["results"]
    assert row["id"] == f"req_{1:026d}"
    assert row["at"] == "2026-11-24T12:00:00.412000Z"
    assert (row["prompt_tokens"], row["completion_tokens"]) == (1_846, 182)
    assert (row["cost_nanousd"], row["cost_max_nanousd"]) == ("487200", "487200")
    assert (row["route_name"], row["worker_id"], row["first_token_ms"]) == (
        "chat-default",
        "pool_1-0",
        250.8,
    )
    assert "decision" not in row
    # events have a key's id as it stands in its text; a key's own row, and this, as ids are
    assert row["key_id"] == "key_01jdkey00000000000000000a"


def test_one_request_comes_with_its_charges_and_decision(admin: Caller) -> None:
    failed = make_charge(
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        cost_nanousd=0,
        cost_max_nanousd=9_007_199_254_740_993,
    )
    record(admin, make_end(1, charges=(failed, make_charge(attempt=2))))
    found = admin.get(f"/requests/req_{1:026d}/").json()
    assert [charge["attempt"] for charge in found["charges"]] == [1, 2]
    assert found["charges"][0]["prompt_tokens"] is None
    assert found["charges"][0]["cost_max_nanousd"] == "9007199254740993"
    assert found["charges"][1]["input_nanousd_per_mtok"] == "300000000"
    assert found["decision"] == make_end().decision
    assert (found["lineage"], found["version"]) == ("01jd", 41)


def test_what_nobody_knows_of_a_lost_gateway_is_null(admin: Caller) -> None:
    charge = make_charge(
        kind=ChargeKind.ESTIMATED, usage=Usage(), duration_ms=0.0, http_status=None
    )
    lost = Outcome.LOST_GATEWAY
    record(admin, make_end(1, charges=(charge,), outcome=lost, http_status=0, total_ms=0.0))
    (row,) = admin.get("/requests/").json()["results"]
    assert (row["outcome"], row["http_status"], row["total_ms"]) == ("lost_gateway", None, None)
    found = admin.get(f"/requests/req_{1:026d}/").json()
    assert (found["http_status"], found["total_ms"]) == (None, None)
    assert found["charges"][0]["duration_ms"] is None


def test_pages_follow_one_another_newest_first_without_gap_or_repeat(admin: Caller) -> None:
    ends = [make_end(n, at_ms=NOON_MS + (n // 3) * 1_000) for n in range(1, 24)]
    record(admin, *ends)
    seen: list[int] = []
    path = "/requests/?page_size=5"
    while path:
        page = admin.get(path).json()
        seen += ids_of(page)
        assert page["previous"] is None
        path = (page["next"] or "").partition("/api/v1")[2]
    assert seen == list(range(23, 0, -1))


@pytest.mark.parametrize(
    "cursor", ["x", "%00", "bm90aGluZw", "MjAyNi0xMS0yNFQxMjowMDowMC4gAA", "é", "====="]
)
def test_what_is_no_cursor_is_said_to_be_none(admin: Caller, cursor: str) -> None:
    response = admin.get(f"/requests/?cursor={cursor}")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["cursor"]


@pytest.fixture
def varied(admin: Caller) -> Caller:
    """Four requests: ordinary, dear elsewhere, refused without a route, and one without price."""
    other = make_origin(
        route_id="rt_2", route_name="batch", project_id="proj_2", key_id="01jdkey2",
        endpoint=Endpoint.EMBEDDINGS, is_stream=False, end_user="ann", tags=("gold", "x"),
        priority=PriorityClass.BATCH, task=TaskClass.CODE, rule_id="rule_1",
    )  # fmt: skip
    dear = make_charge(pool_id="pool_2", model_id="mdl_2", cost_nanousd=2_000_000_000)
    unpriced = make_charge(price=None, cost_nanousd=None, cost_max_nanousd=None)
    refused = make_origin(route_id=None, route_name=None, requested_model="nonsense")
    record(
        admin,
        make_end(1, at_ms=NOON_MS),
        make_end(2, at_ms=NOON_MS + 1_000, origin=other, charges=(dear,)),
        make_end(
            3, at_ms=NOON_MS + 2_000, origin=refused, charges=(), outcome=Outcome.REFUSED,
            client_request_id="theirs-3", error_code="budget_exceeded", http_status=429,
        ),
        make_end(4, at_ms=NOON_MS + 3_000, charges=(unpriced,)),
    )  # fmt: skip
    return admin


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [4, 3, 2, 1]),
        ("route=batch", [2]),
        ("route=rt_1", [4, 1]),
        ("pool=pool_2", [2]),
        ("model=mdl_2", [2]),
        ("model=nonsense", [3]),
        ("project=proj_2", [2]),
        ("key=01jdkey2", [2]),
        ("key=hw_01jdkey2.the-secret-part", [2]),
        ("key=key_01jdkey2", [2]),
        ("outcome=refused", [3]),
        ("reason=budget", [3]),
        ("reason=limit", []),
        ("endpoint=embeddings", [2]),
        ("end_user=ann", [2]),
        ("tag=x", [2]),
        ("tag=gol", []),
        ("priority=batch", [2]),
        ("task=code", [2]),
        ("rule=rule_1", [2]),
        ("endpoint=chat", [4, 3, 1]),
        ("min_cost=0", [3, 2, 1]),
        ("min_cost=0.0004872", [2, 1]),
        ("min_cost=0.000487201", [2]),
        ("from=2026-11-24T12:00:01.412Z", [4, 3, 2]),
        ("to=2026-11-24T12:00:01.412Z", [1]),
        ("from=2026-11-24T13:00:01.412%2B01:00&to=2026-11-24T12:00:03.412Z", [3, 2]),
        ("id=theirs-3", [3]),
        (f"id=req_{4:026d}", [4]),
        ("route=chat-default&min_cost=0.0001", [1]),
        ("route=", [4, 3, 2, 1]),
    ],
)
def test_filters_narrow_the_list(varied: Caller, query: str, expected: list[int]) -> None:
    assert ids_of(varied.get(f"/requests/?{query}").json()) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("outcome=wrong", "outcome"),
        ("endpoint=nowhere", "endpoint"),
        ("priority=urgent", "priority"),
        ("min_cost=-1", "min_cost"),
        ("min_cost=much", "min_cost"),
        ("min_cost=NaN", "min_cost"),
        ("min_cost=1e99", "min_cost"),
        ("from=yesterday", "from"),
        ("from=0001-01-01T00:00:00%2B14:00", "from"),
        ("to=9999-12-31T23:59:59-14:00", "to"),
        ("last=forever", "last"),
        ("route=%00", "route"),
        (f"id={'x' * 501}", "id"),
        ("organisation=nobody", "organisation"),
        ("organisation=%00", "organisation"),
    ],
)
def test_filters_that_make_no_sense_are_named(varied: Caller, query: str, field: str) -> None:
    response = varied.get(f"/requests/?{query}")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]


def test_a_stranger_sees_none_of_it(varied: Caller, make_caller: Callable[..., Caller]) -> None:
    stranger = make_caller("admin")
    assert stranger.get("/requests/").json()["results"] == []
    assert stranger.get(f"/requests/req_{1:026d}/").status_code == 404
    asked = stranger.get(f"/requests/?organisation={varied.organisation.pk}")
    assert asked.status_code == 400
    asked = stranger.get(f"/requests/req_{1:026d}/?organisation={varied.organisation.pk}")
    assert asked.status_code == 400


@pytest.mark.parametrize("role", ["viewer", "operator", "finance"])
def test_every_role_reads_the_ledger(
    varied: Caller, make_caller: Callable[..., Caller], role: str
) -> None:
    reader = make_caller(role, varied.organisation)
    assert len(reader.get("/requests/").json()["results"]) == 4


def test_no_role_and_no_token_read_nothing(make_caller: Callable[..., Caller]) -> None:
    nobody = make_caller("none")
    assert nobody.get("/requests/").status_code == 403
    nobody.token = "hwt_wrong"
    assert nobody.get("/requests/").status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nobody_changes_the_ledger_by_rest(varied: Caller, method: str) -> None:
    for path in ("/requests/", f"/requests/req_{1:026d}/", "/usage/"):
        assert varied.call(method, path, {}).status_code == 405
