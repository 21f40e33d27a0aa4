"""The System page and its REST call: every part, for administrators, without a secret."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from controlplane import __version__
from controlplane.bridge.publisher import publish_revision
from controlplane.models import Role
from controlplane.services.actors import Actor
from controlplane.services.snapshots import stage_current
from controlplane.tasks.heartbeat import beat
from inference.contract import wire
from inference.contract.kinds import ProcessRole
from tests.controlplane.conftest import Caller
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_request_pages import words_of
from tests.controlplane.fleet import put_vitals, vitals

pytestmark = pytest.mark.slow


SECRETS = ("secret_key", "data_key", "key_peppers", "database_url", "state_url", "cache_url")


@pytest.fixture
def administrator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


def parts_of(caller: Caller) -> dict[str, Any]:
    response = caller.get("/system/")
    assert response.status_code == 200, response.content
    return {part["name"]: part for part in response.json()["parts"]}


def test_every_part_is_named_with_its_figures(administrator: Reader, state_store: Redis) -> None:
    words = words_of(administrator.page("/system/"))
    for title in (
        *("Headworks", "Database", "State store", "Cache store", "Gateways"),
        *("Supervisor and workers", "Background jobs", "Recorder", "Snapshots", "Disk", "Feed"),
    ):
        assert title in words
    assert f"Version {__version__}" in words
    assert "Gateways: degraded. No gateway is running." in words


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.FINANCE])
def test_others_than_administrators_are_told_which_permission_they_lack(
    role: Role, make_reader: Callable[..., Reader], make_caller: Callable[..., Caller]
) -> None:
    refused = make_reader("vic", role).get("/system/")
    assert refused.status_code == 403
    assert "Administrators of the platform" in words_of(refused.content.decode())
    assert make_caller(role.value).get("/system/").status_code == 403


def test_the_same_by_rest_and_no_part_tells_a_secret_or_an_address(
    admin: Caller, administrator: Reader, state_store: Redis
) -> None:
    text = admin.get("/system/").content.decode() + administrator.page("/system/")
    for name in SECRETS:
        assert getattr(settings.HEADWORKS, name).get_secret_value() not in text
    assert "unix://" not in text
    assert ".sock" not in text


def test_a_store_that_is_down_is_named_and_the_others_are_told_all_the_same(
    admin: Caller, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = settings.HEADWORKS.model_copy(
        update={"cache_url": type(settings.HEADWORKS.state_url)("unix:///nowhere.sock?db=0")}
    )
    monkeypatch.setattr("controlplane.bridge.system.settings.HEADWORKS", broken)
    parts = parts_of(admin)
    assert parts["cache"]["state"] == "down"
    assert (parts["state"]["state"], parts["database"]["state"]) == ("ok", "ok")


def test_the_published_version_is_held_against_the_database_s(
    admin: Caller, actor: Actor, state_store: Redis
) -> None:
    revision = stage_current(actor)
    part = parts_of(admin)["snapshots"]
    assert (part["state"], part["detail"]) == ("degraded", "the store is behind the database")
    assert revision is not None
    publish_revision(state_store, revision)
    part = parts_of(admin)["snapshots"]
    assert part["state"] == "ok"
    assert part["facts"]["published_version"] == part["facts"]["database_version"]


def test_the_recorder_is_judged_by_what_waits_and_by_who_reads(
    admin: Caller, state_store: Redis
) -> None:
    assert parts_of(admin)["recorder"]["detail"] == "it has not run yet"
    state_store.xgroup_create(wire.USAGE_STREAM, wire.USAGE_GROUP, id="0", mkstream=True)
    state_store.xadd(wire.USAGE_STREAM, {wire.USAGE_FIELD: b"{}"})
    part = parts_of(admin)["recorder"]
    assert part["detail"] == "no recorder reads the stream"
    assert (part["facts"]["stream_entries"], part["facts"]["waiting_entries"]) == (1, 1)
    state_store.xreadgroup(wire.USAGE_GROUP, "me", {wire.USAGE_STREAM: ">"})
    assert parts_of(admin)["recorder"]["state"] == "ok"


def test_who_leads_and_what_the_jobs_last_did_are_told(admin: Caller, state_store: Redis) -> None:
    state_store.set(wire.LEADER, "1:pools-a")
    beat()
    put_vitals(state_store, vitals("pools-a", role=ProcessRole.POOLS, is_leader=True))
    parts = parts_of(admin)
    assert parts["pools"]["facts"]["supervisor"] == "pools-a"
    assert parts["jobs"]["state"] == "ok"
    assert parts["jobs"]["age_s"] < 60


def test_a_gateway_of_which_one_process_is_silent_is_not_told_as_missing(
    admin: Caller, administrator: Reader, state_store: Redis
) -> None:
    now = datetime.now(UTC).timestamp()
    for name in ("vm-1/0", "vm-1/1", "vm-2/0"):
        put_vitals(state_store, vitals(name, gateway=name.partition("/")[0], written_at=now))
        state_store.zadd(wire.SEEN, {name: now})
    state_store.delete(wire.vitals_key("vm-1/1"))
    part = parts_of(admin)["gateways"]
    assert (part["state"], part["detail"]) == ("degraded", "vm-1: 1 of 2 processes is silent")
    assert part["facts"]["missing"] == ["vm-1"]
    words = words_of(administrator.page("/system/"))
    assert "Gateways: degraded. Vm-1" not in words
    assert "Gateways: degraded. vm-1: 1 of 2 processes is silent." in words
    state_store.delete(wire.vitals_key("vm-2/0"))
    assert parts_of(admin)["gateways"]["detail"] == (
        "missing: vm-2; vm-1: 1 of 2 processes is silent"
    )


def test_the_log_of_a_worker_is_had_by_rest(
    admin: Caller, make_caller: Callable[..., Caller], state_store: Redis
) -> None:
    pool = admin.made(
        "/pools/",
        {
            "name": "small", "provisioner": "process", "model": "m",
            "model_source": "smollm2-135m-instruct",
        },
    )  # fmt: skip
    path = f"/pools/{pool['id']}/logs/"
    state_store.set(wire.LEADER, "1:pools")
    assert admin.get(f"{path}?worker=0").json() == {
        "worker": f"{pool['id']}-0", "state": "waiting", "at": None, "size_bytes": None, "text": "",
    }  # fmt: skip
    assert state_store.exists(wire.worker_log_wish(f"{pool['id']}-0"))
    assert admin.get(path).json()["fields"].keys() == {"worker"}
    assert admin.get(f"{path}?worker=pool_x-0").status_code == 400
    assert make_caller("admin").get(f"{path}?worker=0").status_code == 404
