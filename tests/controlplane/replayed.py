"""A route over two pools, and past traffic of it as engines would have served it, in the ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from controlplane.bridge.configurations import newest_revision
from controlplane.models import Organisation, Project
from controlplane.selectors.snapshots import get_configuration
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from inference.contract.events import End, Usage
from inference.contract.kinds import Endpoint
from inference.decisions.cost import cost_of
from inference.decisions.endpoints import EVERYTHING
from inference.decisions.facts import RequestFacts, facts_record
from inference.decisions.groundwork import Groundwork
from inference.decisions.replay import Recorded
from tests.controlplane.ledger_events import make_charge, make_end, make_origin
from tests.decisions.step_engine import Happened, Speed, StepWorker, run_engines

SPEEDS = {"large": Speed(), "small": Speed(step_s=0.02, token_s=0.0002)}
SLOTS = 64
REQUESTS = 600


def make_route(actor: Actor, home: Organisation) -> Mapping[str, str]:
    """Make the route `chat` over pools `large`, which gets nine of ten, and `small`, and a key.

    The ids of the pools by name, of the `route` and the `project`, and the `key`'s as gateways
    know it.
    """
    pools = {
        name: create_pool(
            actor,
            organisation=home,
            name=name,
            model=name,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port + place}/v1" for place in range(2)],
            worker_concurrency=SLOTS,
        )
        for port, name in ((9_000, "large"), (9_100, "small"))
    }
    targets = [TargetChoice(pools["large"], 9), TargetChoice(pools["small"], 1)]
    route = create_route(
        actor, organisation=home, name="chat", targets=targets, strategy="weighted"
    )
    project = Project.objects.get(organisation=home)
    key = create_key(actor, organisation=home, project=project, name="mine").key
    return {
        **{name: pool.pk for name, pool in pools.items()},
        "route": route.pk,
        "project": project.pk,
        "key": key.pk.removeprefix("key_"),
    }


def traffic(key: str, begin: datetime, *, seed: int) -> Sequence[Recorded]:
    """The same requests whatever the seed, which names them."""
    chance, at_s, found = Random(1), begin.timestamp(), []
    for place in range(REQUESTS):
        at_s += chance.expovariate(4.0)
        prompt = min(int(chance.lognormvariate(6.0, 1.0)) + 1, 6_000)
        facts = RequestFacts("chat", prompt_tokens_max=4 * prompt, prompt_tokens=prompt)
        output = min(int(chance.lognormvariate(3.4, 0.8)) + 2, 300)
        found.append(Recorded(f"req_{seed:02}{place:024}", at_s, key, facts, prompt, output))
    return found


def served(ids: Mapping[str, str], begin: datetime, *, seed: int) -> list[End]:
    """What engines make of it under the configuration there is, as gateways write it down.

    `ids` are those of the pools `large` and `small`, of the route `chat`, and of the `key`.
    """
    snapshot = get_configuration(newest_revision())
    workers = {
        ids[name]: [
            StepWorker(f"{ids[name]}-{place}", ids[name], speed, SLOTS) for place in range(2)
        ]
        for name, speed in SPEEDS.items()
    }
    happened = run_engines(snapshot, workers, traffic(ids["key"], begin, seed=seed), seed=seed)
    return [_end(ids, snapshot, one, seed * 10_000 + place) for place, one in enumerate(happened)]


def when_recorded(ends: Sequence[End]) -> datetime:
    """A time at which all of them have ended."""
    return datetime.fromtimestamp(ends[-1].at_ms / 1000 + 1, UTC)


def _end(ids: Mapping[str, str], snapshot: Any, one: Happened, seq: int) -> End:
    request, fact = one.request, one.fact
    pool = snapshot.pools[one.pool_id]
    ground = Groundwork(snapshot, EVERYTHING, one.request.arrived_s)
    price = ground.price_of(pool, Endpoint.CHAT)
    usage = Usage(request.prompt_tokens, request.output_tokens, 0)
    cost = cost_of(usage, price)
    charge = make_charge(
        target_id=f"of {pool.name}",
        pool_id=pool.id,
        model_id=pool.model_id,
        worker_id=fact.worker_id,
        usage=usage,
        started_at_ms=int(fact.started_s * 1000),
        duration_ms=(fact.ended_s - fact.started_s) * 1000,
        first_token_ms=one.first_token_s * 1000,
        price=price,
        cost_nanousd=cost,
        cost_max_nanousd=cost,
    )
    origin = make_origin(
        organisation_id=pool.organisation_id,
        key_id=ids["key"],
        requested_model="chat",
        route_id=ids["route"],
        route_name="chat",
    )
    return make_end(
        seq,
        event_id=request.event_id,
        at_ms=int(fact.ended_s * 1000),
        received_at_ms=int(request.arrived_s * 1000),
        origin=origin,
        charges=(charge,),
        first_token_ms=one.first_token_s * 1000,
        total_ms=(fact.ended_s - request.arrived_s) * 1000,
        queued_ms=None,
        decision={"facts": facts_record(request.facts), "u": (seq * 0.618034) % 1},
    )
