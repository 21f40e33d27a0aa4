"""Three short calls put an address into service."""

import pytest
from django.conf import settings

from inference.contract.kinds import Accounting, Backend, PoolPower, Provisioner, Scope, Strategy
from inference.contract.sealing import decrypt, key_bucket, token_digest
from inference.contract.snapshot import (
    KeyDigest,
    KeyRecord,
    ModelRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
)
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow


def test_pool_route_and_key_are_in_the_snapshot_as_asked(admin: Caller) -> None:
    pool = admin.made("/pools/", {**POOL, "credential": "upstream-secret-1234"})
    route = admin.made("/routes/", ROUTE)
    key = admin.made("/keys/", {"name": "my app"})
    snapshot = staged_snapshot()

    home = admin.organisation.pk
    assert snapshot.models == {
        pool["model_id"]: ModelRecord(id=pool["model_id"], organisation_id=home, name="gpt-x")
    }
    stored = snapshot.pools[pool["id"]]
    assert stored.credential is not None
    assert decrypt(settings.HEADWORKS.data_key_bytes, stored.credential) == "upstream-secret-1234"
    assert stored == PoolRecord(
        id=pool["id"],
        organisation_id=home,
        name="mine",
        model_id=pool["model_id"],
        provisioner=Provisioner.STATIC,
        backend=Backend.OPENAI,
        served_model_name="gpt-x",
        power=PoolPower.RUNNING,
        replicas=1,
        addresses=("http://127.0.0.1:9000/v1",),
        credential=stored.credential,
    )
    assert snapshot.routes == {
        (home, "chat"): RouteRecord(
            id=route["id"],
            organisation_id=home,
            name="chat",
            targets=(TargetRecord(route["targets"][0]["id"], pool["id"], 1),),
            strategy=Strategy.LEAST_WORK,
            accounting=Accounting.LENIENT,
        )
    }
    text = key["key"]
    public_id = text.removeprefix("hw_").partition(".")[0]
    assert snapshot.keys == {
        key_bucket(public_id): {
            public_id: KeyRecord(
                id=public_id,
                organisation_id=home,
                team_id=key["team_id"],
                project_id=key["project_id"],
                digests=(KeyDigest(1, token_digest(settings.HEADWORKS.peppers[1], text)),),
                scopes=(Scope.INFERENCE,),
            )
        }
    }


def test_a_token_of_one_organisation_needs_no_organisation_argument(
    admin: Caller, pool: dict[str, object]
) -> None:
    assert pool["organisation_id"] == admin.organisation.pk


def test_a_key_that_names_no_project_gets_the_default_one(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "my app"})
    assert key["project"] == "Default"


def test_a_pool_of_a_known_model_lists_no_second_one(
    admin: Caller, pool: dict[str, object]
) -> None:
    second = admin.made("/pools/", {**POOL, "name": "other"})
    by_id = admin.made("/pools/", {**POOL, "name": "third", "model": pool["model_id"]})
    assert second["model_id"] == by_id["model_id"] == pool["model_id"]
    assert len(admin.get("/models/").json()["results"]) == 1


def test_a_target_may_be_named_by_name_or_by_id(admin: Caller, pool: dict[str, object]) -> None:
    by_id = {"name": "by-id", "targets": [{"pool": pool["id"], "weight": 3}]}
    route = admin.made("/routes/", by_id)
    assert [(one["pool"], one["weight"]) for one in route["targets"]] == [("mine", 3)]
