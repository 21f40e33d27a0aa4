"""What each kind of rule measures, from rows and from the fleet's own words, by exact values."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.preview import preview
from controlplane.alerting.registry import REGISTRY
from controlplane.decisions.alert_kinds import AlertKind
from controlplane.decisions.alerts import Terms
from controlplane.services import live
from inference.contract import wire
from inference.contract.kinds import BreakerState, WorkerState
from tests.controlplane.conftest import Caller
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker
from tests.controlplane.live.facts import after, child, histogram, sampled, traffic

pytestmark = pytest.mark.slow


def values_of(
    kind: AlertKind, scope: str, organisation_id: str | None, *, at_s: float, window_s: int = 60
) -> dict[str, Sequence[float | None]]:
    question = Question(kind.value, organisation_id, scope, None, window_s)
    told = REGISTRY[kind](question, question.places(), Grid(after(at_s)), Facts())
    return {place: list(values) for place, values in told.items()}


@pytest.fixture
def home(admin: Caller) -> str:
    return admin.organisation.pk


def test_traffic_is_told_of_each_place(
    home: str, admin: Caller, route: Any, pool: Any, make_caller: Callable[..., Caller]
) -> None:
    other = make_caller("admin").organisation.pk
    shared = {"route_id": route["id"], "failures": {"timeout": 5}}
    first = histogram(*[100.0] * 100, *[3_000.0] * 20)
    sampled(
        4.0,
        child(
            "a/0",
            traffic(0, home, pool["id"], requests=20, first_token_ms=first, **shared),
            traffic(0, other, "pool_other", requests=20, failures={"timeout": 1}),
            written_s=4.0,
        ),
    )
    for scope, place in (("organisation", home), ("route", route["id"]), ("pool", pool["id"])):
        found = values_of(AlertKind.ERROR_RATE, scope, home, at_s=6.0)
        assert found == {place: [25.0]}, scope
    assert values_of(AlertKind.ERROR_RATE, "all", None, at_s=6.0) == {"all": [15.0]}
    (p95,) = values_of(AlertKind.FIRST_TOKEN, "pool", home, at_s=6.0)[pool["id"]]
    assert p95 == pytest.approx(3_000, rel=0.1)
    # the window is over: nothing is known, which is not 0
    assert values_of(AlertKind.ERROR_RATE, "pool", home, at_s=70.0) == {pool["id"]: [None]}


def test_few_requests_have_no_share(home: str, pool: Any) -> None:
    few = traffic(0, home, pool["id"], requests=9, failures={"timeout": 9})
    sampled(4.0, child("a/0", few, written_s=4.0))
    assert values_of(AlertKind.ERROR_RATE, "pool", home, at_s=6.0) == {pool["id"]: [None]}


def test_no_wait_is_0_where_a_gateway_reported_and_unknown_where_none_did(
    home: str, pool: Any
) -> None:
    assert values_of(AlertKind.SATURATION, "pool", home, at_s=6.0) == {pool["id"]: [None]}
    sampled(-1.0, child("a/0", written_s=-1.0))
    sampled(4.0, child("a/0", written_s=4.0))
    assert values_of(AlertKind.SATURATION, "pool", home, at_s=6.0) == {pool["id"]: [0.0]}
    waits = {"queued": {pool["id"]: 3}, "oldest_wait_ms": {pool["id"]: 7_500.0}}
    sampled(5.0, child("a/0", written_s=5.0, **waits))
    assert values_of(AlertKind.SATURATION, "pool", home, at_s=6.0) == {pool["id"]: [7.5]}
    # whoever waited was served, refused or left: nothing is said to hang any more
    sampled(70.0, child("a/0", written_s=70.0))
    assert values_of(AlertKind.SATURATION, "pool", home, at_s=71.0) == {pool["id"]: [0.0]}


def test_gateways_that_are_missed_are_counted_and_none_at_all_is_unknown(
    home: str, state_store: Redis
) -> None:
    def silent() -> list[float | None]:
        found = values_of(AlertKind.GATEWAY_SILENT, "organisation", home, at_s=0)
        return list(found[home])

    assert silent() == [None]
    put_vitals(state_store, vitals("a/0"), vitals("b/0"))
    seconds, _ = state_store.time()
    state_store.zadd(wire.SEEN, {"a/0": seconds, "b/0": seconds})
    assert silent() == [0.0]
    state_store.delete(wire.vitals_key("b/0"))
    # longer than live figures miss it, and no shorter than people take to notice
    state_store.zadd(wire.SEEN, {"b/0": seconds - 1_800})
    assert silent() == [1.0]
    state_store.zadd(wire.SEEN, {"b/0": seconds - 3_700})
    assert silent() == [0.0], "nobody can tell it from one that was taken away"
    state_store.zrem(wire.SEEN, "b/0")
    assert silent() == [0.0], "it signed off"


def test_breakers_are_counted_by_pool(home: str, pool: Any, state_store: Redis) -> None:
    assert values_of(AlertKind.BREAKER_OPEN, "pool", home, at_s=0) == {pool["id"]: [None]}
    opened = {f"{pool['id']}-0": BreakerState.OPEN, "pool_x-0": BreakerState.OPEN}
    put_vitals(
        state_store,
        vitals("g/0", breakers=opened),
        vitals("g/1", breakers={f"{pool['id']}-0": BreakerState.HALF_OPEN}),
    )
    assert values_of(AlertKind.BREAKER_OPEN, "pool", home, at_s=0) == {pool["id"]: [1.0]}


def test_what_people_took_out_of_service_is_not_down(
    home: str, admin: Caller, pool: Any, state_store: Redis
) -> None:
    put_directory(state_store, worker(f"{pool['id']}-0", WorkerState.FAILED))
    assert values_of(AlertKind.POOL_DOWN, "pool", home, at_s=0) == {pool["id"]: [100.0]}
    admin.patch(f"/pools/{pool['id']}/", {"power": "stopped"})
    assert values_of(AlertKind.POOL_DOWN, "pool", home, at_s=0) == {pool["id"]: [0.0]}


def test_the_ledger_is_as_far_behind_as_its_oldest_event(home: str, state_store: Redis) -> None:
    assert values_of(AlertKind.LEDGER_BEHIND, "organisation", home, at_s=0) == {home: [0.0]}
    seconds, _ = state_store.time()
    state_store.xadd(wire.USAGE_STREAM, {"e": b"x"}, id=f"{(seconds - 90) * 1_000}-0")
    (lag,) = values_of(AlertKind.LEDGER_BEHIND, "organisation", home, at_s=0)[home]
    assert lag is not None
    assert 89 <= lag < 600


def test_a_preview_finds_in_the_past_what_looks_would_have_found(
    home: str, admin: Caller, pool: Any
) -> None:
    for minute in range(12):
        failed = 10 if 3 <= minute < 7 else 0
        at_s = 60 * minute
        bucket = traffic(
            at_s, home, pool["id"], requests=20, failures={"timeout": failed} if failed else {}
        )
        sampled(at_s + 4.0, child("a/0", bucket, written_s=at_s + 4.0))
        sampled(at_s + 59.0, child("a/0", written_s=at_s + 59.0))
    live.tidy(after(900.0))
    question = Question("error_rate", home, "pool", None, 60)
    found = preview(question, Terms(20.0, 60), after(720.0))
    assert found.fired is not None
    ((place, one),) = found.fired
    assert (place.name, one.peak) == ("mine", 50.0)
    # the fourth minute is over at 240 s and breaches; a minute later it has lasted
    assert one.since == after(300.0)
    # from the eighth minute on it is low, which is known at 480 s, and so for a minute
    assert one.until == after(540.0)
    rule = {"name": "x", "kind": "error_rate", "scope": "pool", "threshold": 20, "for_s": 60}
    made = admin.made("/alert-rules/", rule)
    answer = admin.get(f"/alert-rules/{made['id']}/preview/")
    assert answer.status_code == 200
    assert (answer.json()["places"], answer.json()["looked_at"]) == (1, 1)


def test_what_nobody_keeps_can_not_be_foretold(home: str, pool: Any) -> None:
    found = preview(Question("pool_down", home, "pool", None, 0), Terms(100.0, 0), after(0))
    assert found.fired is None
    assert found.until - found.since == timedelta(days=1)
