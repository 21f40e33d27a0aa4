"""The knobs of routes, targets and pools for faults: their edges, and what an edit leaves alone."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from redis import Redis

from controlplane.models import AuditEntry, Pool, Route, RouteTarget
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from inference.contract.kinds import BreakerState, PoolPower, Strategy, WorkerState
from inference.contract.params import POOL_BOUNDS, ROUTE_BOUNDS, TARGET_BOUNDS, Bound
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow

LIMITED = [
    *(("routes", name, bound) for name, bound in ROUTE_BOUNDS.items()),
    *(("pools", name, bound) for name, bound in POOL_BOUNDS.items()),
]
PROCESS = {
    "name": "small",
    "provisioner": "process",
    "model": "m",
    "model_source": "smollm2-135m-instruct",
    "replicas": 2,
}


@pytest.fixture(scope="module")
def pool(admin: Caller) -> Any:
    return admin.made("/pools/", POOL)


@pytest.fixture(scope="module", autouse=True)
def route(admin: Caller, pool: Any) -> Any:
    """It stands, with its pool, in every test of the module."""
    return admin.made("/routes/", ROUTE)


@pytest.fixture
def small(admin: Caller) -> str:
    """The path of a pool of two workers."""
    return f"/pools/{admin.made('/pools/', PROCESS)['id']}/"


def id_in(path: str) -> str:
    return path.split("/")[2]


def fields_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 400, response.content
    found: dict[str, list[str]] = response.json()["fields"]
    return found


@pytest.mark.parametrize(("noun", "name", "bound"), LIMITED)
def test_a_number_is_taken_at_its_bounds(
    noun: str, name: str, bound: Bound, admin: Caller, route: Any, pool: Any
) -> None:
    path = f"/{noun}/{(route if noun == 'routes' else pool)['id']}/"
    for value in (bound.minimum, bound.maximum):
        if value is not None:
            assert admin.patch(path, {name: value}).status_code == 200, value


@pytest.mark.parametrize(("noun", "bounds"), [("routes", ROUTE_BOUNDS), ("pools", POOL_BOUNDS)])
def test_numbers_beyond_their_bounds_are_refused_each_by_its_name(
    noun: str, bounds: Mapping[str, Bound], admin: Caller, route: Any, pool: Any
) -> None:
    path = f"/{noun}/{(route if noun == 'routes' else pool)['id']}/"
    below = {name: bound.minimum - 1 for name, bound in bounds.items()}
    above = {name: bound.maximum + 1 for name, bound in bounds.items() if bound.maximum is not None}
    for wrong in (below, above, dict.fromkeys(bounds, "x")):
        assert set(fields_of(admin.patch(path, wrong))) == set(wrong)


@pytest.mark.parametrize("value", ["nan", "inf", True, None, [], 1_000.5])
def test_a_wait_is_a_number_and_nothing_like_one(value: object, admin: Caller, route: Any) -> None:
    path = f"/routes/{route['id']}/"
    assert list(fields_of(admin.patch(path, {"max_wait_penalty": value}))) == ["max_wait_penalty"]


def test_the_database_holds_the_bounds_too(route: Any, pool: Any) -> None:
    targets = RouteTarget.objects.all()
    wrongs: list[Any] = [
        *(lambda n=name: targets.update(**{n: 0}) for name in TARGET_BOUNDS),
        lambda: Route.objects.update(retry_budget_percent=101),
        lambda: Route.objects.update(max_wait_penalty=float("nan")),
        lambda: Route.objects.update(connect_timeout_ms=86_400_001),
        lambda: Route.objects.update(keep_alive_ms=999),
        lambda: Pool.objects.update(panic_percent=101),
        lambda: Pool.objects.update(worker_concurrency=0),
        lambda: Pool.objects.update(cordoned=[1_000]),
        lambda: Pool.objects.update(worker_restarts=[]),
    ]
    for wrong in wrongs:
        with pytest.raises(IntegrityError), transaction.atomic():
            wrong()
    with connection.cursor() as cursor, pytest.raises(IntegrityError), transaction.atomic():
        cursor.execute("UPDATE controlplane_pool SET cordoned = '{-1}'")


def test_a_new_route_balances_by_work_and_one_that_says_weighted_stays_so(
    admin: Caller, route: Any
) -> None:
    assert route["strategy"] == "least_work"
    other = admin.made("/routes/", {**ROUTE, "name": "split", "strategy": "weighted"})
    path = f"/routes/{other['id']}/"
    assert admin.patch(path, {"max_attempts": 3}).json()["strategy"] == "weighted"
    records = {one.name: one for one in staged_snapshot().routes.values()}
    assert [records[name].strategy for name in ("chat", "split")] == [
        Strategy.LEAST_WORK,
        Strategy.WEIGHTED,
    ]


def test_comments_in_silent_streams_reach_the_gateways_and_null_takes_them_back(
    admin: Caller, route: Any
) -> None:
    path = f"/routes/{route['id']}/"
    assert route["keep_alive_ms"] is None
    for value in (20_000, None):
        assert admin.patch(path, {"keep_alive_ms": value}).json()["keep_alive_ms"] == value
        (record,) = staged_snapshot().routes.values()
        assert record.keep_alive_ms == value


def test_a_target_keeps_the_time_outs_that_are_not_named_and_null_is_the_route_s(
    admin: Caller, route: Any
) -> None:
    path = f"/routes/{route['id']}/"
    own = {"connect_timeout_ms": 500, "total_timeout_ms": 9_000}
    told = admin.patch(path, {"targets": [{"pool": "mine", "weight": 1, **own}]}).json()["targets"]
    unset = dict.fromkeys(TARGET_BOUNDS)
    kept = {"id": told[0]["id"], "pool": "mine", "weight": 1, "tier": 0}
    assert told == [{**kept, **unset, **own}]
    (target,) = admin.patch(path, {"targets": [{"pool": "mine", "weight": 2}]}).json()["targets"]
    assert (target["weight"], target["connect_timeout_ms"]) == (2, 500)
    document = {"targets": [{"pool": "mine", "weight": 2, "connect_timeout_ms": None}]}
    (target,) = admin.patch(path, document).json()["targets"]
    assert (target["connect_timeout_ms"], target["total_timeout_ms"]) == (None, 9_000)
    (record,) = next(iter(staged_snapshot().routes.values())).targets
    assert (record.connect_timeout_ms, record.total_timeout_ms) == (None, 9_000)
    entry = AuditEntry.objects.order_by("-id")[0]
    assert entry.before["targets"][0]["connect_timeout_ms"] == 500
    assert "connect_timeout_ms" not in entry.after["targets"][0]


@pytest.mark.parametrize("name", TARGET_BOUNDS)
def test_a_target_s_time_out_is_refused_at_its_place(name: str, admin: Caller, route: Any) -> None:
    for value in (0, 86_400_001, "soon"):
        document = {"targets": [{"pool": "mine", "weight": 1, name: value}]}
        response = admin.patch(f"/routes/{route['id']}/", document)
        assert list(fields_of(response)) == [f"targets.0.{name}"]


def test_a_worker_is_drained_and_put_back_and_each_edit_changes_what_it_names(
    admin: Caller, small: str
) -> None:
    told = admin.patch(small, {"cordoned": [1, 0, 1]}).json()
    assert told["cordoned"] == [0, 1]
    assert admin.patch(small, {"drain_timeout_s": 5}).json()["cordoned"] == [0, 1]
    assert admin.patch(small, {"replicas": 1}).json()["cordoned"] == [0, 1]
    # one that is drained already may be sent back, whether it's wanted now or not
    assert admin.patch(small, {"cordoned": [1]}).json()["cordoned"] == [1]
    record = staged_snapshot().pools[id_in(small)]
    assert (record.cordoned, record.replicas) == ((1,), 1)
    assert admin.patch(small, {"cordoned": []}).json()["cordoned"] == []
    version = newest_revision().version
    assert admin.patch(small, {"cordoned": []}).status_code == 200
    assert newest_revision().version == version


@pytest.mark.parametrize(
    ("asked", "place"),
    [([2], "cordoned.0"), ([0, 7], "cordoned.1"), ([-1], "cordoned.0"), ([1_000], "cordoned.0")],
)
def test_a_worker_that_the_pool_does_not_want_is_not_drained(
    asked: list[int], place: str, admin: Caller, small: str
) -> None:
    assert list(fields_of(admin.patch(small, {"cordoned": asked}))) == [place]


def test_more_workers_and_a_drain_of_the_new_one_are_one_edit(admin: Caller, small: str) -> None:
    assert admin.patch(small, {"replicas": 3, "cordoned": [2]}).status_code == 200


def test_of_a_static_pool_the_addresses_are_counted(admin: Caller, pool: Any) -> None:
    path = f"/pools/{pool['id']}/"
    assert admin.patch(path, {"replicas": 9, "cordoned": [0]}).status_code == 200
    assert fields_of(admin.patch(path, {"cordoned": [1]})) == {
        "cordoned.0": ["There is no worker 1: the pool has only worker 0."]
    }


def test_restarts_of_workers_are_counted_up_one_by_one(admin: Caller, small: str) -> None:
    assert admin.patch(small, {"worker_restarts": {"0": 2}}).json()["worker_restarts"] == {"0": 2}
    told = admin.patch(small, {"worker_restarts": {"1": 1}}).json()
    assert told["worker_restarts"] == {"0": 2, "1": 1}
    assert admin.patch(small, {"worker_restarts": told["worker_restarts"]}).status_code == 200
    assert fields_of(admin.patch(small, {"worker_restarts": {"0": 1}})) == {
        "worker_restarts.0": ["It only grows; it is 2 now."]
    }
    record = staged_snapshot().pools[id_in(small)]
    assert record.worker_restarts == {"0": 2, "1": 1}


@pytest.mark.parametrize(
    "asked", [{"2": 1}, {"01": 1}, {"x": 1}, {"": 1}, {"0": -1}, {"0": 2**31}, {"0": "x"}]
)
def test_a_count_of_nobody_s_restarts_is_refused_at_its_place(
    asked: dict[str, Any], admin: Caller, small: str
) -> None:
    (place,) = fields_of(admin.patch(small, {"worker_restarts": asked}))
    assert place == f"worker_restarts.{next(iter(asked))}"


def test_the_workers_of_a_static_pool_are_not_ours_to_restart(admin: Caller, pool: Any) -> None:
    response = admin.patch(f"/pools/{pool['id']}/", {"worker_restarts": {"0": 1}})
    assert fields_of(response) == {
        "worker_restarts.0": ["The workers of a static pool are started elsewhere."]
    }


def test_a_pool_is_drained_rehearsed_and_found_by_it(admin: Caller, small: str) -> None:
    draft = admin.patch(f"{small}?dry_run=true", {"power": "drained", "panic_percent": 0}).json()
    assert draft["changes"][0]["after"] == {"power": "drained", "panic_percent": 0}
    assert admin.get("/pools/?power=drained").json()["results"] == []
    assert admin.patch(small, {"power": "drained"}).status_code == 200
    assert [one["name"] for one in admin.get("/pools/?power=drained").json()["results"]] == [
        "small"
    ]
    record = staged_snapshot().pools[id_in(small)]
    assert record.power is PoolPower.DRAINED


def test_many_pools_are_drained_in_one_call(admin: Caller, small: str, pool: Any) -> None:
    data = {"power": "drained", "cordoned": [0]}
    ids = (id_in(small), pool["id"])
    operations = [{"action": "update", "id": one, "data": data} for one in ids]
    assert admin.post("/pools/bulk/", {"operations": operations}).status_code == 200
    operations[1]["data"] = {"cordoned": [5]}
    response = admin.post("/pools/bulk/", {"operations": operations})
    assert list(fields_of(response)) == ["operations.1.data.cordoned.0"]


def test_a_roll_back_brings_the_knobs_back_but_for_counts_of_restarts(
    admin: Caller, small: str, route: Any
) -> None:
    admin.patch(small, {"cordoned": [0], "worker_concurrency": 8, "worker_restarts": {"0": 1}})
    own = {"targets": [{"pool": "mine", "weight": 1, "idle_timeout_ms": 7}]}
    admin.patch(f"/routes/{route['id']}/", {**own, "strategy": "weighted"})
    version = newest_revision().version
    admin.patch(small, {"cordoned": [], "worker_concurrency": None, "panic_percent": 9})
    admin.patch(small, {"worker_restarts": {"0": 3, "1": 1}})
    cleared = {"targets": [{"pool": "mine", "weight": 1, "idle_timeout_ms": None}]}
    admin.patch(f"/routes/{route['id']}/", {**cleared, "strategy": "least_work"})
    document = {"nouns": ["pools", "routes"], "reason": "as before"}
    assert admin.post(f"/snapshots/{version}/restore/", document).status_code == 200
    told = admin.get(small).json()
    assert (told["cordoned"], told["worker_concurrency"], told["panic_percent"]) == ([0], 8, 50)
    assert told["worker_restarts"] == {"0": 3, "1": 1}
    told = admin.get(f"/routes/{route['id']}/").json()
    assert (told["strategy"], told["targets"][0]["idle_timeout_ms"]) == ("weighted", 7)


def test_open_breakers_panic_and_what_a_drain_waits_for_are_told(
    admin: Caller, narrow: Caller, actor: Actor, state_store: Redis
) -> None:
    pool = create_pool(
        actor, organisation=admin.organisation, name="small", model="m", provisioner="process",
        model_source="smollm2-135m-instruct", replicas=2, cordoned=[1],
    )  # fmt: skip
    first, second = f"{pool.pk}-0", f"{pool.pk}-1"
    put_directory(
        state_store, worker(first, WorkerState.READY), worker(second, WorkerState.DRAINING)
    )
    put_vitals(
        state_store,
        vitals("a/0", gateway="a", inflight={second: 2}, breakers={first: BreakerState.OPEN}),
        vitals("a/1", gateway="a", inflight={second: 1, first: 4}),
        vitals("b/0", gateway="b", breakers={second: BreakerState.HALF_OPEN}),
    )
    told = admin.get(f"/pools/{pool.pk}/").json()
    assert [one["inflight_at"] for one in told["workers"]] == [{"a": 4}, {"a": 3}]
    assert told["breakers"] == [
        {"worker": first, "process": "a/0", "state": "open"},
        {"worker": second, "process": "b/0", "state": "half_open"},
    ]
    assert (told["panic_at"], told["last_resort_at"]) == ([], ["a/0"])
    assert admin.patch(f"/pools/{pool.pk}/", told | {"cordoned": []}).status_code in (200, 400)
    hidden = narrow.get(f"/pools/{pool.pk}/").json()
    assert [hidden[one] for one in ("breakers", "panic_at", "last_resort_at")] == [None] * 3
    assert [one["inflight_at"] for one in hidden["workers"]] == [None, None]
