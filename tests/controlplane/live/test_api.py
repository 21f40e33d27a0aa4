"""Live figures and gateways by REST."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis

from inference.contract.vitals import Applied
from tests.controlplane.conftest import Caller
from tests.controlplane.live.facts import (
    child,
    gauges,
    histogram,
    sampled,
    supervisor,
    traffic,
)
from tests.controlplane.live.test_propagation import child as serving
from tests.controlplane.live.test_propagation import publish, write

pytestmark = pytest.mark.slow

AT_NOON = "until=2026-11-24T12:00:05Z"


@pytest.fixture
def busy(admin: Caller, pool: Any) -> str:
    """A pool with traffic in the first seconds after noon; its id."""
    pool_id: str = pool["id"]
    bucket = traffic(
        0,
        admin.organisation.pk,
        pool_id,
        requests=10,
        failures={"timeout": 1},
        cost_nanousd=2**54,
        cached={"hit": 3, "miss": 1, "bypass": 2},
        first_token_ms=histogram(*[100.0] * 4),
    )
    sampled(
        4.0,
        child("a/0", bucket, written_s=4.0),
        supervisor(gauges(f"{pool_id}-0", 3.0, running=2), written_s=4.0),
    )
    return pool_id


def test_live_figures_are_told_whole(admin: Caller, busy: str) -> None:
    response = admin.get(f"/live/?window=5m&{AT_NOON}")
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    told = response.json()
    assert (told["from"], told["to"], told["bucket_s"]) == (
        "2026-11-24T11:56:00Z",
        "2026-11-24T12:01:00Z",
        60,
    )
    assert told["coverage"] == {
        "live": 2,
        "seen": 2,
        "missing": [],
        "as_of": "2026-11-24T12:00:04Z",
    }
    assert (told["at"][-1], len(told["at"])) == ("2026-11-24T12:00:00Z", 5)
    last = {name: values[-1] for name, values in told["total"].items() if isinstance(values, list)}
    assert last == {
        "requests": 10,
        "requests_per_s": 2.5,
        "failure_share": 0.1,
        "prompt_tokens_per_s": 0,
        "completion_tokens_per_s": 0,
        "cost_nanousd_per_hour": str(2**54 * 900),
        # what was passed over is no part of it
        "cache_hit_share": 0.75,
    }
    assert told["total"]["failures"] == {"timeout": [None, None, None, 0, 1]}
    assert told["total"]["first_token_ms"]["p95"][-1] is None
    assert told["total"]["first_token_ms"]["p50"][-1] == pytest.approx(100, rel=0.025)
    assert [(one["id"], one["label"]) for one in told["pools"]] == [(busy, "mine")]
    assert [(one["id"], one["running"][-1]) for one in told["workers"]] == [(f"{busy}-0", 2)]
    assert (told["summary"]["samples"], told["summary"]["running"]) == (4, 2)
    assert [one["id"] for one in told["pool_summaries"]] == [busy]
    assert told["summary"]["cache_hit_share"] == 0.75
    assert (told["month_to_date_nanousd"], told["saved_today_nanousd"]) == ("0", "0")


def test_what_has_no_price_costs_nobody_knows_what_and_with_one_nothing(
    admin: Caller, pool: Any
) -> None:
    """A price of idle pools is 0; without one it is null, for each pool and for all."""
    sampled(4.0, child("a/0", written_s=4.0))
    for price in (None, "0"):
        if price is not None:
            told = {name: "5" for name in ("input_nanousd_per_mtok", "output_nanousd_per_mtok")}
            admin.made("/prices/", {"model": pool["model"], **told})
        for asked in (f"/live/?window=5m&{AT_NOON}", f"/live/?window=5m&{AT_NOON}&pool=mine"):
            told = admin.get(asked).json()
            assert told["summary"]["requests_per_s"] == 0
            assert told["summary"]["cost_nanousd_per_hour"] == price
            assert told["pool_summaries"][0]["cost_nanousd_per_hour"] == price
            for series in (told["total"], *told["pools"]):
                assert series["cost_nanousd_per_hour"][-1] == price


def test_one_pool_is_asked_for_by_name_or_id(admin: Caller, busy: str) -> None:
    for asked in ("mine", busy):
        told = admin.get(f"/live/?{AT_NOON}&pool={asked}").json()
        assert (told["pool_id"], told["month_to_date_nanousd"]) == (busy, None)


def test_one_route_is_asked_for_by_name_or_id(
    admin: Caller, busy: str, make_caller: Callable[..., Caller]
) -> None:
    document = {"name": "chat", "targets": [{"pool": busy, "weight": 1}]}
    route = admin.made("/routes/", document)["id"]
    for asked in ("chat", route):
        told = admin.get(f"/live/?{AT_NOON}&route={asked}").json()
        assert (told["route_id"], told["pool_id"]) == (route, None)
        assert [one["label"] for one in told["pools"]] == ["mine"]
        assert told["total"]["requests"][-1] == 0
    assert admin.get(f"/live/?{AT_NOON}").json()["route_id"] is None
    assert admin.get("/live/?route=nobody").status_code == 404
    assert make_caller("admin").get(f"/live/?route={route}").status_code == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pool=mine&route=chat", "route"),
        ("window=2y", "window"),
        ("until=soon", "until"),
        ("until=0001-01-01T00:00:00Z", "until"),
        ("pool=%00", "pool"),
        ("windw=5m", "windw"),
    ],
)
def test_questions_that_cannot_be_answered_name_the_field(
    admin: Caller, query: str, field: str
) -> None:
    response = admin.get(f"/live/?{query}")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]


def test_a_pool_of_others_is_not_found_and_neither_is_its_traffic(
    admin: Caller, busy: str, make_caller: Callable[..., Caller]
) -> None:
    stranger = make_caller("admin")
    assert stranger.get(f"/live/?pool={busy}").status_code == 404
    told = stranger.get(f"/live/?window=5m&{AT_NOON}")
    assert busy not in told.content.decode()
    assert told.json()["total"]["requests"][-1] == 0


def test_a_role_of_one_team_sees_no_live_figures_and_of_gateways_how_many(
    narrow: Caller, state_store: Redis
) -> None:
    assert narrow.get("/live/").status_code == 403
    told = narrow.get("/gateways/").json()
    assert (told["seen"], told["live"], told["applied"], told["gateways"]) == (0, 0, 0, None)


def test_who_runs_what_is_told(admin: Caller, state_store: Redis) -> None:
    now = datetime.now(UTC)
    publish(state_store)
    refused = Applied("00", 6, refused_version=7, refused_why="pools.pool_of_others.model: bad")
    write(state_store, serving("a/0", now), serving("b/0", now, applied=refused))
    told = admin.get("/gateways/").json()
    assert [told[name] for name in ("lineage", "version", "seen", "live", "applied")] == [
        *("00", 7),
        *(2, 2, 1),
    ]
    second = told["gateways"][1]
    assert second.pop("as_of").startswith(f"{now:%Y-%m-%d}")
    assert second == {
        "name": "b",
        "is_live": True,
        "is_applied": False,
        "children_live": 1,
        "children_seen": 1,
        "lineage": "00",
        "version": 6,
        "refused_version": 7,
        "refused_at": "pools.pool_of_others.model",
        "refused_why": None,
        "state": "serving",
        "is_drained": False,
        "is_draining": False,
        "inflight": None,
        "restart_generation": 0,
        "restart_generation_reached": 0,
    }
    assert admin.get("/gateways/?page=2").status_code == 400
