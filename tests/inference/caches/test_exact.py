"""Answers served again to the same request: when they are, when they must not be, and how."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inference.contract.kinds import CacheOutcome, CacheScope, CacheTier, Outcome, TaskClass
from inference.contract.snapshot import MatchRecord
from tests.inference.caches.rig import (
    POLICY,
    TTL_S,
    Clock,
    cached_configuration,
    cached_route,
    caching_gateway,
)
from tests.inference.gateway.client import BASE, Reply, chat, request_bytes, send
from tests.inference.gateway.rig import DEBUG_TOKEN, TOKEN, Gateway, key_record, pool_record
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

OTHER_TOKEN = "hw_otherp789abcdefghjkmnpqrs.secret-of-another-key"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"type": "object", "properties": {"at": {"type": "number"}}},
        },
    }
]


def cache(reply: Reply) -> str:
    """What the answer says of the cache."""
    return reply.headers["x-headworks-cache"]


async def ask(gateway: Gateway, headers: dict[str, str], **fields: object) -> Reply:
    """A completion: `BASE` with these headers and fields."""
    body = json.dumps({**BASE, **fields}).encode()
    return await send(gateway.port, request_bytes(body, headers=headers))


def events(reply: Reply) -> list[Any]:
    """The frames of a stream, parsed; its mark as a text."""
    frames = [one.removeprefix("data: ") for one in reply.body.decode().split("\n\n") if one]
    return [one if one == "[DONE]" else json.loads(one) for one in frames]


async def test_a_hit_has_no_opening_no_charge_and_costs_nothing(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        first, second = await chat(gateway.port), await chat(gateway.port)
        await gateway.wait_ended(2)
    assert (cache(first), cache(second)) == ("miss", "hit; tier=local")
    assert (second.body, second.headers["age"]) == (first.body, "0")
    assert len(upstream.calls) == len(gateway.books.openings) == 1
    end = gateway.books.ends[1]
    assert (end.outcome, end.http_status, end.charges) == (Outcome.OK, 200, ())
    assert end.cache is not None
    told = (end.cache.policy_id, end.cache.outcome, end.cache.tier, end.cache.saved_nanousd)
    assert told == ("cch_a", CacheOutcome.HIT, CacheTier.LOCAL, 20_000_000)
    assert (end.cache.saved_prompt_tokens, end.cache.saved_completion_tokens) == (10, 5)
    missed = gateway.books.ends[0].cache
    assert missed is not None
    assert (missed.outcome, missed.entry_id) == (CacheOutcome.MISS, end.cache.entry_id)
    assert end.decision is not None
    assert end.decision["cache"] == {
        "policy": "cch_a",
        "outcome": "hit",
        "tier": "local",
        "entry": end.cache.entry_id,
    }
    assert gateway.metric("cache_requests_total", outcome="hit", tier="local") == 1


async def test_an_unknown_price_saves_an_unknown_sum(upstream: Upstream) -> None:
    snapshot = cached_configuration(pool_record("a", upstream.base_url), prices=())
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        await chat(gateway.port)
        await chat(gateway.port)
    used = gateway.books.ends[1].cache
    assert used is not None
    assert (used.outcome, used.saved_nanousd) == (CacheOutcome.HIT, None)


async def test_a_route_without_a_policy_says_and_keeps_nothing(upstream: Upstream) -> None:
    route = replace(cached_route("a"), cache_policy_id=None)
    snapshot = cached_configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        replies = [await chat(gateway.port) for _ in range(2)]
    assert all("x-headworks-cache" not in one.headers for one in replies)
    assert (len(upstream.calls), gateway.books.ends[1].cache) == (2, None)


async def test_a_policy_that_is_switched_off_does_nothing(upstream: Upstream) -> None:
    async with caching_gateway(upstream, policy=replace(POLICY, is_enabled=False)) as gateway:
        replies = [await chat(gateway.port) for _ in range(2)]
    assert all("x-headworks-cache" not in one.headers for one in replies)
    assert (len(upstream.calls), gateway.books.ends[1].cache) == (2, None)


async def test_an_answer_of_a_fallback_is_not_served_as_the_first_targets(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(calls=1, status=500), Behaviour(text="A"))
    other_upstream.play(Behaviour(text="B"))
    async with caching_gateway(upstream, other_upstream) as gateway:
        gateway.u = 0.0
        first, second, third = [await chat(gateway.port) for _ in range(3)]
    texts = [one.json["choices"][0]["message"]["content"] for one in (first, second, third)]
    assert texts == ["B", "A", "A"]
    assert [cache(one) for one in (first, second, third)] == ["miss", "miss", "hit; tier=local"]


async def test_no_tenant_is_answered_from_anothers_nor_can_tell_what_it_asked(
    upstream: Upstream,
) -> None:
    other = key_record(OTHER_TOKEN, project_id="proj_b", team_id="team_b")
    keys = (key_record(TOKEN), other)
    scopes = {scope: [] for scope in CacheScope}  # type: dict[CacheScope, list[str]]
    for scope, seen in scopes.items():
        upstream.reset()
        policy = replace(POLICY, scope=scope)
        snapshot = cached_configuration(
            pool_record("a", upstream.base_url), policy=policy, keys=keys
        )
        async with caching_gateway(upstream, snapshot=snapshot) as gateway:
            for token in (TOKEN, OTHER_TOKEN):
                seen.append(cache(await chat(gateway.port, token=token)))
            ids = {end.cache.entry_id for end in gateway.books.ends if end.cache is not None}
            assert len(ids) == len(upstream.calls)
    apart, together = ["miss", "miss"], ["miss", "hit; tier=local"]
    assert scopes == {
        CacheScope.KEY: apart,
        CacheScope.PROJECT: apart,
        CacheScope.TEAM: apart,
        CacheScope.ORGANISATION: together,
        CacheScope.SHARED: together,
    }


async def test_another_model_name_has_answers_of_its_own(upstream: Upstream) -> None:
    routes = (cached_route("a"), replace(cached_route("a"), id="rt_n", name="m2"))
    snapshot = cached_configuration(pool_record("a", upstream.base_url), routes=routes)
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        replies = [await chat(gateway.port, model=model) for model in ("m", "m2", "m", "m2")]
    assert [cache(one) for one in replies] == ["miss", "miss"] + 2 * ["hit; tier=local"]


async def test_routes_of_a_shared_policy_are_answered_from_one_anothers(
    upstream: Upstream,
) -> None:
    routes = (cached_route("a"), replace(cached_route("a"), id="rt_n", name="m2", aliases=("x",)))
    for scope, calls in ((CacheScope.ORGANISATION, 2), (CacheScope.SHARED, 1)):
        upstream.reset()
        snapshot = cached_configuration(
            pool_record("a", upstream.base_url),
            routes=(routes[0], replace(routes[1], name="other", aliases=("m2",))),
            policy=replace(POLICY, scope=scope),
        )
        async with caching_gateway(upstream, snapshot=snapshot) as gateway:
            await chat(gateway.port, model="m")
            await chat(gateway.port, model="other")
        assert len(upstream.calls) == calls


@pytest.mark.parametrize(
    "bad",
    [
        Behaviour(calls=1, body='{"error":{"message":"no","code":"x"}}'),
        Behaviour(calls=1, status=429),
        Behaviour(calls=1, status=400),
        Behaviour(calls=1, body='{"object":"chat.completion","choices":[]}'),
        *(
            Behaviour(
                calls=1,
                body=json.dumps(
                    {
                        "choices": [
                            {"index": 0, "message": {"content": "x"}, "finish_reason": finish}
                        ]
                    }
                ),
            )
            for finish in ("error", "content_filter", None)
        ),
    ],
    ids=["error", "429", "400", "empty", "finish-error", "content-filter", "no-finish"],
)
async def test_nothing_is_kept_of_an_answer_that_is_none(
    upstream: Upstream, bad: Behaviour
) -> None:
    upstream.play(bad, Behaviour())
    snapshot = cached_configuration(
        pool_record("a", upstream.base_url), routes=(cached_route("a", max_attempts=1),)
    )
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        first = await chat(gateway.port)
        second = await chat(gateway.port)
    assert (cache(second), len(upstream.calls)) == ("miss", 2)
    assert "no-store" in first.headers["cache-control"]


async def test_equal_bodies_hit_however_they_are_written(upstream: Upstream) -> None:
    nested = {"tools": TOOLS, "response_format": {"type": "json_object", "x": {"b": 1, "a": 2}}}
    turned = {
        "response_format": {"x": {"a": 2.0, "b": 1e0}, "type": "json_object"},
        "tools": [dict(reversed(TOOLS[0].items()))],
    }
    async with caching_gateway(upstream) as gateway:
        for number in range(20):
            await chat(gateway.port, **(nested if number % 2 else turned), seed=7)
    assert len(upstream.calls) == 1


async def test_another_image_is_another_question(upstream: Upstream) -> None:
    def picture(data: str) -> list[dict[str, Any]]:
        url = {"url": f"data:image/png;base64,{data}"}
        parts = [{"type": "text", "text": "describe"}, {"type": "image_url", "image_url": url}]
        return [{"role": "user", "content": parts}]

    async with caching_gateway(upstream) as gateway:
        replies = [
            await chat(gateway.port, messages=picture(one)) for one in ("AAAA", "BBBB", "AAAA")
        ]
    assert [cache(one) for one in replies] == ["miss", "miss", "hit; tier=local"]


async def test_temperature_and_bounds_are_part_of_the_key_and_absent_is_not_0(
    upstream: Upstream,
) -> None:
    bodies: list[dict[str, Any]] = [
        {"temperature": None},
        {"temperature": 0},
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0, "max_tokens": 5},
        {"temperature": 0, "top_p": 0},
    ]
    async with caching_gateway(upstream, policy=replace(POLICY, stores_sampled=True)) as gateway:
        replies = [await chat(gateway.port, **one) for one in bodies]
        again = [await chat(gateway.port, **one) for one in bodies]
    hit = "hit; tier=local"
    assert [cache(one) for one in replies] == ["miss", "miss", hit, "miss", "miss", "miss"]
    assert [cache(one) for one in again] == [hit] * 6


async def test_what_chance_has_a_part_in_is_not_kept_unless_the_policy_says_so(
    upstream: Upstream,
) -> None:
    sampled: list[dict[str, Any]] = [{"temperature": None}, {"temperature": 0.5}, {"n": 2}]
    async with caching_gateway(upstream) as gateway:
        told = {cache(await chat(gateway.port, **one)) for one in sampled for _ in range(2)}
    assert told == {"bypass; reason=sampled"}
    assert len(upstream.calls) == 6


async def test_expiry_is_absolute_however_often_an_answer_is_served(upstream: Upstream) -> None:
    clock = Clock()
    policy = replace(POLICY, ttl_s={TaskClass.DEFAULT: 3})
    async with caching_gateway(upstream, policy=policy, clock=clock) as gateway:
        seen = []
        for skipped_s in (0, 2, 4):
            clock.skipped_s = skipped_s
            seen.append(cache(await chat(gateway.port)))
    assert seen == ["miss", "hit; tier=local", "miss"]


async def test_how_long_an_answer_lives_is_by_its_task(upstream: Upstream) -> None:
    clock = Clock()
    async with caching_gateway(upstream, clock=clock) as gateway:
        for task in TaskClass:
            await ask(gateway, {"x-headworks-task": task.value}, user=task.value, seed=len(task))
        clock.skipped_s = TTL_S + 1
        alive = [
            task
            for task in TaskClass
            if "hit" in cache(await ask(gateway, {"x-headworks-task": task.value}, seed=len(task)))
        ]
    assert alive == [TaskClass.CODE, TaskClass.FACTUAL, TaskClass.EXTRACTION]
    creative = {one.cache.outcome for one in gateway.books.ends if one.origin.task == "creative"}  # type: ignore[union-attr]
    assert creative == {CacheOutcome.BYPASS}


async def test_a_shorter_life_holds_for_what_is_kept_already(upstream: Upstream) -> None:
    clock = Clock()
    async with caching_gateway(upstream, clock=clock) as gateway:
        await chat(gateway.port)
        clock.skipped_s = 20
        short = replace(POLICY, ttl_s={TaskClass.DEFAULT: 10})
        pool = pool_record("a", upstream.base_url)
        gateway.apply(cached_configuration(pool, policy=short))
        assert cache(await chat(gateway.port)) == "miss"


async def test_rules_pass_requests_by(upstream: Upstream) -> None:
    bypass = (MatchRecord(headers=(("x-region", "eu"),)), MatchRecord(tags=("live",)))
    async with caching_gateway(upstream, policy=replace(POLICY, bypass=bypass)) as gateway:
        for headers in ({"x-region": "eu"}, {"x-headworks-tags": "live"}):
            told = [cache(await ask(gateway, headers)) for _ in range(2)]
            assert told == ["bypass; reason=rule"] * 2
        assert cache(await ask(gateway, {"x-region": "us"})) == "miss"


async def test_an_answer_that_is_too_large_is_not_kept(upstream: Upstream) -> None:
    upstream.play(Behaviour(text="word " * 400))
    policy = replace(POLICY, max_entry_bytes=1_024)
    async with caching_gateway(upstream, policy=policy) as gateway:
        replies = [await chat(gateway.port) for _ in range(2)]
    assert [cache(one) for one in replies] == ["miss", "miss"]


async def test_the_entry_is_named_to_keys_that_may_know(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        plain = await chat(gateway.port)
        shown = await chat(gateway.port, token=DEBUG_TOKEN)
    assert "x-headworks-cache-entry" not in plain.headers
    told = gateway.books.ends[1].cache
    assert told is not None
    assert shown.headers["x-headworks-cache-entry"] == told.entry_id
    assert len(str(told.entry_id)) == len("ce_") + 24


async def test_answers_are_for_nobody_else_to_keep(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        replies = [await chat(gateway.port) for _ in range(2)]
        streams = [await chat(gateway.port, stream=True, seed=1) for _ in range(2)]
    for reply in replies:
        assert reply.headers["cache-control"] == "private, no-store"
        assert reply.headers["vary"] == "Authorization"
    for stream in streams:
        assert stream.headers["cache-control"] == "no-cache, private, no-store"
        assert (stream.headers["vary"], stream.headers["x-accel-buffering"]) == (
            "Authorization",
            "no",
        )


async def test_both_ways_into_the_gateway_answer_from_caches_alike(upstream: Upstream) -> None:
    told: list[list[Any]] = []
    for is_hot in (True, False):
        upstream.reset()
        async with caching_gateway(upstream, is_hot=is_hot) as gateway:
            replies = [await chat(gateway.port, stream=stream) for stream in (False, True, False)]
            unlike = ("date", "x-request-id")
            told.append(
                [
                    (one.status, {k: v for k, v in one.headers.items() if k not in unlike})
                    for one in replies
                ]
            )
    assert told[0] == told[1]
