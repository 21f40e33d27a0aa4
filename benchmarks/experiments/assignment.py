"""What it takes to assign requests to variants: `python -m benchmarks.experiments.assignment`.

CPU time in microseconds, the median of several rounds, over 1,000 end users: one experiment, and
ten on a route; then the plan of a request with no experiment on its route, with one whose variant
has a target of its own, and with ten.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, ExperimentUnit, Provisioner
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    KeyRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
    VariantRecord,
)
from inference.decisions.endpoints import EVERYTHING
from inference.decisions.experiments import assign
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.groundwork import Groundwork
from inference.decisions.plan import Plan, plan_request
from inference.decisions.rules import Circumstances

USERS, ROUNDS, MOST = 1_000, 9, 10
KEY = KeyRecord("k", "org_a", "team_a", "proj_a", ())
FACTS = [RequestFacts("m", 500, 100, end_user=f"user {number}") for number in range(USERS)]
ROUTE = RouteRecord("rt_a", "org_a", "m", (TargetRecord("tgt_a", "pool_a", 1),))
EXPERIMENT = ExperimentRecord(
    "exp_0",
    "org_a",
    "rt_a",
    "another model",
    "salt",
    ExperimentUnit.USER,
    1,
    (
        VariantRecord("var_a", "control", 5_000),
        VariantRecord("var_b", "other", 5_000, (TargetRecord("tgt_b", "pool_b", 1),)),
    ),
    10_000,
    "layer",
)


def experiments(count: int) -> tuple[ExperimentRecord, ...]:
    """So many in layers of their own; the first alone changes targets."""
    others = (VariantRecord("var_c", "warm", 10_000, parameters={"temperature": "0.5"}),)
    return (
        EXPERIMENT,
        *(
            replace(EXPERIMENT, id=f"exp_{n}", salt=f"s{n}", layer=f"layer-{n}", variants=others)
            for n in range(1, count)
        ),
    )


def configuration(tested: tuple[ExperimentRecord, ...]) -> ConfigSnapshot:
    pools = [
        PoolRecord(
            f"pool_{name}",
            "org_a",
            name,
            "mdl_a",
            Provisioner.STATIC,
            Backend.VLLM,
            "served",
            addresses=("http://127.0.0.1:9/v1",),
        )
        for name in "ab"
    ]
    records = {
        "organisations": (OrganisationRecord("org_a", "a"),),
        "models": (ModelRecord("mdl_a", "org_a", "llama"),),
        "pools": pools,
        "routes": (ROUTE,),
        "experiments": tested,
        "prices": (),
        "keys/00": (KEY,),
    }
    sections = {name: index_section(name, found) for name, found in records.items()}
    return assemble(Manifest("L", 1, {}, 0.0), sections)


def timed(call: Callable[[int], object]) -> float:
    """Microseconds a call."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for number in range(USERS):
            call(number)
        rounds.append(time.process_time() - began)
    return statistics.median(rounds) / USERS * 1e6


def assigning(tested: tuple[ExperimentRecord, ...]) -> float:
    cases = [Circumstances(facts, standing_of(facts, KEY, ROUTE), KEY, 1e9) for facts in FACTS]
    return timed(lambda number: assign(tested, cases[number], 0.5))


def planning(tested: tuple[ExperimentRecord, ...]) -> float:
    snapshot = configuration(tested)
    ground = Groundwork(snapshot, EVERYTHING, 1e9)

    def plan(number: int) -> None:
        made = plan_request(snapshot, KEY, request=FACTS[number], now=1e9, u=0.5, ground=ground)
        assert isinstance(made, Plan)

    return timed(plan)


def main() -> None:
    """Print both tables."""
    print("| | one experiment | ten |\n|---|---|---|")
    print(f"| assigned | {assigning(experiments(1)):.2f} | {assigning(experiments(MOST)):.2f} |\n")
    print("| | none | one | ten |\n|---|---|---|---|")
    found = [planning(()), planning(experiments(1)), planning(experiments(MOST))]
    print("| planned |" + "".join(f" {one:.2f} |" for one in found))


if __name__ == "__main__":
    main()
