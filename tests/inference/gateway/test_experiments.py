"""Who gets which variant over real gateways: for good, by the right unit, on every one alike."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract.events import Exposure
from inference.contract.kinds import ExperimentUnit, LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import ConfigSnapshot, ExperimentRecord, LimitRecord
from inference.decisions.experiments import unit_digest
from tests.decisions.tried import EXPERIMENT, with_experiments
from tests.inference.gateway.client import BASE, chat, request_bytes, send
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.ledger import seed
from tests.upstream.fixtures import Upstream

THIRD_TOKEN = "hw_third6789abcdefghjkmnpqrs0.secret-of-a-third-key"
KEYS = tuple(key_record(token) for token in (TOKEN, DEBUG_TOKEN, THIRD_TOKEN))
USERS = [f"user {number}" for number in range(200)]
HALF = replace(EXPERIMENT, allocation_bp=5_000)


def configured(upstream: Upstream, *experiments: ExperimentRecord) -> ConfigSnapshot:
    pools = (pool_record("a", upstream.base_url), pool_record("x", upstream.base_url))
    requests = LimitRecord(
        *("lim_a", "org_a", "many", LimitSubject.KEY, LimitUnit.REQUESTS, 100_000),
        window=LimitWindow.MINUTE,
    )
    route = route_record("a", aliases=("latest",))
    snapshot = configuration(*pools, routes=(route,), keys=KEYS, limits=(requests,))
    return with_experiments(snapshot, *experiments)


async def exposure(gateway: Gateway, user: str | None = "ann", **more: object) -> Exposure | None:
    """What the books have of one request's part in the only experiment."""
    fields = {} if user is None else {"user": user}
    assert (await chat(gateway.port, **fields, **more)).status == 200  # type: ignore[arg-type]
    exposures = gateway.books.ends[-1].exposures
    assert len(exposures) <= 1
    return exposures[0] if exposures else None


async def arms(gateway: Gateway, users: list[str]) -> dict[str, tuple[str, int]]:
    """Variant and phase by the unit of each of these users that takes part."""
    before = len(gateway.books.ends)
    some = asyncio.Semaphore(8)

    async def ask(user: str) -> None:
        async with some:
            assert (await chat(gateway.port, user=user)).status == 200

    await asyncio.gather(*map(ask, users))
    found = [one for end in gateway.books.ends[before:] for one in end.exposures]
    assert all(one.served_variant_id == one.variant_id for one in found)
    return {one.unit_id: (one.variant_id, one.phase) for one in found}


async def test_c143_a_user_has_one_arm_whatever_the_key(upstream: Upstream) -> None:
    async with running_gateway(configured(upstream, EXPERIMENT)) as gateway:
        found = set()
        for user in USERS[:20]:
            by_key = {await exposure(gateway, user, token=f"{key}") for key in (TOKEN, THIRD_TOKEN)}
            assert len(by_key) == 1
            found |= by_key
    assert None not in found
    assert {one.variant_id for one in found if one} == {"var_a", "var_b"}
    assert {one.unit for one in found if one} == {ExperimentUnit.USER}
    assert unit_digest("org_a", ExperimentUnit.USER, USERS[0]) in {
        one.unit_id for one in found if one
    }


async def test_c143_a_key_has_one_arm_whoever_its_user_is(upstream: Upstream) -> None:
    by_key = replace(EXPERIMENT, unit=ExperimentUnit.KEY)
    async with running_gateway(configured(upstream, by_key)) as gateway:
        for token in (TOKEN, DEBUG_TOKEN, THIRD_TOKEN):
            found = {await exposure(gateway, user, token=token) for user in (*USERS[:5], None)}
            assert len(found) == 1
            (only,) = found
            assert only is not None
            assert only.unit is ExperimentUnit.KEY


async def test_a_session_has_one_arm_and_none_is_nobody(upstream: Upstream) -> None:
    by_session = replace(EXPERIMENT, unit=ExperimentUnit.SESSION)
    async with running_gateway(configured(upstream, by_session)) as gateway:
        assert await exposure(gateway) is None
        body = b'{"model": "m", "messages": [{"role": "user", "content": "ping"}]}'
        for _ in range(2):
            headers = {"x-headworks-session": "s1"}
            await send(gateway.port, request_bytes(body, headers=headers))
        first, second = (end.exposures for end in gateway.books.ends[-2:])
        assert first == second != ()


async def test_a_request_without_a_user_is_counted_and_served_as_usual(
    upstream: Upstream,
) -> None:
    async with running_gateway(configured(upstream, EXPERIMENT)) as gateway:
        assert await exposure(gateway, None) is None
        assert gateway.books.end.charges[0].target_id == "tgt_a"
        assert gateway.metric("unexposed_total", experiment="exp_a", reason="no_unit") == 1
        decision = gateway.books.end.decision
        assert decision is not None
        assert decision["experiments"] == [
            {"experiment": "exp_a", "phase": 1, "unit": "user", "why_not": "no_unit"}
        ]


@pytest.mark.slow
async def test_c144_all_keep_their_arm_on_two_gateways_over_restart_and_flush_and_growth(
    upstream: Upstream, client: Redis, admin: Redis
) -> None:
    before, grown = configured(upstream, HALF), configured(upstream, EXPERIMENT)
    found = []
    for snapshot in (before, before, grown):
        await seed(admin)
        async with AsyncExitStack() as stack:
            running = [
                await stack.enter_async_context(running_gateway(snapshot, store=client))
                for _ in range(2)
            ]
            found.append([await arms(gateway, USERS) for gateway in running])
        await admin.flushall()
    (one, other), restarted, (more, also) = found
    assert one == other
    assert restarted == [one, one]
    assert 70 < len(one) < 130
    assert {variant for variant, _ in one.values()} == {"var_a", "var_b"}
    assert one.items() < more.items()
    assert len(more) == len(USERS)
    assert also == more


async def test_c145_another_split_is_another_phase_and_moves_the_least(upstream: Upstream) -> None:
    control, other = EXPERIMENT.variants
    changed = replace(
        EXPERIMENT,
        phase=2,
        variants=(replace(control, share_bp=7_500), replace(other, share_bp=2_500)),
    )
    users = USERS[:100]
    async with running_gateway(configured(upstream, EXPERIMENT)) as gateway:
        before = await arms(gateway, users)
        gateway.apply(configured(upstream, changed))
        after = await arms(gateway, users)
    assert {phase for _, phase in before.values()} == {1}
    assert {phase for _, phase in after.values()} == {2}
    moves = {(arm, after[unit][0]) for unit, (arm, _) in before.items()}
    assert moves == {("var_a", "var_a"), ("var_b", "var_b"), ("var_b", "var_a")}
    moved = sum(after[unit][0] != arm for unit, (arm, _) in before.items())
    assert 10 < moved < 40


async def test_c149_an_alias_leads_to_the_same_arm(upstream: Upstream) -> None:
    async with running_gateway(configured(upstream, EXPERIMENT)) as gateway:
        for user in USERS[:10]:
            found = {await exposure(gateway, user, model=name) for name in ("m", "latest")}
            assert len(found) == 1
            assert None not in found


async def test_a_stopped_experiment_has_no_effect_from_the_next_request_on(
    upstream: Upstream,
) -> None:
    only_other = replace(EXPERIMENT, variants=(replace(EXPERIMENT.variants[1], share_bp=10_000),))
    async with running_gateway(configured(upstream, only_other)) as gateway:
        assert await exposure(gateway) is not None
        assert gateway.books.ends[-1].charges[0].target_id == "tgt_x"
        gateway.apply(configured(upstream, replace(only_other, is_running=False)))
        assert await exposure(gateway) is None
        end = gateway.books.ends[-1]
        assert end.charges[0].target_id == "tgt_a"
        assert end.decision is not None
        assert "experiments" not in end.decision


@pytest.mark.parametrize("is_hot", [True, False])
async def test_both_ways_to_the_pipeline_assign_alike(upstream: Upstream, is_hot: bool) -> None:
    by_request = replace(EXPERIMENT, unit=ExperimentUnit.REQUEST)
    async with running_gateway(configured(upstream, by_request), is_hot=is_hot) as gateway:
        found = []
        for number in range(12):
            gateway.u = number / 12
            found.append(await exposure(gateway, None, temperature=BASE["temperature"]))
    ids = [one.unit_id for one in found if one]
    assert len(set(ids)) == 12
    assert ids[3] == unit_digest("org_a", ExperimentUnit.REQUEST, (3 / 12).hex())
    assert {one.variant_id for one in found if one} == {"var_a", "var_b"}
