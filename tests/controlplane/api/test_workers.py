"""A pool's workers: what their supervisor tells, to those who may see the pool."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from controlplane.api.views import pools
from controlplane.bridge.vitals import read_fleet
from inference.contract import wire
from inference.contract.kinds import ProcessRole, WorkerState
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def pool(admin: Caller) -> Any:
    return admin.made("/pools/", POOL)


def test_a_pool_shows_its_workers_and_what_gateways_have_in_flight(
    admin: Caller, pool: Any, state_store: Redis
) -> None:
    first, other = f"{pool['id']}-0", "pool_of_somebody-0"
    failed = worker(first, WorkerState.BACKING_OFF, detail="exit code 1", restarts=2)
    put_directory(state_store, failed, worker(other, WorkerState.READY))
    put_vitals(
        state_store,
        vitals("g/0", inflight={first: 2, other: 5}),
        vitals("g/1", inflight={first: 1}),
        vitals("pools", role=ProcessRole.POOLS, inflight={first: 100}),
    )
    state_store.set(wire.vitals_key("garbage"), b"{")
    assert admin.get(f"/pools/{pool['id']}/").json()["workers"] == [
        {
            "id": first,
            "state": "backing_off",
            "detail": "exit code 1",
            "restarts": 2,
            "base_url": "http://127.0.0.1:9000/v1",
            "changed_at": "2023-11-14T22:13:20Z",
            "inflight": 3,
            "inflight_at": {"g": 3},
        }
    ]


def test_a_pool_that_is_in_no_directory_has_none(
    admin: Caller, pool: Any, state_store: Redis
) -> None:
    assert admin.get(f"/pools/{pool['id']}/").json()["workers"] == []


def test_workers_are_unknown_while_the_store_does_not_answer(
    admin: Caller, pool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", gone)
    response = admin.get(f"/pools/{pool['id']}/")
    assert (response.status_code, response.json()["workers"]) == (200, None)
    assert response.json()["condition"] is None
    assert admin.get("/pools/").json()["results"][0]["condition"] is None


def test_workers_are_unknown_while_the_directory_is_not_ours(
    admin: Caller, pool: Any, state_store: Redis
) -> None:
    state_store.hset(wire.DIRECTORY, "sealed", b"not ours")
    assert admin.get(f"/pools/{pool['id']}/").json()["workers"] is None


def test_a_list_tells_how_each_pool_is_by_one_read_of_the_fleet(
    admin: Caller, pool: Any, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.made("/pools/", {**POOL, "name": "other"})
    down = worker(f"{pool['id']}-0", WorkerState.BACKING_OFF, detail="connection refused")
    put_directory(state_store, down)
    reads: list[None] = []
    monkeypatch.setattr(pools, "read_fleet", lambda: reads.append(None) or read_fleet())
    other, mine = admin.get("/pools/").json()["results"]
    assert len(reads) == 1
    assert mine["condition"] == {
        "state": "down",
        "reason": "mine/0 backing off: connection refused",
        "ready": 0,
        "wanted": 1,
    }
    assert other["condition"]["state"] == "not_checked_yet"
    assert "workers" not in mine
    assert admin.get(f"/pools/{pool['id']}/").json()["condition"] == mine["condition"]


def test_a_role_in_a_team_learns_states_and_not_what_workers_say_or_do(
    admin: Caller, narrow: Caller, pool: Any, state_store: Redis
) -> None:
    one = f"{pool['id']}-0"
    put_directory(state_store, worker(one, WorkerState.FAILED, detail="exit code 1"))
    put_vitals(state_store, vitals("g/0", inflight={one: 2}))
    told = narrow.get(f"/pools/{pool['id']}/").json()
    (only,) = told["workers"]
    assert (only["state"], only["detail"], only["inflight"]) == ("failed", None, None)
    assert (told["condition"]["state"], told["condition"]["reason"]) == ("down", "mine/0 failed")
    (whole,) = admin.get(f"/pools/{pool['id']}/").json()["workers"]
    assert (whole["detail"], whole["inflight"]) == ("exit code 1", 2)


def test_what_was_read_can_be_sent_back_though_the_workers_went_on(
    admin: Caller, pool: Any, state_store: Redis
) -> None:
    read = admin.get(f"/pools/{pool['id']}/").json()
    put_directory(state_store, worker(f"{pool['id']}-0", WorkerState.READY))
    changed = admin.patch(f"/pools/{pool['id']}/", {**read, "replicas": 1})
    assert changed.status_code == 200, changed.content
    assert [one["state"] for one in changed.json()["workers"]] == ["ready"]
    assert admin.post("/pools/", {"name": "n", "workers": []}).status_code == 400


def test_the_workers_of_a_pool_of_others_are_not_told(
    make_caller: Any, pool: Any, state_store: Redis
) -> None:
    put_directory(state_store, worker(f"{pool['id']}-0", WorkerState.READY))
    response = make_caller("admin").get(f"/pools/{pool['id']}/")
    assert response.status_code == 404
    assert f"{pool['id']}-0" not in response.content.decode()
