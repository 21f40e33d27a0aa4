"""What it costs to plan and to choose a worker, in microseconds: `python -m benchmarks.routing`.

One route over one pool of 1, 8, 32 or 64 workers with uneven load, by each strategy; for
`least_work` with a short prompt, with one of 20 KB that nobody has cached, and with one that a
worker has. CPU time, the median of several rounds; a lease is taken and released each time.

Then the plan of a request, headers and facts included, over a route of two targets: as it is
mostly, with rules of which none or the last applies, with tiers, by an alias, with a kill switch.
"""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, Endpoint, Provisioner, Strategy, SwitchSubject
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    Manifest,
    MatchRecord,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    RouteRecord,
    RuleRecord,
    ScheduleRecord,
    SwitchRecord,
    TargetRecord,
)
from inference.decisions.breaker import Verdict
from inference.decisions.endpoints import EVERYTHING
from inference.decisions.groundwork import Groundwork
from inference.decisions.plan import Plan, RequestFacts, plan_request
from inference.fleet.peers import PeerLoad
from inference.fleet.prefixes import PrefixIndex
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.gateway.dispatch import Dispatcher, Prompt
from inference.gateway.facts import facts_for
from inference.gateway.headers import read_headers
from inference.gateway.schemas import parse_request
from inference.workers.connections import Connections

SIZES = (1, 8, 32, 64)
CALLS, ROUNDS = 2_000, 7
SHORT, LONG = 500, 20 * 1024
KEY = KeyRecord("k", "org_a", "team_a", "proj_a", ())

# what the official client sends
HEADERS = (
    (b"host", b"gateway"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"accept", b"application/json"),
    (b"content-type", b"application/json"),
    (b"user-agent", b"OpenAI/Python"),
    (b"x-stainless-lang", b"python"),
    (b"x-stainless-package-version", b"1"),
    (b"x-stainless-os", b"Linux"),
    (b"x-stainless-arch", b"x64"),
    (b"x-stainless-runtime", b"CPython"),
    (b"x-stainless-async", b"false"),
    (b"authorization", b"Bearer hw_k.secret"),
    (b"content-length", b"100"),
)
WISHES = ((b"x-headworks-tags", b"web,beta"), (b"x-headworks-task", b"code"), (b"x-tier", b"gold"))
BODY = b'{"model":"%b","messages":[{"role":"user","content":"ping"}],"max_tokens":10}'


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
        self.dispatcher.note_request(self.plan.route.id, now_s)
        placement = self.dispatcher.place(
            self.plan,
            rooms,
            prompt=Prompt(lambda: prompt, tokens=len(prompt) // 4),
            now_s=now_s,
        )
        lease = placement.choice.worker.lease(placement.prefill_tokens, now_s=now_s)
        self.dispatcher.note_content(placement, now_s=now_s)
        lease.release(Verdict.GOOD, now_s=now_s)


def rules_of(count: int) -> tuple[RuleRecord, ...]:
    """Rules of which only the last applies, and that to callers who say so."""
    office = ScheduleRecord(from_minute=0, to_minute=1)
    others = [MatchRecord(tags=(f"t{number}",), schedule=office) for number in range(count - 1)]
    gold = MatchRecord(headers=(("x-tier", "gold"),), tags=("web",))
    return tuple(
        RuleRecord(f"rule_{number}", "r", when, (TargetRecord("tgt_b", "pool_b", 1),))
        for number, when in enumerate((*others, gold))
    )


def planner(
    *,
    rules: tuple[RuleRecord, ...] = (),
    tiers: bool = False,
    model: bytes = b"m",
    wishes: tuple[tuple[bytes, bytes], ...] = (),
    switches: tuple[SwitchRecord, ...] = (),
) -> Callable[[int], object]:
    """What is done for a request whose body was read, up to its plan."""
    plain = configuration(1, Strategy.LEAST_WORK)
    pool = plain.pools["pool_a"]
    targets = (TargetRecord("tgt_a", "pool_a", 3), TargetRecord("tgt_b", "pool_b", 1, tier=tiers))
    route = replace(plain.routes["org_a", "m"], targets=targets, rules=rules, aliases=("alias",))
    sections = {
        "organisations": plain.organisations,
        "models": plain.models,
        "prices": {},
        "pools": index_section("pools", (pool, replace(pool, id="pool_b", name="b"))),
        "routes": index_section("routes", (route,)),
        "switches": index_section("switches", switches),
    }
    snapshot = assemble(Manifest("L1", 1, {}, 0.0), sections)
    request = parse_request(Endpoint.CHAT, BODY % model)
    raw = HEADERS + wishes

    ground = Groundwork(snapshot, EVERYTHING, 0.0)

    def plan(step: int) -> object:
        headers = read_headers(raw)
        way = ground.way(KEY, request.model)
        assert way is not None
        facts = facts_for(request, headers, identity=KEY, looked_at=way.looked_at)
        made = plan_request(
            snapshot, KEY, request=facts, now=1e9, u=step % 97 / 97, ground=ground, way=way
        )
        assert isinstance(made, Plan)
        return made

    return plan


def print_plans() -> None:
    off = SwitchRecord("sw", "org_a", SwitchSubject.POOL, "pool_b")
    ways: tuple[tuple[str, Callable[[int], object]], ...] = (
        ("no rules", planner()),
        ("by an alias", planner(model=b"alias")),
        ("two tiers", planner(tiers=True)),
        ("a kill switch", planner(switches=(off,))),
        ("3 rules, none applies", planner(rules=rules_of(3))),
        ("3 rules, the last applies", planner(rules=rules_of(3), wishes=WISHES)),
        ("100 rules, none applies", planner(rules=rules_of(100))),
    )
    print(f"\n{'':28}{'µs a plan':>9}")
    for name, plan in ways:
        print(f"{name:28}{median_us(plan):9.1f}")


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
        ("session_affinity", Strategy.SESSION_AFFINITY, lambda _step: short),
        ("prefix_affinity, 20 KB", Strategy.PREFIX_AFFINITY, lambda _step: long),
        ("lowest_latency", Strategy.LOWEST_LATENCY, lambda _step: short),
        ("cheapest", Strategy.CHEAPEST, lambda _step: short),
    )
    print(f"{'':28}" + "".join(f"{size:>9}" for size in SIZES) + "  workers; µs a request")
    for name, strategy, prompt_of in ways:
        found = []
        for size in SIZES:
            bench = Bench(size, strategy)
            found.append(median_us(lambda step: bench.place(prompt_of(step))))  # noqa: B023
        print(f"{name:28}" + "".join(f"{one:9.1f}" for one in found))
    print_plans()


if __name__ == "__main__":
    main()
