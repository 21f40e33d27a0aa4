"""A pool's workers: what their supervisor tells, to those who may see the pool."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from inference.contract import wire
from inference.contract.kinds import ProcessRole, WorkerState
from tests.controlplane.conftest import Caller
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker


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


def test_workers_are_unknown_while_the_directory_is_not_ours(
    admin: Caller, pool: Any, state_store: Redis
) -> None:
    state_store.hset(wire.DIRECTORY, "sealed", b"not ours")
    assert admin.get(f"/pools/{pool['id']}/").json()["workers"] is None


def test_a_list_asks_no_store_for_workers(admin: Caller, pool: Any) -> None:
    (listed,) = admin.get("/pools/").json()["results"]
    assert "workers" not in listed


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
