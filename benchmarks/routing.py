"""What it costs to choose a worker, in microseconds: `python -m benchmarks.routing`.

One route over one pool of 1, 8, 32 or 64 workers with uneven load, by each strategy; for
`least_work` with a short prompt, with one of 20 KB that nobody has cached, and with one that a
worker has. CPU time, the median of several rounds; a lease is taken and released each time.
"""

import random
import statistics
import time
from collections.abc import Callable

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, Provisioner, Strategy
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
)
from inference.decisions.breaker import Verdict
from inference.decisions.plan import Plan, RequestFacts, plan_request
from inference.fleet.peers import PeerLoad
from inference.fleet.prefixes import PrefixIndex
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.gateway.dispatch import Dispatcher, Prompt
from inference.workers.connections import Connections

SIZES = (1, 8, 32, 64)
CALLS, ROUNDS = 2_000, 7
SHORT, LONG = 500, 20 * 1024
KEY = KeyRecord("k", "org_a", "team_a", "proj_a", ())


def configuration(workers: int, strategy: Strategy) -> ConfigSnapshot:
    addresses = tuple(f"http://127.0.0.1:{9_000 + number}/v1" for number in range(workers))
    pool = PoolRecord(
        "pool_a",
        "org_a",
        "a",
        "mdl_a",
        Provisioner.STATIC,
        Backend.VLLM,
        "m",
        addresses=addresses,
    )
    route = RouteRecord(
        "rt_m", "org_a", "m", (TargetRecord("tgt_a", "pool_a", 1),), strategy=strategy
    )
    sections = {
        "organisations": (OrganisationRecord("org_a", "Water"),),
        "models": (ModelRecord("mdl_a", "org_a", "m"),),
        "prices": (),
        "pools": (pool,),
        "routes": (route,),
    }
    indexed = {name: index_section(name, records) for name, records in sections.items()}
    return assemble(Manifest("L1", 1, {}, 0.0), indexed)


class Bench:
    """One fleet under load, and one way to ask it."""

    def __init__(self, workers: int, strategy: Strategy) -> None:
        snapshot = configuration(workers, strategy)
        origin_of = Connections(is_forbidden=lambda _ip, _port: False).origin_of
        self.fleet = FleetRegistry(origin_of=origin_of, data_key=bytes(32))
        self.fleet.apply_snapshot(snapshot)
        chance = random.Random(7)
        loads = {
            worker.id: PeerLoad(chance.randrange(64), chance.randrange(20_000), chance.random())
            for worker in self.fleet.ready("pool_a")
        }
        self.fleet.apply_loads(loads)
        self.dispatcher = Dispatcher(
            self.fleet, prefixes=PrefixIndex(), retries=RetryBudgets(), chance=chance.random
        )
        facts = RequestFacts("m", prompt_tokens_max=SHORT)
        plan = plan_request(snapshot, KEY, request=facts, now=0.0, u=0.5)
        assert isinstance(plan, Plan)
        self.plan = plan

    def place(self, prompt: bytes) -> None:
        """All that routing does for one request."""
        now_s = time.perf_counter()
        rooms = self.dispatcher.rooms(self.plan, (), now_s=now_s)
        self.dispatcher.may_attempt(self.plan.route, is_retry=False, now_s=now_s)
        placement = self.dispatcher.place(
            self.plan,
            rooms,
            prompt=Prompt(lambda: prompt, bytes_max=len(prompt)),
            now_s=now_s,
        )
        lease = placement.choice.worker.lease(placement.prefill_tokens, now_s=now_s)
        self.dispatcher.note_content(placement, now_s=now_s)
        lease.release(Verdict.GOOD, now_s=now_s)


def median_us(call: Callable[[int], object]) -> float:
    rounds = []
    for number in range(ROUNDS):
        began = time.process_time()
        for step in range(CALLS):
            call(number * CALLS + step)
        rounds.append((time.process_time() - began) / CALLS * 1e6)
    return statistics.median(rounds)


def main() -> None:
    short, long = bytes(SHORT), bytes(LONG)
    ways: tuple[tuple[str, Strategy, Callable[[int], bytes]], ...] = (
        ("weighted", Strategy.WEIGHTED, lambda _step: short),
        ("least_work, short prompt", Strategy.LEAST_WORK, lambda _step: short),
        (
            "least_work, 20 KB, new",
            Strategy.LEAST_WORK,
            lambda step: step.to_bytes(8, "big") + long,
        ),
        ("least_work, 20 KB, cached", Strategy.LEAST_WORK, lambda _step: long),
    )
    print(f"{'':28}" + "".join(f"{size:>9}" for size in SIZES) + "  workers; µs a request")
    for name, strategy, prompt_of in ways:
        found = []
        for size in SIZES:
            bench = Bench(size, strategy)
            found.append(median_us(lambda step: bench.place(prompt_of(step))))  # noqa: B023
        print(f"{name:28}" + "".join(f"{one:9.1f}" for one in found))


if __name__ == "__main__":
    main()
