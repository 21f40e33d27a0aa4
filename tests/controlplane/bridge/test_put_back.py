"""A database that was put back: no edits until it's adopted, whatever number its own reached."""

import time

import pytest
from django.conf import settings
from django.core.management import call_command
from redis import Redis

from controlplane.bridge.epochs import sweep
from controlplane.bridge.parts import ADOPT, NEWER_KEY
from controlplane.bridge.publisher import Publication, publish
from controlplane.bridge.system import snapshots_part
from controlplane.errors import DatabaseBehind
from controlplane.models import AuditEntry, GatewaySetting, Organisation, Pool
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.pools import create_pool, update_pool
from inference.contract import wire
from inference.contract.vitals import Applied
from tests.controlplane.bridge.test_epochs import adopt, configuration_told, go_on_without
from tests.controlplane.fleet import put_vitals, vitals
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def home(transactional_db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


def edited(actor: Actor) -> str:
    """What an edit is refused with."""
    with pytest.raises(DatabaseBehind) as refused:
        create_organisation(actor, name="Edit")
    return refused.value.detail


def test_a_database_behind_takes_no_edits_until_it_is_adopted(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    publish()
    go_on_without(actor, state_store)
    before = newest_revision()
    assert edited(actor).endswith(f"if it was restored from a back-up, run {ADOPT}.")
    assert newest_revision() == before
    assert not Organisation.objects.filter(name="Edit").exists()
    assert sweep() is Publication.REFUSED
    adopt("--yes")
    assert state_store.exists(NEWER_KEY) == 0
    create_organisation(actor, name="Edit")
    assert published(state_store) == (newest_revision().lineage, newest_revision().version)


def test_edits_wait_for_a_gateway_that_is_ahead_as_well(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    publish()
    revision = newest_revision()
    ahead = Applied(revision.lineage, revision.version + 3)
    put_vitals(state_store, vitals("gw/0", applied=ahead, written_at=time.time()))
    sweep()
    assert "gateways run a newer configuration" in edited(actor)
    adopt("--yes")
    create_organisation(actor, name="Edit")


@pytest.mark.parametrize("edits", [1, 2, 3])
def test_edits_made_while_the_store_was_away_do_not_catch_up_with_what_it_holds(
    home: Organisation,
    actor: Actor,
    state_store: Redis,
    monkeypatch: pytest.MonkeyPatch,
    edits: int,
) -> None:
    publish()
    lost = go_on_without(actor, state_store)
    there = settings.HEADWORKS
    monkeypatch.setattr(settings, "HEADWORKS", type(there)(state_url="unix:///nobody.sock?db=0"))
    for number in range(edits):
        create_organisation(actor, name=f"Edit {number}")
    monkeypatch.setattr(settings, "HEADWORKS", there)
    assert newest_revision().version == lost[1] - 2 + edits
    assert publish() is Publication.REFUSED
    assert sweep() is Publication.REFUSED
    assert published(state_store) == lost
    assert configuration_told()["state"] == snapshots_part().state == "degraded"
    assert "nothing was changed: run it again" in adopt()
    adopt("--yes")
    assert published(state_store) == (newest_revision().lineage, lost[1] + max(edits - 1, 1))
    assert configuration_told()["state"] == "ok"


def published(store: Redis) -> tuple[str, int]:
    lineage, version = store.hmget(wire.MANIFEST, "lineage", "version")
    return (lineage or b"").decode(), int(version or 0)


@pytest.mark.parametrize("held", ["none", "a former one's"])
def test_what_an_older_release_published_is_known_by_its_bytes(
    home: Organisation, actor: Actor, state_store: Redis, held: str
) -> None:
    publish()
    digest = state_store.hget(wire.MANIFEST, "digest")
    if held == "none":
        state_store.hdel(wire.MANIFEST, "digest")
    else:
        state_store.hset(wire.MANIFEST, "digest", "0" * 64)
    assert publish() is Publication.CURRENT
    assert state_store.hget(wire.MANIFEST, "digest") == digest
    create_organisation(actor, name="Edit")
    assert published(state_store) == (newest_revision().lineage, newest_revision().version)


def test_a_first_version_waits_for_nobody(
    transactional_db: None, actor: Actor, state_store: Redis
) -> None:
    held = {"lineage": "7zzz", "version": 9, "sealed": b"", "digest": ""}
    state_store.hset(wire.MANIFEST, mapping=held)
    call_command("publish_configuration", may_be_behind=True)
    assert newest_revision().version == 1
    assert published(state_store) == ("7zzz", 9)
    adopt("--yes")
    assert published(state_store) == ("7zzz0", 10)


def test_counts_of_restarts_never_fall_behind_what_was_acted_on(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    pool = create_pool(
        actor,
        organisation=home,
        name="mine",
        model="m",
        provisioner="process",
        model_source="smollm2-135m-instruct",
        replicas=2,
    )
    restarts = {"restart_generation": 3, "worker_restarts": {"1": 2}}
    update_pool(actor, pool_id=pool.pk, changes=restarts)
    records = [
        vitals("gw/0", gateway="gw", restart_generation=5),
        vitals("gw/1", gateway="gw", restart_generation=4),
        vitals("other/0", gateway="other"),
    ]
    put_vitals(state_store, *records)
    assert publish() is Publication.CURRENT
    # the database is put back to before all of it
    Pool.objects.update(restart_generation=1, worker_restarts={"0": 4})
    adopt("--yes", "--force")
    pool.refresh_from_db()
    assert (pool.restart_generation, pool.worker_restarts) == (3, {"0": 4, "1": 2})
    counts = dict(GatewaySetting.objects.values_list("name", "restart_generation"))
    assert counts == {"gw": 5}
    snapshot = staged_snapshot(newest_revision())
    assert snapshot.gateways["gw"].restart_generation == 5
    assert snapshot.pools[pool.pk].worker_restarts == {"0": 4, "1": 2}
    entry = AuditEntry.objects.get(action="adopt")
    assert entry.after["raised"] == {
        "gateways": {"gw": 5},
        "pools": {pool.pk: {"restart_generation": 3, "worker_restarts": {"0": 4, "1": 2}}},
    }


def test_counts_nobody_can_tell_are_told_in_the_plan(
    home: Organisation, state_store: Redis
) -> None:
    publish()
    assert "can't tell how often pools" not in adopt()
    state_store.hset(wire.MANIFEST, "sealed", b"of another key")
    assert "the state store can't tell how often pools were restarted" in adopt()
