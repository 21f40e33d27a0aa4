"""Explain against the live path: the same question, the same record, on a thousand requests."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from inference.contract.kinds import (
    DegradationStep,
    Endpoint,
    ExperimentUnit,
    PoolPower,
    PriorityClass,
    Strategy,
    SwitchSubject,
    TaskClass,
    Weekday,
)
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    MatchRecord,
    ModelRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    RuleRecord,
    ScheduleRecord,
    SwitchRecord,
    TargetRecord,
)
from inference.decisions.breaker import Verdict
from inference.decisions.explain import Case, explain
from inference.decisions.facts import RequestFacts
from inference.decisions.fleet_view import FleetView, WorkerView, fleet_view
from inference.decisions.plan import Plan, Refusal, plan_request
from inference.decisions.queueing import Crowd
from inference.decisions.record import decision_record
from inference.decisions.record import decision_record as record_of
from inference.fleet.peers import PeerLoad
from inference.fleet.prefixes import PrefixIndex, blocks_of
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.fleet.worker import Worker
from inference.gateway.attempts import Attempt, Moment
from inference.gateway.dispatch import Dispatcher, Prompt
from inference.workers.connections import Connections
from inference.workers.registry import OFFERS
from tests.decisions.fleets import KEY, MODEL, PRICE, configured, pool
from tests.decisions.tried import EXPERIMENT, with_experiments

NOW, NOW_S = 1_764_500_000.0, 100.0
REQUESTS = 1_000
PROMPTS = tuple(bytes([65 + kind]) * 6_000 for kind in range(3))


@dataclass
class World:
    """A configuration and the fleet of one gateway process."""

    snapshot: ConfigSnapshot
    registry: FleetRegistry
    prefixes: PrefixIndex
    chances: list[float]

    @property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self.registry,
            prefixes=self.prefixes,
            retries=RetryBudgets(),
            chance=lambda: self.chances[-1],
        )

    def workers(self) -> list[Worker]:
        return list(self.registry._workers.values())


def some_match(chance: Random) -> MatchRecord:
    """One or two conditions, which some of the requests meet."""
    kinds = chance.sample(range(7), chance.randint(1, 2))
    fields: dict[str, object] = {}
    for kind in kinds:
        fields |= (
            {"tags": ("blue", "green")[: chance.randint(1, 2)]},
            {"tasks": (TaskClass.CODE,)},
            {"priorities": (PriorityClass.BATCH,)},
            {"prompt_tokens_min": 800, "prompt_tokens_max": chance.choice((None, 2_000))},
            {"headers": (("x-team", "search"),)},
            {"aliases": ("other",)},
            {"schedule": ScheduleRecord((chance.choice(tuple(Weekday)),), 0, 1_000)},
        )[kind]
    return MatchRecord(**fields)  # type: ignore[arg-type]


def some_targets(chance: Random, prefix: str) -> tuple[TargetRecord, ...]:
    names = chance.sample("abcd", chance.randint(1, 4))
    return tuple(
        TargetRecord(
            f"{prefix}_{name}", f"pool_{name}", chance.choice((0, 1, 3, 10)), tier=place // 3
        )
        for place, name in enumerate(names)
    )


def some_pool(name: str, chance: Random) -> PoolRecord:
    return pool(
        name,
        chance.randint(1, 4),
        model_id=chance.choice(("mdl_a", "mdl_b")),
        power=PoolPower.STOPPED if chance.random() < 0.1 else PoolPower.RUNNING,
        worker_concurrency=chance.choice((None, 2, 8)),
        panic_percent=chance.choice((0, 50, 100)),
        cordoned=(0,) if chance.random() < 0.1 else (),
    )


def some_world(chance: Random, connections: Connections) -> World:
    rules = tuple(
        RuleRecord(
            f"rule_{place}",
            f"rule {place}",
            some_match(chance),
            some_targets(chance, f"r{place}"),
            is_enabled=chance.random() < 0.8,
        )
        for place in range(chance.randint(0, 3))
    )
    route = RouteRecord(
        "rt_m",
        "org_a",
        "m",
        some_targets(chance, "tgt"),
        chance.choice(tuple(Strategy)),
        aliases=("other",),
        rules=rules,
        degradation=(DegradationStep.SMALLER_MODEL,),
    )
    switches = [SwitchRecord("sw", "org_a", SwitchSubject.POOL, "pool_a")]
    snapshot = configured(
        [some_pool(name, chance) for name in "abcd"],
        route,
        models=[MODEL, ModelRecord("mdl_b", "org_a", "small", max_context_tokens=1_000)],
        prices=[PRICE, PriceRecord("prc_b", "org_a", "mdl_b", 10**8, 10**8)][
            : chance.randint(1, 2)
        ],
        switches=switches if chance.random() < 0.2 else (),
    )
    if chance.random() < 0.5:
        snapshot = with_experiments(snapshot, some_experiment(chance))
    registry = FleetRegistry(
        origin_of=connections.origin_of,
        data_key=bytes(32),
        chance=lambda: 0.5,
        crowd=Crowd(2, 0, {}),
    )
    registry.apply_snapshot(snapshot)
    return World(snapshot, registry, PrefixIndex(), [])


def some_experiment(chance: Random) -> ExperimentRecord:
    control, other = EXPERIMENT.variants
    parameters = chance.choice(({}, {"temperature": "0.5"}))
    other = replace(other, targets=some_targets(chance, "var"), parameters=parameters)
    return replace(
        EXPERIMENT,
        unit=chance.choice(tuple(ExperimentUnit)),
        variants=(control, other),
        allocation_bp=chance.choice((5_000, 10_000)),
        when=chance.choice((None, some_match(chance))),
    )


def stir(world: World, chance: Random) -> None:
    """Let the workers have some past: load, breakers, speeds, prompts."""
    loads = {
        one.id: PeerLoad(chance.randint(0, 3), chance.randint(0, 5_000), chance.choice((None, 0.4)))
        for one in world.workers()
    }
    world.registry.apply_loads(loads, Crowd(2, 0, {}))
    for one in world.workers():
        for _ in range(chance.randint(0, 3)):
            one.lease(chance.randint(0, 4_000), now_s=NOW_S)
        one.prefill_rate = chance.choice((2_000.0, 4_000.0))
        if chance.random() < 0.3:
            one.learn_first_token(NOW_S - chance.random() * 60, took_s=chance.random())
        if chance.random() < 0.15:
            for _ in range(3):
                one.breaker.note_end(Verdict.UNREACHABLE, is_trial=False, now_s=NOW_S - 4)
        if chance.random() < 0.1:
            one.breaker.set_aside(NOW_S + 1)
        if chance.random() < 0.3:
            world.prefixes.remember(one.salt, blocks_of(chance.choice(PROMPTS)), now_s=NOW_S - 1)
        one.share_slots(Crowd(2, 0, {}))


def described(world: World) -> FleetView:
    """The same fleet as a value."""
    return fleet_view(
        (
            WorkerView(
                one.id,
                one.pool_id,
                one.state,
                one.inflight,
                one.peers_inflight,
                one.prefill_tokens,
                one.peers_prefill_tokens,
                one.prefill_rate,
                one.concurrency,
                one.kv_used,
                one.first_token_s,
                one.first_token_at_s,
                one.breaker.value,
                one.breaker.aside_until,
                None if one.slots is None else one.most,
            )
            for one in world.workers()
        ),
        now_s=NOW_S,
    )


def some_facts(chance: Random, prompt: bytes) -> RequestFacts:
    return RequestFacts(
        chance.choice(("m", "m", "m", "other", "unknown")),
        prompt_tokens_max=len(prompt),
        output_tokens_requested=chance.choice((None, 50, 500)),
        endpoint=Endpoint.CHAT,
        prompt_tokens=chance.choice((100, 1_500)),
        end_user=chance.choice((None, "ann")),
        tags=chance.choice(((), ("blue",), ("red",))),
        priority=chance.choice((None, PriorityClass.BATCH)),
        task=chance.choice((None, TaskClass.CODE)),
        session=chance.choice((None, "s1", "s2")),
        headers=chance.choice(((), (("x-team", "search"),))),
    )


def live(world: World, facts: RequestFacts, prompt: bytes, u: float) -> tuple[object, object]:
    """What the live path decides: its refusal, or the record of its first attempt, or None."""
    plan = plan_request(world.snapshot, KEY, request=facts, now=NOW, u=u, offers=OFFERS)
    if isinstance(plan, Refusal):
        return plan, None
    dispatcher = world.dispatcher
    text = Prompt(lambda: prompt, tokens=len(prompt) // 4)
    rooms = dispatcher.rooms(plan, (), now_s=NOW_S)
    if not rooms:
        return None, record_of(plan, ())
    placement = dispatcher.place(plan, rooms, prompt=text, now_s=NOW_S)
    if placement.choice.worker.is_full:
        rooms = dispatcher.free_rooms(plan, (), now_s=NOW_S)
        if not rooms:
            return None, record_of(plan, ())
        placement = dispatcher.place(plan, rooms, prompt=text, now_s=NOW_S)
    attempt = Attempt(1, placement, Moment(0, NOW_S), route=plan.route)
    record = decision_record(plan, [attempt])
    attempt.end(NOW_S)
    return None, record


def hits_of(world: World, prompt: bytes) -> dict[str, float]:
    return world.prefixes.hits(world.workers(), blocks_of(prompt), now_s=NOW_S)


def worlds(chance: Random, count: int) -> Iterator[World]:
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    for _ in range(count):
        world = some_world(chance, connections)
        stir(world, chance)
        yield world


def is_tried(decided: Plan | Refusal) -> bool:
    return any(one.variant is not None for one in decided.assignments)


def test_explain_and_the_live_path_make_the_same_record_of_a_thousand_requests() -> None:
    chance = Random(7)
    seen: dict[str, int] = {}
    for world in worlds(chance, REQUESTS // 10):
        for _ in range(10):
            prompt = chance.choice(PROMPTS)
            facts = some_facts(chance, prompt)
            plan_u, worker_u = chance.random(), chance.random()
            case = Case(
                snapshot=world.snapshot,
                identity=KEY,
                facts=facts,
                fleet=described(world),
                now=NOW,
                plan_u=plan_u,
                worker_u=worker_u,
                hits=hits_of(world, prompt),
                offers=OFFERS,
            )
            explained = explain(case, draws=4)
            world.chances.append(worker_u)
            refusal, record = live(world, facts, prompt, plan_u)
            if refusal is not None:
                assert explained.decided == refusal
            else:
                assert explained.record == record
            kind = "refused" if refusal else "placed" if explained.choice else "nobody"
            seen[kind] = seen.get(kind, 0) + 1
            seen["waits"] = seen.get("waits", 0) + explained.waits
            seen["variants"] = seen.get("variants", 0) + is_tried(explained.decided)
            seen["rules"] = seen.get("rules", 0) + ("rule" in (record or {}))  # type: ignore[operator]
    assert sum(seen[kind] for kind in ("refused", "placed", "nobody")) == REQUESTS
    # every road was walked, and often
    assert min(seen.values()) >= 30, seen
