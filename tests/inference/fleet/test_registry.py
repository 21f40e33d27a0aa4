"""A gateway's view of the workers, through changes of configuration and directory."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import (
    BreakerState,
    Endpoint,
    PoolPower,
    Provisioner,
    WorkerState,
)
from inference.contract.sealing import encrypt, worker_key
from inference.contract.snapshot import PoolRecord
from inference.decisions.breaker import Capacity, Verdict
from inference.fleet.peers import PeerLoad
from inference.fleet.registry import FleetRegistry
from inference.workers.connections import Connections
from tests.inference.gateway.rig import CREDENTIAL, DATA_KEY, configuration, pool_record

FIRST, SECOND = "http://127.0.0.1:8001/v1", "http://127.0.0.1:8002/v1"


@pytest.fixture
def fleet() -> FleetRegistry:
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    return FleetRegistry(origin_of=connections.origin_of, data_key=DATA_KEY, chance=lambda: 0.0)


def apply(fleet: FleetRegistry, *pools: PoolRecord) -> None:
    fleet.apply_snapshot(configuration(*pools))


def direct(fleet: FleetRegistry, *entries: WorkerEntry, generation: int = 1) -> None:
    fleet.apply_directory(Directory(1, generation, 0.0, entries))


def entry(
    base_url: str = FIRST, state: WorkerState = WorkerState.READY, worker_id: str = "pool_a-0"
) -> WorkerEntry:
    return WorkerEntry(worker_id, "pool_a", base_url, state, 0.0)


def ready(fleet: FleetRegistry) -> dict[str, str]:
    return {worker.id: worker.address.base_url for worker in fleet.ready("pool_a")}


def test_a_static_pool_serves_at_once_and_without_a_directory(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    assert ready(fleet) == {"pool_a-0": FIRST, "pool_a-1": SECOND}
    assert fleet.directory_generation is None
    (worker, _) = fleet.ready("pool_a")
    assert worker.address.authorization == f"Bearer {CREDENTIAL}".encode()
    assert worker.address.paths[Endpoint.CHAT] == b"/v1/chat/completions"


def test_the_directory_has_the_last_word_on_a_static_workers_state(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    direct(fleet, entry(state=WorkerState.BACKING_OFF), generation=4)
    assert ready(fleet) == {"pool_a-1": SECOND}
    assert fleet.directory_generation == 4
    direct(fleet, entry())
    assert ready(fleet) == {"pool_a-0": FIRST, "pool_a-1": SECOND}


def test_a_directory_that_speaks_of_another_address_is_out_of_date(fleet: FleetRegistry) -> None:
    direct(fleet, entry(SECOND, WorkerState.FAILED))
    apply(fleet, pool_record("a", FIRST))
    assert ready(fleet) == {"pool_a-0": FIRST}


def test_a_static_worker_whose_address_was_removed_is_gone_whatever_the_directory_says(
    fleet: FleetRegistry,
) -> None:
    direct(fleet, entry(), entry(SECOND, worker_id="pool_a-1"))
    apply(fleet, pool_record("a", FIRST))
    assert ready(fleet) == {"pool_a-0": FIRST}


@pytest.mark.parametrize(
    "state", [state for state in WorkerState if state is not WorkerState.READY]
)
def test_started_workers_are_sent_to_only_while_they_are_ready(
    fleet: FleetRegistry, state: WorkerState
) -> None:
    apply(fleet, pool_record("a", provisioner=Provisioner.PROCESS, credential=None))
    assert ready(fleet) == {}
    derived = replace(entry(), uses_derived_key=True)
    direct(fleet, derived)
    (worker,) = fleet.ready("pool_a")
    key = worker_key(DATA_KEY, "pool_a-0")
    assert worker.address.authorization == f"Bearer {key}".encode()
    direct(fleet, replace(derived, state=state))
    assert ready(fleet) == {}


def test_a_stopped_pool_and_one_that_is_gone_have_no_workers(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, power=PoolPower.STOPPED))
    assert ready(fleet) == {}
    direct(fleet, entry())
    apply(fleet, pool_record("b", FIRST))
    assert ready(fleet) == {}


def test_a_count_goes_with_the_worker_and_not_with_its_address(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST))
    lease = fleet.ready("pool_a")[0].lease()
    apply(fleet, pool_record("a", SECOND))
    assert ready(fleet) == {"pool_a-0": SECOND}
    assert fleet.inflight() == {"pool_a-0": 1}
    lease.release()
    lease.release()
    assert fleet.inflight() == {"pool_a-0": 0}


def test_a_worker_that_left_is_counted_until_its_requests_have_ended(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    leases = [worker.lease() for worker in fleet.ready("pool_a")]
    apply(fleet, pool_record("a", FIRST))
    assert fleet.inflight() == {"pool_a-0": 1, "pool_a-1": 1}
    apply(fleet, pool_record("a", FIRST, SECOND))
    again = fleet.ready("pool_a")[1].lease()
    assert fleet.inflight() == {"pool_a-0": 1, "pool_a-1": 2}
    for lease in (*leases, again):
        lease.release()
    apply(fleet, pool_record("b", FIRST))
    assert fleet.inflight() == {"pool_b-0": 0}


@pytest.mark.parametrize(
    "sealed",
    [
        "",
        "bm9uc2Vuc2U=",
        pytest.param(encrypt(bytes(32), "x"), id="of another key"),
        pytest.param(encrypt(DATA_KEY, "a\r\nb: c"), id="no header value"),
    ],
)
def test_workers_whose_credential_cannot_be_used_are_not_sent_to(
    fleet: FleetRegistry, sealed: str
) -> None:
    with capture_logs() as logs:
        apply(fleet, pool_record("a", FIRST, credential=sealed), pool_record("b", SECOND))
    assert ready(fleet) == {}
    assert len(fleet.ready("pool_b")) == 1
    assert logs == [
        {"event": "pool credential unusable", "log_level": "error", "pool_id": "pool_a"}
    ]


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:99999/v1", "http://[::1/v1"])
def test_an_address_that_is_none_costs_its_worker_alone(
    fleet: FleetRegistry, base_url: str
) -> None:
    with capture_logs() as logs:
        apply(fleet, pool_record("a", base_url, SECOND))
    assert ready(fleet) == {"pool_a-1": SECOND}
    assert [line["event"] for line in logs] == ["worker address unusable"]


def test_an_address_is_shown_without_its_credential(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST))
    assert CREDENTIAL not in repr(fleet.ready("pool_a")[0].address)


def fail(fleet: FleetRegistry, worker_id: str, times: int = 5, *, now_s: float = 0.0) -> None:
    """Have a worker fail so often."""
    for worker in fleet.ready("pool_a"):
        for _ in range(times if worker.id == worker_id else 0):
            worker.lease(now_s=now_s).release(Verdict.BAD, now_s=now_s)


def capacity(fleet: FleetRegistry, now_s: float = 0.0) -> list[str]:
    return [worker.id for worker in fleet.capacity("pool_a", now_s).workers]


THIRD = "http://127.0.0.1:8003/v1"


def test_a_worker_whose_breaker_is_open_is_passed_over_until_its_time_is_over(
    fleet: FleetRegistry,
) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND, THIRD))
    assert capacity(fleet) == ["pool_a-0", "pool_a-1", "pool_a-2"]
    with capture_logs() as logs:
        fail(fleet, "pool_a-1")
    assert logs == [
        {
            "event": "breaker opened",
            "log_level": "warning",
            "worker_id": "pool_a-1",
            "in_a_row": 1,
        }
    ]
    assert capacity(fleet) == ["pool_a-0", "pool_a-2"]
    assert fleet.breakers(1.0) == {"pool_a-1": BreakerState.OPEN}
    assert fleet.open_breakers() == {"pool_a": 1}
    assert capacity(fleet, 6.0) == ["pool_a-0", "pool_a-1", "pool_a-2"]
    assert fleet.breakers(6.0) == {"pool_a-1": BreakerState.HALF_OPEN}
    fleet.ready("pool_a")[1].lease(now_s=6.0).release(Verdict.GOOD, now_s=6.0)
    assert fleet.breakers(6.0) == {}
    assert fleet.open_breakers() == {"pool_a": 0}


def test_breakers_are_ignored_if_too_few_workers_would_be_left(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND, THIRD))
    fail(fleet, "pool_a-0")
    fail(fleet, "pool_a-1")
    found = fleet.capacity("pool_a", 0.0)
    assert (len(found.workers), found.is_panic, found.is_last_resort) == (3, True, False)
    fail(fleet, "pool_a-2")
    found = fleet.capacity("pool_a", 0.0)
    assert (len(found.workers), found.is_panic, found.is_last_resort) == (3, True, True)
    apply(fleet, pool_record("a", FIRST, SECOND, THIRD, panic_percent=0))
    assert capacity(fleet) == []


def test_another_address_or_another_start_is_another_life(fleet: FleetRegistry) -> None:
    pool = pool_record("a", provisioner=Provisioner.PROCESS, credential=None)
    apply(fleet, pool)
    direct(fleet, entry())
    (worker,) = fleet.ready("pool_a")
    salts = [worker.salt]
    for changed in (entry(SECOND), replace(entry(SECOND), restarts=1)):
        fail(fleet, "pool_a-0")
        assert fleet.breakers(0.0) == {"pool_a-0": BreakerState.OPEN}
        direct(fleet, changed)
        assert fleet.breakers(0.0) == {}
        assert fleet.ready("pool_a") == (worker,)
        salts.append(worker.salt)
    assert len(set(salts)) == 3


def test_a_breaker_outlives_changes_that_do_not_concern_its_worker(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    fail(fleet, "pool_a-0")
    apply(fleet, pool_record("a", FIRST, SECOND, breaker_open_ms=60_000), pool_record("b", THIRD))
    assert capacity(fleet) == ["pool_a-1"]
    assert capacity(fleet, 6.0) == ["pool_a-0", "pool_a-1"]
    apply(fleet, pool_record("a", SECOND))
    assert fleet.breakers(0.0) == {}


@pytest.mark.parametrize(
    ("changes", "concurrency"),
    [
        ({}, 128),
        ({"engine_arguments": {"max_num_seqs": 64}}, 64),
        ({"engine_arguments": {"max_num_seqs": 64}, "worker_concurrency": 8}, 8),
    ],
)
def test_a_worker_runs_as_many_requests_at_once_as_was_said(
    fleet: FleetRegistry, changes: dict[str, object], concurrency: int
) -> None:
    apply(fleet, pool_record("a", FIRST, **changes))
    (worker,) = fleet.ready("pool_a")
    assert worker.concurrency == concurrency


def test_a_cordoned_worker_is_sent_nothing_new_with_or_without_a_supervisor(
    fleet: FleetRegistry,
) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    lease = fleet.ready("pool_a")[1].lease()
    apply(fleet, pool_record("a", FIRST, SECOND, cordoned=(1,)))
    assert ready(fleet) == {"pool_a-0": FIRST}
    direct(fleet, entry(), entry(SECOND, worker_id="pool_a-1"))
    assert ready(fleet) == {"pool_a-0": FIRST}
    assert fleet.inflight() == {"pool_a-0": 0, "pool_a-1": 1}
    lease.release()
    apply(fleet, pool_record("a", FIRST, SECOND))
    assert ready(fleet) == {"pool_a-0": FIRST, "pool_a-1": SECOND}


def test_the_others_load_counts_at_workers_there_are_and_at_those_to_come(
    fleet: FleetRegistry,
) -> None:
    apply(fleet, pool_record("a", FIRST))
    fleet.apply_loads({"pool_a-0": PeerLoad(2, 300, 0.5), "pool_a-1": PeerLoad(1)})
    apply(fleet, pool_record("a", FIRST, SECOND))
    first, second = fleet.ready("pool_a")
    assert (first.peers_inflight, first.peers_prefill_tokens, first.kv_used) == (2, 300, 0.5)
    assert (second.peers_inflight, second.kv_used) == (1, None)
    fleet.apply_loads({})
    assert (first.peers_inflight, first.peers_prefill_tokens, first.kv_used) == (0, 0, None)


def test_prompts_of_one_that_left_and_of_one_that_came_by_its_name_are_added_up(
    fleet: FleetRegistry,
) -> None:
    for tokens in (100, 20):
        apply(fleet, pool_record("a", FIRST))
        fleet.ready("pool_a")[0].lease(tokens)
        apply(fleet, pool_record("b", FIRST))
    apply(fleet, pool_record("a", FIRST))
    fleet.ready("pool_a")[0].lease(3)
    assert fleet.prefill_tokens() == {"pool_a-0": 123}
    assert fleet.inflight() == {"pool_a-0": 3}


def test_one_that_is_set_aside_is_passed_over_until_its_time_is_over(
    fleet: FleetRegistry,
) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    everybody = fleet.capacity("pool_a", 0.0)
    first, second = everybody.workers
    first.lease(now_s=0.0).release(Verdict.WORKING, now_s=1.0, aside_s=5.0)
    assert fleet.capacity("pool_a", 5.9) == Capacity((second,), aside=(first,))
    assert fleet.set_aside(["pool_a", "pool_b"], 5.9) == ("pool_a-0",)
    assert (fleet.breakers(5.9), fleet.open_breakers()) == ({}, {"pool_a": 0})
    apply(fleet, pool_record("a", FIRST, SECOND))
    assert fleet.capacity("pool_a", 5.9).aside == (first,)
    # with nobody aside it is what was built with the configuration
    assert fleet.capacity("pool_a", 6.0) is fleet.capacity("pool_a", 0.0)
    assert fleet.set_aside(["pool_a"], 6.0) == ()


def test_a_request_of_a_former_life_opens_and_sets_aside_nothing() -> None:
    opened: list[str] = []
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    fleet = FleetRegistry(
        origin_of=connections.origin_of,
        data_key=DATA_KEY,
        chance=lambda: 0.0,
        opened=opened.append,
    )
    apply(fleet, pool_record("a", FIRST, breaker_min_requests=1))
    bad, busy = (fleet.ready("pool_a")[0].lease(now_s=0.0) for _ in range(2))
    apply(fleet, pool_record("a", SECOND, breaker_min_requests=1))
    bad.release(Verdict.BAD, now_s=1.0)
    busy.release(Verdict.WORKING, now_s=1.0, aside_s=5.0)
    assert opened == []
    assert fleet.breakers(1.0) == {}
    assert fleet.set_aside(["pool_a"], 1.0) == ()
    fleet.ready("pool_a")[0].lease(now_s=1.0).release(Verdict.BAD, now_s=2.0)
    assert opened == ["pool_a"]


def test_prompts_under_way_are_told_by_worker(fleet: FleetRegistry) -> None:
    apply(fleet, pool_record("a", FIRST, SECOND))
    lease = fleet.ready("pool_a")[1].lease(500)
    assert fleet.prefill_tokens() == {"pool_a-1": 500}
    apply(fleet, pool_record("a", FIRST))
    assert fleet.prefill_tokens() == {"pool_a-1": 500}
    lease.release()
    assert fleet.prefill_tokens() == {}


@pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.DRAINED])
def test_what_runs_at_a_worker_that_drains_is_told_until_it_has_ended(
    fleet: FleetRegistry, state: WorkerState
) -> None:
    apply(fleet, pool_record("a", provisioner=Provisioner.PROCESS))
    direct(fleet, entry())
    (worker,) = fleet.ready("pool_a")
    lease = worker.lease()
    direct(fleet, entry(state=state), generation=2)
    assert (fleet.ready("pool_a"), fleet.directory_generation) == ((), 2)
    assert fleet.inflight() == {"pool_a-0": 1}
    lease.release()
    assert fleet.inflight() == {"pool_a-0": 0}
