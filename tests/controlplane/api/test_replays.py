"""Replays by REST: asked for, run by the job, and judged once the draft is published."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from redis import Redis

from controlplane.bridge.hindsight import WAITS_FOR, look_back
from controlplane.models import ConfigRevision, Replay
from controlplane.services.replays import (
    KEPT_FOR,
    REPLAY_LOCK,
    fail_abandoned,
    forget_old_replays,
)
from controlplane.services.usage import record_usage
from controlplane.tasks.replays import look_back_at_replays, run_queued
from inference.contract.events import End
from inference.contract.kinds import Outcome
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.replayed import SLOTS, served, when_recorded

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(admin: Caller) -> Mapping[str, Any]:
    """Two pools of two workers behind a route, one of them without a price, and a key."""
    pools = {}
    for port, name in ((9_000, "large"), (9_100, "small")):
        addresses = [f"http://127.0.0.1:{port + place}/v1" for place in range(2)]
        document = {**POOL, "name": name, "addresses": addresses, "worker_concurrency": SLOTS}
        pools[name] = admin.made("/pools/", {**document, "model": name})["id"]
    price = {"model": "large", "input_nanousd_per_mtok": "1000000"}
    admin.made("/prices/", {**price, "output_nanousd_per_mtok": "2000000"})
    targets = [{"pool": "large", "weight": 9}, {"pool": "small", "weight": 1}]
    document = {"name": "chat", "targets": targets, "strategy": "weighted"}
    route = admin.made("/routes/", document)
    key = admin.made("/keys/", {"name": "mine"})["id"].removeprefix("key_")
    return {**pools, "route": route["id"], "key": key}


def drafted(fleet: Mapping[str, Any]) -> Mapping[str, Any]:
    """Half to each."""
    targets = [{"pool": name, "weight": 1} for name in ("large", "small")]
    return {"route": "chat", "changes": {"targets": targets}}


def record(ends: Sequence[End]) -> None:
    record_usage(ends, now=when_recorded(ends))


def test_a_draft_is_replayed_and_then_held_against_what_came_of_it(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    begin = timezone.now() - timedelta(minutes=20)
    ends = served(fleet, begin, seed=1)
    lacking = [
        replace(ends[0], event_id="req_a", seq=1, outcome=Outcome.REFUSED, charges=()),
        replace(ends[1], event_id="req_b", seq=2, charges=()),
        replace(ends[2], event_id="req_c", seq=3, origin=replace(ends[2].origin, key_id="gone")),
    ]
    record([*ends, *lacking])
    replay = admin.made("/replays/", drafted(fleet))
    assert (replay["state"], replay["report"]) == ("queued", None)
    assert run_queued() == replay["id"]
    found = admin.get(f"/replays/{replay['id']}/").json()
    assert (found["state"], found["done"], found["total"]) == ("done", 1_200, 1_200)
    report = found["report"]
    assert (report["requests"], report["replayed"], report["is_sample"]) == (603, 600, False)
    assert report["lacking"] == {
        "its key is gone": 1,
        "no count of tokens": 1,
        "refused: its answer is not known": 1,
    }
    assert report["model_errors"]["is_good"] is True, report["model_errors"]
    assert report["caution"] == ""
    large = fleet["large"]
    before, after = (_share(report["route"][side], large) for side in ("current", "draft"))
    assert before == pytest.approx(0.9, abs=0.04)
    assert after == pytest.approx(0.5, abs=0.06)
    # the small model has no price: what is not known is counted, never taken for nothing
    unknown = {side: report["route"][side]["unknown_cost"] for side in ("current", "draft")}
    assert unknown["draft"] > unknown["current"] > 0
    assert int(report["route"]["draft"]["cost_nanousd"]) < int(
        report["route"]["current"]["cost_nanousd"]
    )
    assert found["observed"] is None

    edited = admin.patch(f"/routes/{fleet['route']}/", drafted(fleet)["changes"])
    assert edited.status_code == 200, edited.content
    published = ConfigRevision.objects.latest("id").created_at
    record(served(fleet, published + timedelta(seconds=1), seed=2))
    assert look_back(published + timedelta(hours=25)) == 1
    observed = admin.get(f"/replays/{replay['id']}/").json()["observed"]
    assert (observed["is_whole"], observed["side"]["answered"]) == (True, 600)
    # like requests came again, were dealt out by other chances, and engines are no model
    assert observed["errors"]["is_good"] is True, observed["errors"]
    assert look_back(published + timedelta(hours=26)) == 0


def _share(side: Mapping[str, Any], pool_id: str) -> float:
    return sum(one["share"] for one in side["split"] if one["pool"] == pool_id)


def test_a_list_has_no_figures_and_reaches_roles_of_the_whole_organisation_alone(
    admin: Caller, narrow: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    made = admin.made("/replays/", drafted(fleet))
    (row,) = admin.get("/replays/").json()["results"]
    assert (row["id"], "report" in row, row["changes"]) == (
        made["id"],
        False,
        drafted(fleet)["changes"],
    )
    assert narrow.get("/replays/").status_code == 403
    assert narrow.get(f"/replays/{made['id']}/").status_code == 404
    assert narrow.post("/replays/", drafted(fleet)).status_code == 403


def test_a_draft_that_would_be_refused_is_not_replayed(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    targets = [{"pool": "nobody", "weight": 1}]
    response = admin.post("/replays/", {"route": "chat", "changes": {"targets": targets}})
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["changes.targets.0.pool"]
    assert Replay.objects.count() == 0


def test_a_replay_whose_job_is_gone_fails_and_old_ones_are_forgotten(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    made = admin.made("/replays/", drafted(fleet))
    now = timezone.now()
    Replay.objects.update(state="running", beat_at=now - timedelta(seconds=61))
    assert fail_abandoned(now) == 1
    found = admin.get(f"/replays/{made['id']}/").json()
    assert (found["state"], found["detail"]) == ("failed", "The job that ran it has ended.")
    assert forget_old_replays(now + KEPT_FOR - timedelta(minutes=1)) == 0
    assert forget_old_replays(now + KEPT_FOR + timedelta(minutes=1)) == 1


def test_one_job_at_a_time_is_at_work_on_replays(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    first, second = (admin.made("/replays/", drafted(fleet))["id"] for _ in range(2))
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [REPLAY_LOCK])
        assert (run_queued(), look_back_at_replays()) == (None, 0)
    assert set(Replay.objects.values_list("state", flat=True)) == {"queued"}
    Replay.objects.filter(pk=first).update(state="running", beat_at=timezone.now())
    assert run_queued() is None
    Replay.objects.filter(pk=first).update(state="done")
    assert run_queued() == second


def test_a_replay_that_cannot_be_compared_stops_no_other_and_none_is_looked_at_for_ever(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    for _ in range(2):
        admin.made("/replays/", {**drafted(fleet), "hours": 1})
        assert run_queued()
    untaught = admin.get(f"/replays/{Replay.objects.latest('created_at').pk}/").json()["report"]
    assert untaught["caution"].startswith("Default speeds were used: too little traffic")
    older, newer = Replay.objects.order_by("created_at")
    Replay.objects.filter(pk=newer.pk).update(drafted={})
    assert admin.patch(f"/routes/{fleet['route']}/", drafted(fleet)["changes"]).status_code == 200
    published = ConfigRevision.objects.latest("id").created_at
    assert look_back(published + WAITS_FOR) == 0
    assert look_back(published + timedelta(minutes=30)) == 1
    older.refresh_from_db()
    assert (older.published_at, older.observed["is_whole"]) == (published, False)
    assert look_back(published + timedelta(hours=3, seconds=1)) == 0
    assert look_back(published + timedelta(hours=3, seconds=-1)) == 1
