"""Which gateways there are and what they run, by the state store; and the sampler that reads it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from redis import Redis

from controlplane.bridge.sampler import SampleOutcome, sample
from controlplane.bridge.vitals import read_propagation
from controlplane.decisions.propagation import PartlySilent
from controlplane.models import LiveCoverage, LiveTraffic
from controlplane.selectors.system import get_coverage
from inference.contract import codec, wire
from inference.contract.vitals import GATEWAY_SEEN_S, Applied, Traffic, Vitals
from tests.controlplane.fleet import vitals


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def write(store: Redis, *records: Vitals) -> None:
    """Write records as their processes do."""
    for one in records:
        store.set(wire.vitals_key(one.process), codec.encode_vitals(one))
        store.zadd(wire.SEEN, {one.process: one.written_at})


def child(process: str, now: datetime, version: int = 7, **fields: object) -> Vitals:
    """A child of the gateway that its name begins with."""
    told = {"applied": Applied("00", version), **fields}
    gateway = process.rpartition("/")[0]
    return vitals(process, gateway=gateway, written_at=now.timestamp(), **told)


def publish(store: Redis, version: int = 7) -> None:
    store.hset(wire.MANIFEST, mapping={"lineage": "00", "version": version, "sealed": b"x"})


def test_a_gateway_has_applied_a_version_once_all_its_children_have(
    state_store: Redis, now: datetime
) -> None:
    publish(state_store)
    write(state_store, child("a/0", now), child("a/1", now, 8), child("b/0", now, 6))
    write(state_store, child("b/1", now))
    found = read_propagation()
    assert found is not None
    assert (found.lineage, found.version) == ("00", 7)
    assert (found.applied, found.live, found.seen) == (1, 2, 2)
    assert [(one.name, one.version, one.is_applied) for one in found.gateways] == [
        ("a", 7, True),
        ("b", 6, False),
    ]
    assert (found.applied_at(6), found.applied_at(8)) == (2, 0)


def test_a_gateway_that_fell_silent_is_missing_with_its_name_and_one_that_left_is_not(
    state_store: Redis, now: datetime
) -> None:
    publish(state_store)
    names = ("dc-1/a/0", "dc-1/a/1", "b/0", "gone/0", "forgotten/0")
    write(state_store, *(child(name, now) for name in names))
    for name in ("dc-1/a/1", "forgotten/0"):
        state_store.delete(wire.vitals_key(name))
    state_store.zadd(wire.SEEN, {"forgotten/0": now.timestamp() - GATEWAY_SEEN_S - 5})
    state_store.delete(wire.vitals_key("gone/0"))
    state_store.zrem(wire.SEEN, "gone/0")
    found = read_propagation()
    assert found is not None
    assert (found.live, found.seen, found.missing) == (1, 2, ("dc-1/a",))
    silent = found.gateways[1]
    assert (silent.children_live, silent.children_seen, silent.is_applied) == (1, 2, False)
    assert found.partly == (PartlySilent("dc-1/a", 1, 2),)


def test_a_supervisor_is_no_gateway_and_a_refusal_is_told(
    state_store: Redis, now: datetime
) -> None:
    refused = Applied("00", 7, refused_version=8, refused_why="pools.pool_1.model: unknown")
    write(state_store, child("a/0", now, applied=refused))
    state_store.zadd(wire.SEEN, {"pools/host-12": now.timestamp()})
    found = read_propagation()
    assert found is not None
    (gateway,) = found.gateways
    assert (gateway.refused_version, gateway.refused_why) == (8, refused.refused_why)
    assert (found.version, found.applied) == (None, 0)


def test_a_gateway_counts_the_requests_that_are_at_no_worker_yet(
    state_store: Redis, now: datetime
) -> None:
    write(state_store, child("a/0", now, requests=3, inflight={"p-0": 1}))
    write(state_store, child("a/1", now, inflight={"p-0": 2}))
    found = read_propagation()
    assert found is not None
    assert found.gateways[0].inflight == 5


@pytest.mark.parametrize("skew_s", [-7_200, 7_200])
def test_a_gateway_whose_clock_is_wrong_counts_and_wrote_when_the_store_says(
    state_store: Redis, now: datetime, skew_s: int
) -> None:
    publish(state_store)
    write(state_store, child("a/0", now + timedelta(seconds=skew_s)), child("b/0", now))
    state_store.zadd(wire.SEEN, {"a/0": now.timestamp()})
    found = read_propagation()
    assert found is not None
    assert (found.live, found.seen, found.gateways[0].as_of) == (2, 2, now)


@pytest.fixture
def no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", gone)


def test_nobody_can_tell_while_the_store_does_not_answer(no_store: None) -> None:
    assert read_propagation() is None


@pytest.mark.django_db
def test_a_tick_without_the_store_says_so_and_writes_nothing(no_store: None, now: datetime) -> None:
    assert sample(now) == SampleOutcome(is_store_up=False)
    assert LiveCoverage.objects.count() == 0


@pytest.mark.django_db
def test_a_tick_writes_what_the_records_say_and_who_is_missing(
    state_store: Redis, now: datetime
) -> None:
    at = int(now.timestamp()) // 5 * 5
    bucket = Traffic(at=at, organisation_id="org_1", route_id="rt_1", requests=3)
    write(state_store, child("a/0", now, traffic=(bucket,)), child("b/0", now))
    state_store.delete(wire.vitals_key("b/0"))
    state_store.set(wire.vitals_key("b/0"), b"{")
    assert sample(now) == SampleOutcome(is_store_up=True, live=1, seen=2)
    row = LiveTraffic.objects.get()
    assert (row.at.timestamp(), row.route_id, row.requests) == (at, "rt_1", 3)
    newest = LiveCoverage.objects.latest("at")
    assert (newest.live, newest.seen, newest.missing) == (1, 2, ["b"])


@pytest.mark.django_db
def test_a_sample_keeps_that_only_a_part_of_a_gateway_fell_silent(
    state_store: Redis, now: datetime
) -> None:
    write(state_store, *(child(name, now) for name in ("a/0", "a/1", "b/0", "c/0")))
    for name in ("a/1", "b/0"):
        state_store.delete(wire.vitals_key(name))
    sample(now)
    found = get_coverage(now)
    assert (found.live, found.seen, found.missing) == (1, 3, ("a", "b"))
    assert (found.silent, found.partly) == (("b",), (PartlySilent("a", 1, 2),))
