"""What is switched off is refused at once, with its reason, until it is on again."""

import asyncio
from dataclasses import replace

import pytest

from inference.contract.kinds import Outcome, SwitchSubject
from inference.contract.snapshot import ConfigSnapshot, SwitchRecord, TargetRecord
from tests.inference.gateway.client import chat, post, request_bytes, send
from tests.inference.gateway.rig import (
    KEY_ID,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


def thrown(snapshot: ConfigSnapshot, *switches: SwitchRecord) -> ConfigSnapshot:
    places = {(one.organisation_id, one.subject, one.subject_id): one for one in switches}
    return replace(snapshot, switches={one.id: one for one in switches}, thrown=places)


def switch(subject: SwitchSubject, subject_id: str | None, **changes: object) -> SwitchRecord:
    record = SwitchRecord("sw_1", "org_a", subject, subject_id, reason="Incident 7")
    return replace(record, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "subject_id"),
    [(SwitchSubject.ORGANISATION, None), (SwitchSubject.ROUTE, "rt_m")],
)
async def test_what_is_switched_off_is_refused_with_its_reason_and_is_in_the_books(
    gateway: Gateway, upstream: Upstream, subject: SwitchSubject, subject_id: str | None
) -> None:
    plain = gateway.holder.current
    assert plain is not None
    gateway.apply(thrown(plain, switch(subject, subject_id)))
    for reply in (await chat(gateway.port), await post(gateway.port, "/tokenize", prompt="x")):
        assert (reply.status, reply.error["code"]) == (403, "switched_off")
        assert reply.error["type"] == "permission_error"
        assert reply.error["message"] == "This has been switched off. Reason: Incident 7"
    assert upstream.calls == []
    assert [(end.outcome, end.error_code) for end in gateway.books.ends] == [
        (Outcome.REFUSED, "switched_off")
    ] * 2
    gateway.apply(plain)
    assert (await chat(gateway.port)).status == 200


async def test_a_switched_off_pool_falls_back_and_the_last_one_is_no_capacity(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    targets = tuple(
        TargetRecord(f"tgt_{name}", f"pool_{name}", 1, tier=tier) for tier, name in enumerate("ab")
    )
    plain = configuration(*pools, routes=(replace(route_record("a"), targets=targets),))
    now = 1_764_500_000.0
    async with running_gateway(plain, clock=lambda: now) as gateway:
        first = switch(SwitchSubject.POOL, "pool_a")
        gateway.apply(thrown(plain, first))
        reply = await chat(gateway.port)
        assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
        decision = gateway.books.ends[-1].decision
        assert decision is not None
        assert decision["left_out"] == {"tgt_a": "switched_off"}
        assert upstream.calls == []
        second = switch(SwitchSubject.POOL, "pool_b", reason="", expires_at=now + 90.5)
        gateway.apply(thrown(plain, replace(first, reason="", expires_at=now + 90.5), second))
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "switched_off")
        assert reply.headers["retry-after"] == "91"
        assert gateway.books.ends[-1].origin.route_id == "rt_m"


def narrow(*addresses: str, **route: object) -> ConfigSnapshot:
    """Pools whose worker takes one request, the first before the second."""
    pools = [
        pool_record(name, one, worker_concurrency=1)
        for name, one in zip("ab", addresses, strict=False)
    ]
    return configuration(*pools, routes=(route_record(*(one.name for one in pools), **route),))


@pytest.mark.parametrize(
    ("subject", "subject_id", "status"),
    [
        (SwitchSubject.KEY, KEY_ID, 403),
        (SwitchSubject.ROUTE, "rt_m", 403),
        (SwitchSubject.MODEL, "mdl_a", 503),
        (SwitchSubject.POOL, "pool_a", 503),
    ],
)
async def test_a_switch_sends_away_who_waits_for_what_it_turns_off(
    upstream: Upstream, subject: SwitchSubject, subject_id: str, status: int
) -> None:
    upstream.play(Behaviour(delay_ms=200))
    plain = narrow(upstream.base_url)
    async with running_gateway(plain) as gateway:
        first = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.inflight == 1)
        second = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.waiting.waiting == 1)
        gateway.apply(thrown(plain, switch(subject, subject_id)))
        reply = await second
        assert (reply.status, reply.error["code"]) == (status, "switched_off")
        assert not first.done()
        assert (await first).status == 200
        assert len(upstream.calls) == 1


@pytest.mark.slow
async def test_who_waits_for_a_pool_that_is_turned_off_waits_on_for_the_other(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=150))
    other_upstream.play(Behaviour(delay_ms=400))
    plain = narrow(upstream.base_url, other_upstream.base_url)
    async with running_gateway(plain) as gateway:
        running = [asyncio.create_task(chat(gateway.port)) for _ in "ab"]
        await gateway.wait_for(lambda: gateway.inflight == 2)
        waiting = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.waiting.waiting == 1)
        gateway.apply(thrown(plain, switch(SwitchSubject.POOL, "pool_a")))
        assert [(await one).status for one in (*running, waiting)] == [200] * 3
        assert (len(upstream.calls), len(other_upstream.calls)) == (1, 2)


@pytest.mark.parametrize(
    ("subject", "subject_id", "told"),
    [
        (SwitchSubject.POOL, "pool_b", (502, "upstream_failed")),
        (SwitchSubject.ROUTE, "rt_m", (403, "switched_off")),
    ],
)
async def test_no_retry_is_sent_to_what_was_turned_off_meanwhile(
    upstream: Upstream,
    other_upstream: Upstream,
    subject: SwitchSubject,
    subject_id: str,
    told: tuple[int, str],
) -> None:
    upstream.play(Behaviour(status=500, delay_ms=150))
    plain = narrow(upstream.base_url, other_upstream.base_url)
    async with running_gateway(plain) as gateway:
        asked = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.inflight == 1)
        gateway.apply(thrown(plain, switch(subject, subject_id)))
        reply = await asked
        assert (reply.status, reply.error["code"]) == told
        assert other_upstream.calls == []


async def test_no_hedge_is_sent_to_what_was_turned_off_meanwhile(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=250))
    plain = narrow(upstream.base_url, other_upstream.base_url, hedge_after_ms=100)
    async with running_gateway(plain) as gateway:
        asked = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.inflight == 1)
        gateway.apply(thrown(plain, switch(SwitchSubject.POOL, "pool_b")))
        assert (await asked).status == 200
        assert gateway.metric("hedges_total", route="rt_m", result="refused") == 1
        assert other_upstream.calls == []


async def test_a_key_that_is_switched_off_reads_nothing(gateway: Gateway) -> None:
    plain = gateway.holder.current
    assert plain is not None
    gateway.apply(thrown(plain, switch(SwitchSubject.KEY, KEY_ID)))
    for path in ("/v1/models", "/v1/responses/resp_1"):
        reply = await send(gateway.port, request_bytes(None, method="GET", path=path))
        assert (reply.status, reply.error["code"]) == (403, "switched_off")
