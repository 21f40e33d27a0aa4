"""What an edit of a pool is said to do, held to what the supervisor would do."""

from dataclasses import fields, replace

import pytest

from controlplane.decisions.pools import Acting, PoolFacts, acting_of, impact_of
from inference.contract.kinds import Backend, Endpoint, PoolPower, Provisioner, Task
from inference.contract.snapshot import PoolRecord
from inference.decisions.engine import engine_digest
from inference.decisions.lifecycle import make_spec

POOL = PoolRecord(
    id="pool_1",
    organisation_id="org_1",
    name="small",
    model_id="mdl_1",
    provisioner=Provisioner.PROCESS,
    backend=Backend.VLLM,
    served_model_name="m",
    replicas=2,
    model_source="smollm2-135m-instruct",
)
OTHER_VALUES = {
    "name": "large",
    "model_id": "mdl_2",
    "backend": Backend.OPENAI,
    "served_model_name": "n",
    "power": PoolPower.STOPPED,
    "replicas": 3,
    "addresses": ("http://10.0.0.1/v1",),
    "credential": "sealed",
    "model_source": "all-minilm-l6-v2",
    "engine_arguments": {"max_num_seqs": 4},
    "port_base": 9100,
    "restart_generation": 1,
    "start_timeout_s": 10,
    "drain_timeout_s": 1,
    "cordoned": (0,),
    "worker_restarts": {"0": 1},
    "worker_concurrency": 4,
    "breaker_failure_percent": 10,
    "breaker_min_requests": 1,
    "breaker_open_ms": 100,
    "panic_percent": 0,
    "endpoints": (Endpoint.CHAT,),
}
TWO = PoolFacts("process", "running", 2)
ONE = PoolFacts("process", "running", 1)


def digest(pool: PoolRecord) -> str:
    """Of the pool's first worker."""
    line = engine_digest(pool, task=Task.GENERATE, python="python", models_folder="/models")
    return make_spec(pool, 0, task=Task.GENERATE, digest=line).digest


def test_a_field_is_said_to_roll_exactly_if_the_supervisor_would_replace_workers() -> None:
    named = {field.name for field in fields(PoolRecord)} - {"id", "organisation_id", "provisioner"}
    assert named == set(OTHER_VALUES)
    for name, value in OTHER_VALUES.items():
        is_replaced = digest(replace(POOL, **{name: value})) != digest(POOL)
        said = acting_of(name.removesuffix("_id"), "process")
        assert said is (Acting.ROLLING if is_replaced else Acting.LIVE), name


def test_all_of_a_static_pool_acts_live_and_another_provisioner_restarts_everything() -> None:
    assert {acting_of(name, "static") for name in OTHER_VALUES} == {Acting.LIVE}
    assert acting_of("provisioner", "static") is Acting.RESTART


@pytest.mark.parametrize(
    ("facts", "changes", "told"),
    [
        (TWO, {"restart_generation": 1}, "Rolling restart of 2 workers, usually about 90 s."),
        (
            ONE,
            {"engine_arguments": {}},
            "Rolling restart of 1 worker, usually about 45 s. There is one only, so nothing is "
            "served meanwhile.",
        ),
        (
            replace(TWO, power="stopped"),
            {"model_source": "x"},
            "No worker of it runs now; the next start uses the new values.",
        ),
        (
            ONE,
            {"power": "stopped"},
            "1 worker stops; it finishes its requests first. Nothing is served from here.",
        ),
        (
            TWO,
            {"power": "stopped"},
            "2 workers stop; each finishes its requests first. Nothing is served from here.",
        ),
        (
            replace(TWO, power="stopped"),
            {"power": "running"},
            "2 workers start, all at once: usually about 45 s.",
        ),
        (
            TWO,
            {"power": "drained"},
            "2 workers run on and are sent nothing new. Nothing is served from here.",
        ),
        (replace(ONE, power="drained"), {"power": "running"}, "1 worker is sent requests again."),
        (
            replace(ONE, power="stopped"),
            {"power": "drained"},
            "1 worker starts: usually about 45 s. Nothing is sent to it.",
        ),
        (
            TWO,
            {"cordoned": [1]},
            "Worker 1 finishes its requests and is sent nothing new; it runs on.",
        ),
        (replace(TWO, cordoned=(0,)), {"cordoned": []}, "Worker 0 is sent requests again."),
        (
            replace(TWO, restarts={"0": 2}),
            {"worker_restarts": {"0": 2, "1": 1}},
            "Worker 1 finishes its requests, ends, and starts again: usually about 45 s.",
        ),
        (TWO, {"replicas": 3}, "1 worker more, usually ready in about 45 s."),
        (TWO, {"replicas": 0}, "2 workers less; each finishes its requests first, then ends."),
        (
            replace(TWO, power="stopped"),
            {"replicas": 3},
            "The pool is stopped; 3 workers will start with it.",
        ),
        (TWO, {"drain_timeout_s": 5}, "Acts in about a second; no worker restarts."),
        (
            PoolFacts("static", "running", 1),
            {"addresses": []},
            "Gateways send to the new addresses within a second.",
        ),
        (
            PoolFacts("static", "running", 1),
            {"power": "stopped"},
            "Its addresses are out of use within a second.",
        ),
        (
            TWO,
            {"provisioner": "static"},
            "All workers end, and others start in their place. Expect a gap in service.",
        ),
    ],
)
def test_the_impact_is_told_in_words_with_figures(
    facts: PoolFacts, changes: dict[str, object], told: str
) -> None:
    assert impact_of(facts, changes, ()) == [told]


def test_routes_are_named_where_callers_may_feel_it_and_only_there() -> None:
    routes = ["f", "e", "d", "c", "b", "a"]
    assert impact_of(TWO, {"power": "stopped"}, routes)[-1] == (
        "Routes a, b, c, d, e and 1 more send here."
    )
    assert impact_of(TWO, {"restart_generation": 1}, ["a"])[-1] == "Route a sends here."
    assert len(impact_of(TWO, {"drain_timeout_s": 5}, routes)) == 1


def test_draining_the_last_worker_is_said_to_leave_nothing() -> None:
    told = impact_of(replace(TWO, cordoned=(0,)), {"cordoned": [0, 1]}, ["chat"])
    assert told[1:] == [
        "No other worker is left, so nothing is served from here.",
        "Route chat sends here.",
    ]
