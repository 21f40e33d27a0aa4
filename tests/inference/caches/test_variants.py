"""Caches and experiments: answers of one variant are never another's, whoever stood in."""

import json
from dataclasses import replace

from inference.contract.events import End
from inference.contract.kinds import CacheOutcome, ExperimentUnit
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    MatchRecord,
    TargetRecord,
    VariantRecord,
)
from tests.decisions.tried import EXPERIMENT, with_experiments
from tests.inference.caches.rig import (
    POLICY,
    TTL_S,
    Clock,
    cached_configuration,
    cached_route,
    caching_gateway,
)
from tests.inference.caches.test_exact import ask, cache
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import Gateway, pool_record, route_record
from tests.inference.gateway.test_prompts import FIRST, PLAIN
from tests.inference.gateway.test_prompts import configured as prompts_of
from tests.inference.gateway.test_prompts import trying as trying_prompts
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

USERS = [f"user {number}" for number in range(12)]


def trying(control: VariantRecord, other: VariantRecord, **changes: object) -> ExperimentRecord:
    return replace(EXPERIMENT, variants=(control, other), **changes)  # type: ignore[arg-type]


WARMER = trying(
    replace(EXPERIMENT.variants[0], parameters={"top_p": "0.5"}),
    VariantRecord("var_b", "other", 5_000, parameters={"top_p": "0.9"}),
)
ELSEWHERE = trying(
    replace(EXPERIMENT.variants[0], share_bp=0),
    VariantRecord("var_b", "other", 10_000, (TargetRecord("tgt_b", "pool_b", 1),)),
    unit=ExperimentUnit.KEY,
)


def configured(
    upstream: Upstream, other_upstream: Upstream, *experiments: ExperimentRecord
) -> ConfigSnapshot:
    pools = [
        pool_record(name, one.base_url, breaker_min_requests=1_000)
        for name, one in (("a", upstream), ("b", other_upstream))
    ]
    snapshot = cached_configuration(*pools, routes=(cached_route("a"),))
    return with_experiments(snapshot, *experiments)


async def asked(gateway: Gateway, **fields: object) -> End:
    """The end of one more request."""
    before = len(gateway.books.ends)
    assert (await chat(gateway.port, **fields)).status == 200
    await gateway.wait_ended(before + 1)
    return gateway.books.ends[-1]


def outcome(end: End) -> CacheOutcome | None:
    return None if end.cache is None else end.cache.outcome


async def test_each_variant_has_answers_of_its_own_and_a_hit_is_its_own_too(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with caching_gateway(
        upstream, snapshot=configured(upstream, other_upstream, WARMER)
    ) as gateway:
        ends = [await asked(gateway, user=user) for user in USERS]
        untested = await asked(gateway)
    seen: set[str] = set()
    for end in ends:
        (exposure,) = end.exposures
        assert exposure.served_variant_id == exposure.variant_id
        is_new = exposure.variant_id not in seen
        assert outcome(end) is (CacheOutcome.MISS if is_new else CacheOutcome.HIT)
        seen.add(exposure.variant_id)
    assert seen == {"var_a", "var_b"}
    assert (outcome(untested), untested.exposures) == (CacheOutcome.MISS, ())
    assert len(upstream.calls) == 3


async def test_other_parameters_of_a_variant_are_other_answers(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    control, other = WARMER.variants
    cooler = replace(WARMER, variants=(control, replace(other, parameters={"top_p": "0.1"})))
    async with caching_gateway(
        upstream, snapshot=configured(upstream, other_upstream, WARMER)
    ) as gateway:
        before = {(await asked(gateway, user=user)).exposures[0].variant_id for user in USERS}
        gateway.apply(configured(upstream, other_upstream, cooler))
        after = [await asked(gateway, user=user) for user in USERS]
    assert before == {"var_a", "var_b"}
    first = {one.exposures[0].variant_id: outcome(one) for one in reversed(after)}
    assert first == {"var_a": CacheOutcome.HIT, "var_b": CacheOutcome.MISS}


async def test_what_a_control_answered_in_anothers_place_is_kept_for_nobody(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    other_upstream.play(Behaviour(status=500, calls=1), Behaviour())
    snapshot = configured(upstream, other_upstream, ELSEWHERE)
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        ends = [await asked(gateway) for _ in range(3)]
    served = [end.exposures[0].served_variant_id for end in ends]
    assert served == ["var_a", "var_b", "var_b"]
    assert [outcome(end) for end in ends] == [
        *(CacheOutcome.MISS, CacheOutcome.MISS),
        CacheOutcome.HIT,
    ]


async def test_what_is_asked_anew_is_what_was_asked_and_is_shown_to_nobody(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    clock, prompts = (
        Clock(),
        prompts_of(upstream, other_upstream, trying_prompts(FIRST.id, PLAIN.id)),
    )
    policy = replace(POLICY, stale_s=60)
    snapshot = cached_configuration(pool_record("a", upstream.base_url), policy=policy)
    snapshot = replace(snapshot, prompts=prompts.prompts, filed=prompts.filed)
    snapshot = replace(snapshot, experiments=prompts.experiments, tested=prompts.tested)
    asked_for = {"id": "prt_a", "version": 1, "variables": {"name": "Zoe"}}
    async with caching_gateway(upstream, snapshot=snapshot, clock=clock) as gateway:
        first = await asked(gateway, prompt=asked_for)
        clock.skipped_s = TTL_S + 1
        assert (await chat(gateway.port, prompt=asked_for)).status == 200
        await gateway.wait_ended(3)
        fresh = await asked(gateway, prompt=asked_for)
    stale, renewed = sorted(gateway.books.ends[1:3], key=lambda one: len(one.charges))
    assert (outcome(stale), outcome(fresh)) == (CacheOutcome.STALE, CacheOutcome.HIT)
    one, other = (json.loads(call.body or "")["messages"] for call in upstream.calls)
    assert one == other
    assert renewed.origin == first.origin
    assert [len(end.exposures) for end in (first, stale, renewed, fresh)] == [1, 1, 0, 1]
    assert [len(opening.exposures) for opening in gateway.books.openings] == [1, 0]


async def test_whether_chance_has_a_part_is_told_by_what_the_variant_sends(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    chancy = trying(
        replace(EXPERIMENT.variants[0], parameters={"temperature": "0.7"}),
        VariantRecord("var_b", "other", 5_000, parameters={"temperature": "0.0"}),
    )
    snapshot = configured(upstream, other_upstream, chancy)
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        ends = [
            await asked(gateway, user=user, temperature=temperature)
            for temperature in (0, 1)
            for user in USERS
        ]
    by_variant = {"var_a": set(), "var_b": set()}  # type: dict[str, set[CacheOutcome | None]]
    for end in ends:
        by_variant[end.exposures[0].variant_id].add(outcome(end))
    assert by_variant == {
        "var_a": {CacheOutcome.BYPASS},
        "var_b": {CacheOutcome.MISS, CacheOutcome.HIT},
    }


async def test_a_rule_of_a_variants_policy_looks_at_headers_too(upstream: Upstream) -> None:
    bypass = (MatchRecord(headers=(("x-region", "eu"),)),)
    variants = [replace(one, targets=(), cache_policy_id=POLICY.id) for one in EXPERIMENT.variants]
    pool = pool_record("a", upstream.base_url)
    policy = replace(POLICY, bypass=bypass)
    snapshot = cached_configuration(pool, routes=(route_record("a"),), policy=policy)
    snapshot = with_experiments(snapshot, trying(*variants))
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        told = [cache(await ask(gateway, {"x-region": one}, user="user")) for one in ("eu", "us")]
    assert told == ["bypass; reason=rule", "miss"]


async def test_a_variant_may_be_the_one_that_is_cached(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    cached = trying(
        replace(EXPERIMENT.variants[0], share_bp=5_000),
        VariantRecord("var_b", "cached", 5_000, cache_policy_id=POLICY.id),
    )
    pool = pool_record("a", upstream.base_url)
    snapshot = cached_configuration(pool, routes=(route_record("a"),))
    async with caching_gateway(upstream, snapshot=with_experiments(snapshot, cached)) as gateway:
        ends = [await asked(gateway, user=user) for user in USERS]
    by_variant = {"var_a": set(), "var_b": set()}  # type: dict[str, set[CacheOutcome | None]]
    for end in ends:
        by_variant[end.exposures[0].variant_id].add(outcome(end))
    assert by_variant == {
        "var_a": {None},
        "var_b": {CacheOutcome.MISS, CacheOutcome.HIT},
    }
