"""Limits as callers meet them: who is refused, what it costs them, what every answer says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import Enforcement, LimitSubject, LimitUnit, LimitWindow, Outcome
from inference.contract.snapshot import ConfigSnapshot, LimitRecord
from tests.inference.gateway.client import Reply, chat, opened, post, request_bytes, streaming
from tests.inference.gateway.rig import (
    KEY_ID,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.limits.rig import SEEDED
from tests.inference.stores import OwnStore, keep_clear_of_the_end
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

STRICT = Enforcement.STRICT
DAY_S = 86_400
LONG = Behaviour(text=" ".join(["one"] * 50), gap_ms=50)


@pytest.fixture(autouse=True)
def _one_day() -> None:
    """Keep a test's counters in the day it began in."""
    keep_clear_of_the_end(DAY_S, margin_s=30)


def limit(
    unit: LimitUnit, amount: int, window: LimitWindow | None = LimitWindow.DAY, **changes: object
) -> LimitRecord:
    """A limit on the key that tests use, named for what it counts."""
    record = LimitRecord(
        id=f"lim_{unit.value}_{window}",
        organisation_id="org_a",
        name=f"{unit.value}-{window}",
        subject=LimitSubject.KEY,
        unit=unit,
        amount=amount,
        subject_id=KEY_ID,
        window=None if unit is LimitUnit.PARALLEL else window,
    )
    return replace(record, **changes)


def requests(amount: int, window: LimitWindow = LimitWindow.DAY, **changes: object) -> LimitRecord:
    return limit(LimitUnit.REQUESTS, amount, window, **changes)


def tokens(amount: int, window: LimitWindow = LimitWindow.DAY, **changes: object) -> LimitRecord:
    return limit(LimitUnit.TOTAL_TOKENS, amount, window, **changes)


def parallel(amount: int, **changes: object) -> LimitRecord:
    return limit(LimitUnit.PARALLEL, amount, **changes)


def limited(upstream: Upstream, *limits: LimitRecord, **route: object) -> ConfigSnapshot:
    """The route `m` over the upstream, under these limits."""
    return configuration(
        pool_record("a", upstream.base_url), routes=(route_record("a", **route),), limits=limits
    )


@asynccontextmanager
async def serving(
    client: Redis | None,
    upstream: Upstream,
    *limits: LimitRecord,
    **route: object,
) -> AsyncIterator[Gateway]:
    async with running_gateway(limited(upstream, *limits, **route), store=client) as gateway:
        yield gateway


@pytest.fixture
async def store(client: Redis, admin: Redis) -> Redis:
    """A client of a seeded store."""
    await admin.mset(SEEDED)
    return client


def statuses(replies: list[Reply]) -> list[int]:
    return [reply.status for reply in replies]


async def times(count: int, gateway: Gateway, **fields: object) -> list[int]:
    return [(await chat(gateway.port, **fields)).status for _ in range(count)]


def slots_held(gateway: Gateway) -> float | None:
    return gateway.metric("limit_parallel")


ENDPOINTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "ping"}]},
    "/v1/completions": {"prompt": "ping"},
    "/v1/embeddings": {"input": "ping"},
    "/v1/responses": {"input": "ping"},
    "/v1/messages": {"messages": [{"role": "user", "content": "ping"}], "max_tokens": 16},
}


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_slot_is_free_again_however_its_request_ended(
    store: Redis, upstream: Upstream, path: str
) -> None:
    fields = {"model": "m", **ENDPOINTS[path]}
    snapshot = limited(upstream, parallel(1), first_byte_timeout_ms=200, max_attempts=1)
    if path == "/v1/embeddings":
        models = (replace(next(iter(snapshot.models.values())), task="embed"),)
        snapshot = replace(snapshot, models={one.id: one for one in models})
    async with running_gateway(snapshot, store=store) as gateway:
        ended = 0
        for _ in range(3):
            assert (await post(gateway.port, path, **ENDPOINTS[path])).status == 200
            ended += 1
        upstream.play(Behaviour(gap_ms=100, delay_ms=100))
        for is_stream in (True, False, True):
            body = json.dumps({**fields, "stream": is_stream}).encode()
            async with opened(gateway.port, request_bytes(body, path=path)) as call:
                await gateway.wait_for(lambda: slots_held(gateway) == 1)
                call.leave()
            ended += 1
            await gateway.wait_ended(ended)
        upstream.play(Behaviour(status=500))
        assert (await post(gateway.port, path, **ENDPOINTS[path])).status == 502
        upstream.play(Behaviour(before_head="hang"))
        assert (await post(gateway.port, path, **ENDPOINTS[path])).status == 504
        await gateway.wait_ended(ended + 2)
        assert slots_held(gateway) == 0
        upstream.play(Behaviour())
        assert (await post(gateway.port, path, **ENDPOINTS[path])).status == 200


async def test_who_is_refused_for_one_limit_uses_nothing_of_another(
    store: Redis, upstream: Upstream
) -> None:
    upstream.play(LONG)
    async with serving(store, upstream, requests(2), parallel(1)) as gateway:
        async with streaming(gateway.port) as running:
            refused = await chat(gateway.port)
            assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
            assert refused.headers["retry-after"] == "1"
            running.leave()
        await gateway.wait_ended(2)
        upstream.play(Behaviour())
        assert await times(2, gateway) == [200, 429]


async def test_a_limits_refusal_leaves_the_counters_of_the_others_as_they_were(
    store: Redis, upstream: Upstream
) -> None:
    more = requests(10, id="lim_more", name="more")
    async with serving(store, upstream, more, requests(3)) as gateway:
        assert await times(4, gateway) == [200, 200, 200, 429]
        gateway.apply(limited(upstream, more, requests(100)))
        assert await times(8, gateway) == [200] * 7 + [429]


async def test_a_burst_gets_what_the_limit_says(store: Redis, upstream: Upstream) -> None:
    async with serving(store, upstream, requests(5)) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(20)))
        assert sorted(statuses(replies)) == [200] * 5 + [429] * 15
        assert {one.outcome for one in gateway.books.ends} == {Outcome.OK, Outcome.REFUSED}
        assert gateway.metric("limit_refusals_total", unit="requests") == 15


async def test_tokens_used_at_one_gateway_count_at_the_other(
    store: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(usage={"prompt_tokens": 50, "completion_tokens": 10}))
    async with serving(store, upstream, tokens(100)) as one:
        async with serving(store, upstream, tokens(100)) as other:
            assert await times(1, one) == [200]
            assert await times(1, other) == [200]
            assert [*await times(1, one), *await times(1, other)] == [429, 429]


@pytest.mark.slow
async def test_a_token_window_begins_anew_whatever_that_of_requests_does(
    store: Redis, upstream: Upstream
) -> None:
    async with serving(store, upstream, requests(500), tokens(15, LimitWindow.SECOND)) as gateway:
        async with asyncio.timeout(10):
            while (reply := await chat(gateway.port)).status != 429:
                pass
            assert reply.headers["retry-after"] == "1"
            assert reply.headers["x-ratelimit-remaining-tokens"] == "0"
            while (reply := await chat(gateway.port)).status != 200:
                pass
        passed = sum(one.outcome is Outcome.OK for one in gateway.books.ends)
        assert reply.headers["x-ratelimit-remaining-requests"] == str(500 - passed)


async def test_requests_that_fail_their_validation_count(store: Redis, upstream: Upstream) -> None:
    async with serving(store, upstream, requests(5)) as gateway:
        found = await times(20, gateway, messages="not a list")
        assert found == [400] * 5 + [429] * 15
        assert upstream.calls == []


async def test_refused_attempts_use_nothing_so_that_a_raised_limit_helps(
    store: Redis, upstream: Upstream
) -> None:
    async with serving(store, upstream, requests(10)) as gateway:
        assert await times(30, gateway) == [200] * 10 + [429] * 20
        gateway.apply(limited(upstream, requests(20)))
        assert await times(11, gateway) == [200] * 10 + [429]


async def test_a_streams_tokens_count_once(store: Redis, upstream: Upstream) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 20}
    upstream.play(Behaviour(usage=usage))
    async with serving(store, upstream, tokens(1_000)) as gateway:
        for _ in range(2):
            assert (await chat(gateway.port, stream=True)).is_whole
        reply = await chat(gateway.port, messages="not a list")
        assert reply.headers.get("x-ratelimit-remaining-tokens") is None
        reply = await chat(gateway.port)
        assert reply.headers["x-ratelimit-remaining-tokens"] == str(1_000 - 3 * 30)


async def test_the_total_is_the_sum_of_what_several_frames_say(
    store: Redis, upstream: Upstream
) -> None:
    word = {"choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": "stop"}]}
    frames = [
        f"data: {json.dumps({**word, 'usage': {'prompt_tokens': 12, 'total_tokens': 12}})}\n\n",
        f"data: {json.dumps({'choices': [], 'usage': {'completion_tokens': 3}})}\n\n",
        "data: [DONE]\n\n",
    ]
    upstream.play(Behaviour(calls=1, frames=frames), Behaviour())
    async with serving(store, upstream, tokens(1_000)) as gateway:
        assert (await chat(gateway.port, stream=True)).is_whole
        reply = await chat(gateway.port)
        assert reply.headers["x-ratelimit-remaining-tokens"] == str(1_000 - 15 - 15)


async def test_an_unknown_use_counts_as_the_most_it_can_have_been(
    store: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(usage=None))
    output = limit(LimitUnit.OUTPUT_TOKENS, 100)
    async with serving(store, upstream, output) as gateway:
        reply = await chat(gateway.port, max_tokens=60)
        assert reply.headers["x-ratelimit-remaining-tokens"] == "40"
        assert gateway.metric("limit_estimates_total", unit="output_tokens") == 1


async def test_a_strict_token_limit_takes_the_bound_and_gives_back_the_rest(
    store: Redis, upstream: Upstream
) -> None:
    strict = limit(LimitUnit.OUTPUT_TOKENS, 100, enforcement=STRICT)
    upstream.play(LONG)
    async with serving(store, upstream, strict) as gateway:
        async with streaming(gateway.port, max_tokens=60) as running:
            await running.read_until(b"one")
            assert (await chat(gateway.port, max_tokens=60)).status == 429
            running.leave()
        await gateway.wait_ended(2)
        upstream.play(Behaviour())
        assert (await chat(gateway.port, max_tokens=60)).status == 200
        reply = await chat(gateway.port, max_tokens=101)
        assert reply.status == 429
        assert reply.error["message"].endswith("and this request may use 101.")
        assert "retry-after" not in reply.headers


async def test_a_refusal_names_the_limit_and_when_to_come_back(
    store: Redis, upstream: Upstream
) -> None:
    minute = requests(1, LimitWindow.MINUTE, name="burst")
    keep_clear_of_the_end(60, margin_s=3)
    async with serving(store, upstream, minute, tokens(1_000_000)) as gateway:
        reply = await chat(gateway.port)
        assert reply.headers["x-ratelimit-limit-requests"] == "1"
        assert reply.headers["x-ratelimit-remaining-requests"] == "0"
        assert reply.headers["x-ratelimit-limit-tokens"] == "1000000"
        refused = await chat(gateway.port)
        wait_s = int(refused.headers["retry-after"])
        assert 0 < wait_s <= 60
        assert refused.error == {
            "message": "The limit burst of this key is 1 requests a minute, and it is reached."
            f" Please try again in {wait_s} s.",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        end = gateway.books.ends[-1]
        assert (end.outcome, end.http_status, end.error_code) == (
            *(Outcome.REFUSED, 429),
            "rate_limit_exceeded",
        )
        assert end.decision is not None
        assert end.decision["limits"] == {
            "kept": [minute.id, "lim_total_tokens_day"],
            "refused": minute.id,
        }


@pytest.mark.parametrize(
    ("subject", "subject_id"),
    [
        (LimitSubject.ORGANISATION, None),
        (LimitSubject.TEAM, "team_a"),
        (LimitSubject.PROJECT, None),
        (LimitSubject.KEY, None),
        (LimitSubject.MODEL, "mdl_a"),
        (LimitSubject.ROUTE, "rt_m"),
    ],
)
async def test_every_subject_is_limited(
    store: Redis, upstream: Upstream, subject: LimitSubject, subject_id: str | None
) -> None:
    one = requests(1, subject=subject, subject_id=subject_id)
    async with serving(store, upstream, one) as gateway:
        assert await times(2, gateway) == [200, 429]


async def test_a_stream_says_what_is_left_before_it_begins(
    store: Redis, upstream: Upstream
) -> None:
    async with serving(store, upstream, requests(3)) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert reply.headers["x-ratelimit-remaining-requests"] == "2"


async def test_without_a_store_strict_limits_refuse_and_lenient_ones_are_served_and_marked(
    upstream: Upstream,
) -> None:
    async with serving(None, upstream, requests(1)) as gateway:
        for _ in range(3):
            reply = await chat(gateway.port)
            assert (reply.status, reply.headers["x-headworks-limits"]) == (200, "unenforced")
        assert gateway.metric("limits_unenforced_total", unit="requests") == 3
        end = gateway.books.ends[0]
        assert end.decision is not None
        assert end.decision["limits"] == {
            "kept": ["lim_requests_day"],
            "unenforced": ["lim_requests_day"],
        }
        gateway.apply(limited(upstream, requests(1, enforcement=STRICT)))
        refused = await chat(gateway.port)
        assert (refused.status, refused.error["code"]) == (503, "limits_unavailable")
        assert refused.headers["retry-after"] == "2"
        assert gateway.metric("limits_unavailable_total", unit="requests") == 1
        assert gateway.books.ends[-1].outcome is Outcome.REFUSED


async def test_a_store_that_falls_silent_costs_one_request_a_moment_and_the_next_nothing(
    own_store: OwnStore, store: Redis, upstream: Upstream
) -> None:
    async with serving(store, upstream, requests(100)) as gateway:
        assert await times(1, gateway) == [200]
        own_store.freeze()
        loop = asyncio.get_running_loop()
        started = loop.time()
        reply = await chat(gateway.port)
        assert reply.headers["x-headworks-limits"] == "unenforced"
        assert loop.time() - started < 5
        started = loop.time()
        assert await times(5, gateway) == [200] * 5
        # had each of them waited too, it would be 5 s
        assert loop.time() - started < 2.5
        own_store.thaw()
