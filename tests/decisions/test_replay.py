"""Recorded requests replayed on a model of the fleet, held against engines that take steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from inference.contract.kinds import PriorityClass, Strategy
from inference.contract.snapshot import ConfigSnapshot, RouteRecord, TargetRecord
from inference.decisions.endpoints import OFFERS
from inference.decisions.facts import RequestFacts
from inference.decisions.fleet_learning import AttemptFact, Learned, learn, least_squares
from inference.decisions.fleetmodel import SimulatedWorker, WorkerModel
from inference.decisions.replay import (
    NO_WORKER,
    QUEUE_FULL,
    QUEUE_TIMEOUT,
    Recorded,
    Replay,
    Replayed,
)
from inference.decisions.replay_report import errors_of, is_good, percentile
from tests.decisions.fleets import KEY, configured, pool
from tests.decisions.step_engine import Happened, Speed, StepWorker, run_engines

pytestmark = pytest.mark.slow


SPEEDS = {"pool_a": Speed(), "pool_b": Speed(step_s=0.02, token_s=0.0002, request_s=0.0008)}
SLOTS = 64


def split(weight_a: int, weight_b: int, strategy: Strategy = Strategy.WEIGHTED) -> ConfigSnapshot:
    targets = (
        TargetRecord("tgt_a", "pool_a", weight_a),
        TargetRecord("tgt_b", "pool_b", weight_b),
    )
    pools = [pool(name, 2, worker_concurrency=SLOTS) for name in "ab"]
    return configured(pools, RouteRecord("rt_m", "org_a", "m", targets, strategy))


def recorded(place: int, at_s: float, prompt: int, output: int, **other: object) -> Recorded:
    facts = RequestFacts("m", prompt_tokens_max=prompt * 4, prompt_tokens=prompt)
    return replace(
        Recorded(f"ev_{place:05}", at_s, KEY.id, facts, prompt, output),
        **other,  # type: ignore[arg-type]
    )


def traffic(seed: int, *, seconds: float, rate: float) -> list[Recorded]:
    """Arrivals by chance, three times as many in every third stretch of ten seconds."""
    chance, at_s, found = Random(seed), 0.0, []
    while at_s < seconds:
        burst = 3.0 if int(at_s / 10) % 3 == 0 else 1.0
        at_s += chance.expovariate(rate * burst)
        prompt = min(int(chance.lognormvariate(6.0, 1.0)) + 1, 6_000)
        output = min(int(chance.lognormvariate(3.6, 0.8)) + 1, 400)
        found.append(recorded(len(found), at_s, prompt, output))
    return found


def engines(speeds: Mapping[str, Speed] = SPEEDS) -> dict[str, list[StepWorker]]:
    return {
        pool: [StepWorker(f"{pool}-{place}", pool, speed, SLOTS) for place in range(2)]
        for pool, speed in speeds.items()
    }


def simulated(learned: Learned) -> dict[str, list[SimulatedWorker]]:
    return {
        pool: [
            SimulatedWorker(
                id=f"{pool}-{place}",
                pool_id=pool,
                model=learned.of(f"{pool}-{place}", pool),
                concurrency=SLOTS,
                slots=SLOTS,
            )
            for place in range(2)
        ]
        for pool in SPEEDS
    }


def percentiles(times: Sequence[float]) -> Mapping[str, float]:
    ranked = sorted(times)
    return {"p50": percentile(ranked, 0.5), "p95": percentile(ranked, 0.95)}


def foretold_and_true(
    past: Sequence[Happened], draft: ConfigSnapshot, speeds: Mapping[str, Speed] = SPEEDS
) -> tuple[Sequence[Replayed], Sequence[Happened]]:
    """What a replay of past requests says of a draft, and what engines make of them under it."""
    learned = learn([one.fact for one in past], concurrency=dict.fromkeys(SPEEDS, SLOTS))
    requests = sorted((one.request for one in past), key=lambda one: one.arrived_s)
    replay = Replay(draft, simulated(learned), offers=OFFERS)
    replay.feed(requests)
    replay.finish()
    return replay.outcomes, run_engines(draft, engines(speeds), requests, seed=3)


def errors_between(
    replayed: Sequence[Replayed], truth: Sequence[Happened]
) -> Mapping[str, float | None]:
    predicted = percentiles([one.first_token_s or 0.0 for one in replayed])
    return errors_of(predicted, percentiles([one.first_token_s for one in truth]))


@pytest.fixture(scope="module")
def yesterday() -> list[Happened]:
    return run_engines(split(8, 2), engines(), traffic(12, seconds=200, rate=4.0), seed=2)


@pytest.mark.parametrize(
    "draft",
    [split(8, 2), split(4, 6), split(5, 5, Strategy.LEAST_WORK)],
    ids=["unchanged", "weights", "strategy"],
)
def test_first_tokens_under_another_configuration_are_foretold(
    yesterday: list[Happened], draft: ConfigSnapshot
) -> None:
    replayed, truth = foretold_and_true(yesterday, draft)
    errors = errors_between(replayed, truth)
    assert is_good(errors), errors
    share = sum(one.pool_id == "pool_a" for one in truth) / len(truth)
    foretold = sum(one.pool_id == "pool_a" for one in replayed) / len(replayed)
    assert foretold == pytest.approx(share, abs=0.05)


def test_the_bursts_of_a_public_trace_are_foretold() -> None:
    lines = (Path(__file__).parent / "traces/azure_code.csv").read_text().splitlines()[3:]
    rows = [tuple(int(figure) for figure in line.split(",")) for line in lines]
    requests = [
        recorded(place, at_ms / 1000, prompt, output)
        for place, (at_ms, prompt, output) in enumerate(rows)
    ]
    speeds = {"pool_a": Speed(token_s=0.00003), "pool_b": Speed(token_s=0.00006)}
    past = run_engines(split(8, 2), engines(speeds), requests, seed=2)
    for draft in (split(8, 2), split(6, 4), split(5, 5, Strategy.LEAST_WORK)):
        errors = errors_between(*foretold_and_true(past, draft, speeds))
        assert is_good(errors), errors


def busy(slots: int | None = 1, **route: object) -> ConfigSnapshot:
    """One worker that runs one request at a time, for a second each."""
    targets = (TargetRecord("tgt_a", "pool_a", 1),)
    record = RouteRecord("rt_m", "org_a", "m", targets, **route)  # type: ignore[arg-type]
    return configured([pool("a", worker_concurrency=slots)], record)


def outcomes(
    snapshot: ConfigSnapshot, requests: Sequence[Recorded], slots: int | None = 1
) -> Sequence[Replayed]:
    model = WorkerModel(first_token_s=1.0, prompt_token_s=0.0)
    worker = SimulatedWorker(
        id="pool_a-0", pool_id="pool_a", model=model, concurrency=1, slots=slots
    )
    replay = Replay(snapshot, {"pool_a": [worker]}, offers=OFFERS)
    replay.feed(requests)
    replay.finish()
    return replay.outcomes


def test_requests_wait_in_the_gateway_by_class_and_no_longer_than_they_may() -> None:
    batch = replace(recorded(0, 0.0, 1, 1).facts, priority=PriorityClass.BATCH)
    requests = [
        recorded(0, 0.0, 1, 1),
        recorded(1, 0.1, 1, 1, facts=batch),
        recorded(2, 0.2, 1, 1),
        recorded(3, 0.3, 1, 1),
    ]
    found = outcomes(busy(max_queue_wait_ms=2_500, max_queued=3), requests)
    assert [one.refused for one in found] == [None, QUEUE_TIMEOUT, None, None]
    assert [round(one.queued_s, 6) for one in found] == [0.0, 2.5, 0.8, 1.7]
    assert [one.first_token_s for one in found] == pytest.approx([1.0, None, 1.8, 2.7])
    few = outcomes(busy(max_queued=1), requests)
    assert [one.refused for one in few] == [None, None, QUEUE_FULL, QUEUE_FULL]
    none = outcomes(busy(max_queue_wait_ms=0), requests)
    assert [one.refused for one in none] == [None, QUEUE_FULL, QUEUE_FULL, QUEUE_FULL]


def test_without_a_bound_requests_wait_at_the_worker() -> None:
    found = outcomes(busy(None), [recorded(n, 0.0, 1, 1) for n in range(3)], slots=None)
    assert [one.first_token_s for one in found] == pytest.approx([1.0, 2.0, 3.0])
    assert {one.queued_s for one in found} == {0.0}


def test_costs_are_the_list_price_and_cached_prompts_count_where_they_were() -> None:
    request = recorded(0, 0.0, 1_000, 100, cached_tokens=400, pool_id="pool_a")
    elsewhere = replace(request, event_id="other", pool_id="pool_b", arrived_s=9.0)
    here, there = outcomes(busy(), [request, elsewhere])
    # 600 at $1, 400 cached at $0.5 and 100 out at $2 a million
    assert here.cost_nanousd == 600_000 + 200_000 + 200_000
    assert there.cost_nanousd == 1_000_000 + 200_000


def test_nobody_to_send_to_is_no_answer() -> None:
    replay = Replay(busy(), {}, offers=OFFERS)
    replay.feed([recorded(0, 0.0, 1, 1)])
    replay.finish()
    assert [one.refused for one in replay.outcomes] == [NO_WORKER]


def test_prompts_that_are_read_at_once_are_told_from_those_that_wait_for_each_other() -> None:
    attempts = []
    for place in range(40):
        prompt = 500 + 400 * (place % 5)
        begun_s = place * 0.05
        first_s = begun_s + 0.1 + prompt / 5_000
        attempts.append(AttemptFact("w", "p", begun_s, first_s + 1.0, first_s, prompt, 51))
    model = learn(attempts, concurrency={"p": 99}).of("w", "p")
    assert model.is_serial is False
    assert model.prompt_token_s == pytest.approx(1 / 5_000)
    assert model.first_token_s == pytest.approx(0.1)
    assert model.pace_s(20) == pytest.approx(0.02)


def test_a_worker_nobody_has_seen_is_assumed_to_be_a_usual_one() -> None:
    assert learn([], concurrency={}).of("w", "p") == WorkerModel()


def test_coefficients_are_never_negative() -> None:
    rows = [(1.0, float(x), float(-x % 3)) for x in range(9)]
    assert least_squares(rows, [5 - 2 * x for x, *_ in rows])[1:] == (0.0, 0.0)
    assert least_squares(rows, [2 + 3 * row[1] for row in rows]) == pytest.approx((2, 3, 0))
