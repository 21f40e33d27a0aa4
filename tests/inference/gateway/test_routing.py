"""Where requests go: by weight, by work under way, by what workers have cached."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from inference.contract.kinds import Strategy, Task
from inference.fleet.peers import PeerLoad
from inference.fleet.worker import USUAL_PREFILL_RATE
from tests.inference.gateway.client import chat, post, streaming
from tests.inference.gateway.rig import (
    MODEL,
    PRICE,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

LEAST_WORK = Strategy.LEAST_WORK


def long_prompt(first: str) -> list[dict[str, str]]:
    """A conversation of some 20 KB that differs from others in its first character."""
    return [{"role": "user", "content": first + "a word and another " * 1_100}]


def attempts(gateway: Gateway) -> list[dict[str, Any]]:
    """What the last request's decision record says of its attempts."""
    decision = gateway.books.ends[-1].decision
    assert decision is not None
    return list(decision["attempts"])  # type: ignore[call-overload]


async def workers_of(gateway: Gateway, **fields: object) -> list[str]:
    """Ask once, and tell which workers were tried."""
    await chat(gateway.port, **fields)
    return [str(one["worker"]) for one in attempts(gateway)]


async def test_idle_targets_of_equal_weight_share_requests_and_no_count_is_left_over(
    upstream: Upstream,
) -> None:
    pools = [pool_record(name, upstream.base_url) for name in "abc"]
    route = route_record(*"abc", weights=(1, 1, 1), strategy=LEAST_WORK)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        served: Counter[str] = Counter()
        for number in range(90):
            gateway.u = number * 0.618034 % 1
            served.update(await workers_of(gateway))
            assert set(gateway.fleet.inflight().values()) == {0}
        assert set(served) == {"pool_a-0", "pool_b-0", "pool_c-0"}
        assert all(20 <= count <= 40 for count in served.values())
        assert gateway.fleet.prefill_tokens() == {}


async def test_a_request_goes_where_less_is_under_way(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(cut_after=3, ending="hang"))
    pools = [
        pool_record("a", upstream.base_url, worker_concurrency=4),
        pool_record("b", other_upstream.base_url, worker_concurrency=4),
    ]
    route = route_record("a", "b", strategy=LEAST_WORK)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        async with streaming(gateway.port) as call:
            await call.read_until(b"one")
            assert await workers_of(gateway) == ["pool_b-0"]
            assert attempts(gateway) == [
                {
                    "target": "tgt_b",
                    "worker": "pool_b-0",
                    "inflight": 0,
                    "candidates": 2,
                    "u": 0.0,
                    "wait": 0.0,
                    "wait_prefill": 0.0,
                    "wait_requests": 0.0,
                    "wait_kv": 0.0,
                    "least_wait": 0.0,
                }
            ]
        await gateway.wait_ended(2)
        assert await workers_of(gateway, max_tokens=1, stream=False) == ["pool_a-0"]


async def test_what_other_gateways_have_under_way_counts_too(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pool = pool_record("a", upstream.base_url, other_upstream.base_url, worker_concurrency=8)
    route = route_record("a", strategy=LEAST_WORK)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(4, 2_000, 0.6)})
        assert await workers_of(gateway) == ["pool_a-1"]
        gateway.fleet.apply_loads(
            {"pool_a-0": PeerLoad(4, 2_000, 0.6), "pool_a-1": PeerLoad(inflight=80)}
        )
        assert await workers_of(gateway) == ["pool_a-0"]
        (chosen,) = attempts(gateway)
        assert {name: chosen[name] for name in chosen if name.startswith("wait")} == {
            "wait": 1.225,
            "wait_prefill": 0.5,
            "wait_requests": 0.5,
            "wait_kv": 0.225,
        }


async def test_a_conversation_stays_with_the_worker_that_has_it_cached(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pool = pool_record("a", upstream.base_url, other_upstream.base_url, worker_concurrency=4)
    route = route_record("a", strategy=LEAST_WORK, max_wait_penalty=0.5)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        gateway.u = 0.9
        messages = long_prompt("x")
        assert await workers_of(gateway, messages=messages) == ["pool_a-1"]
        assert "warm" not in attempts(gateway)[0]
        gateway.u = 0.0
        more = [*messages, {"role": "user", "content": "and now?"}]
        assert await workers_of(gateway, messages=more) == ["pool_a-1"]
        assert attempts(gateway)[0]["warm"] is True
        # another prompt, and one too short to tell, go by chance
        assert await workers_of(gateway, messages=long_prompt("y")) == ["pool_a-0"]
        assert await workers_of(gateway) == ["pool_a-0"]
        # half a batch more is too much, a little less is not
        gateway.fleet.apply_loads({"pool_a-1": PeerLoad(inflight=3)})
        assert await workers_of(gateway, messages=more) == ["pool_a-0"]
        gateway.fleet.apply_loads({"pool_a-1": PeerLoad(inflight=2)})
        gateway.apply(
            configuration(
                pool_record("a", upstream.base_url, other_upstream.base_url, worker_concurrency=4),
                routes=(route,),
            )
        )
        other = long_prompt("z")
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=9)})
        assert await workers_of(gateway, messages=other) == ["pool_a-1"]
        gateway.fleet.apply_loads({"pool_a-1": PeerLoad(inflight=2)})
        assert await workers_of(gateway, messages=other) == ["pool_a-1"]


@pytest.mark.parametrize("status", [429, 500])
async def test_a_worker_that_gave_no_content_has_nothing_cached(
    upstream: Upstream, other_upstream: Upstream, status: int
) -> None:
    upstream.play(Behaviour(status=status, calls=1), Behaviour())
    pool = pool_record("a", upstream.base_url, other_upstream.base_url)
    route = route_record("a", strategy=LEAST_WORK)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        messages = long_prompt("x")
        assert await workers_of(gateway, messages=messages) == ["pool_a-0", "pool_a-1"]
        gateway.skipped_s = 2.0
        gateway.u = 0.0
        # the second is warm by now; without it the first would be taken
        assert await workers_of(gateway, messages=messages) == ["pool_a-1"]
        assert attempts(gateway)[0]["warm"] is True
        assert await workers_of(gateway, messages=long_prompt("y")) == ["pool_a-0"]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/tokenize", '{"count":1,"max_model_len":1,"tokens":[1]}'),
        ("/v1/embeddings", '{"data":[{"index":0,"embedding":[0.5]}]}'),
    ],
)
async def test_a_call_that_generates_nothing_warms_nobody(
    upstream: Upstream, other_upstream: Upstream, path: str, answer: str
) -> None:
    other_upstream.play(Behaviour(body=answer, calls=1), Behaviour())
    pool = pool_record("a", upstream.base_url, other_upstream.base_url)
    route = route_record("a", strategy=LEAST_WORK)
    kind = Task.EMBED if path == "/v1/embeddings" else Task.GENERATE
    embedding = configuration(pool, routes=(route,), models=(replace(MODEL, task=kind),))
    async with running_gateway(embedding) as gateway:
        gateway.u = 0.9
        messages = long_prompt("x")
        reply = await post(gateway.port, path, messages=messages)
        assert (reply.status, attempts(gateway)[0]["worker"]) == (200, "pool_a-1")
        gateway.apply(configuration(pool, routes=(route,)))
        gateway.u = 0.0
        assert await workers_of(gateway, messages=messages) == ["pool_a-0"]


async def test_a_picture_counts_as_no_text_and_teaches_no_rate(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=150))
    picture = {"url": "data:image/png;base64," + "A" * 900_000}
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": picture}]}]
    async with running_gateway(configuration(pool_record("a", upstream.base_url))) as gateway:
        (worker,) = gateway.fleet.ready("pool_a")
        found = []
        gateway.books.wrote = lambda _fact: found.append(worker.prefill_tokens)
        reply = await chat(gateway.port, messages=messages, stream=True)
        assert reply.text == "one two three four five"
        assert 0 < found[0] < 100
        assert worker.prefill_rate == USUAL_PREFILL_RATE


@pytest.mark.slow
async def test_only_what_is_not_cached_counts_as_prefill_and_only_until_the_first_token(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pool = pool_record("a", upstream.base_url, other_upstream.base_url, worker_concurrency=4)
    route = route_record("a", strategy=LEAST_WORK)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        upstream.play(Behaviour(delay_ms=150, gap_ms=100))
        messages, found = long_prompt("x"), []
        for _ in range(2):
            task_under_way = streaming(gateway.port, messages=messages)
            gateway.books.wrote = lambda _fact: found.append(gateway.fleet.prefill_tokens())
            async with task_under_way as call:
                await call.read_until(b"one")
                assert gateway.fleet.prefill_tokens() == {}
                assert gateway.inflight == 1
                await call.read_rest()
        first, after_first, second, after_second = found
        size = len(json.dumps(messages))
        assert 0.9 * size / 4 < first["pool_a-0"] < 1.2 * size / 4
        assert (second, after_first, after_second) == ({}, {}, {})


@pytest.mark.slow
async def test_streams_go_where_they_have_begun_soonest(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=900))
    pools = [pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url)]
    route = route_record("a", "b", strategy=Strategy.LOWEST_LATENCY)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        gateway.u = 0.5
        assert await workers_of(gateway, stream=True) == ["pool_a-0"]
        # nobody knows of the other, so it is like the first, and the first is as free
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=1)})
        assert await workers_of(gateway, stream=True) == ["pool_b-0"]
        gateway.fleet.apply_loads({})
        assert await workers_of(gateway, stream=True) == ["pool_b-0"]
        terms = attempts(gateway)[0]["terms"]
        assert 0 < terms["first_token_s"] < 0.8
        assert terms["is_explored"] is False
        # one in twenty goes to anybody
        gateway.u = 0.01
        assert await workers_of(gateway, stream=True) == ["pool_a-0"]


async def test_requests_go_where_they_cost_least_whatever_the_weights(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = [
        pool_record("a", upstream.base_url, model_id="mdl_unpriced"),
        pool_record("b", upstream.base_url),
        pool_record("c", other_upstream.base_url, model_id="mdl_c"),
    ]
    route = route_record("a", "b", "c", strategy=Strategy.CHEAPEST, max_attempts=3)
    cheap = replace(PRICE, id="prc_c", model_id="mdl_c", output_nanousd_per_mtok=10**12)
    snapshot = configuration(*pools, routes=(route,), prices=(PRICE, cheap))
    async with running_gateway(snapshot) as gateway:
        assert await workers_of(gateway) == ["pool_c-0"]
        assert attempts(gateway)[0]["terms"] == {
            "cost_max_nanousd": gateway.books.openings[0].cost_max_nanousd
        }
        for one in (upstream, other_upstream):
            one.play(Behaviour(status=500))
        assert await workers_of(gateway) == ["pool_c-0", "pool_b-0", "pool_a-0"]


async def test_inside_a_weighted_target_the_worker_with_the_least_wait_is_taken(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = [
        pool_record("a", upstream.base_url, other_upstream.base_url),
        pool_record("b", other_upstream.base_url),
    ]
    route = route_record("a", "b", weights=(3, 1))
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=1)})
        served: Counter[str] = Counter()
        for number in range(40):
            gateway.u = (number + 0.5) / 40
            served.update(await workers_of(gateway))
        assert served == {"pool_a-1": 30, "pool_b-0": 10}


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_target_of_weight_zero_is_never_chosen_however_idle(
    upstream: Upstream, other_upstream: Upstream, strategy: Strategy
) -> None:
    upstream.play(Behaviour(status=500))
    pools = [pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url)]
    route = route_record("a", "b", weights=(1, 0), strategy=strategy, max_attempts=5)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=100_000)})
        for _ in range(8):
            assert (await chat(gateway.port)).status == 502
    assert other_upstream.calls == []


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_no_worker_is_come_back_to_however_many_attempts_are_allowed(
    upstream: Upstream, other_upstream: Upstream, strategy: Strategy
) -> None:
    upstream.play(Behaviour(status=500))
    other_upstream.play(Behaviour(status=500))
    pools = [pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url)]
    route = route_record("a", "b", strategy=strategy, max_attempts=10)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
        assert [one["worker"] for one in attempts(gateway)] == ["pool_a-0", "pool_b-0"]
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 1)


async def test_requests_follow_a_workers_new_address_at_once(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(before_head="close"))
    async with running_gateway(configuration(pool_record("a", upstream.base_url))) as gateway:
        for _ in range(3):
            assert (await chat(gateway.port)).status == 502
        gateway.apply(configuration(pool_record("a", other_upstream.base_url)))
        before = len(upstream.calls)
        for _ in range(20):
            assert (await chat(gateway.port)).status == 200
        assert (len(upstream.calls), len(other_upstream.calls)) == (before, 20)
