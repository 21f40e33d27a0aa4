"""Comments in a silent stream: when they are sent, and what they must not count as."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest

from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Outcome
from inference.gateway import keepalive, relay
from inference.gateway.keepalive import COMMENT, KeepAlive
from inference.workers.answers import Answer
from inference.workers.connections import Origin
from tests.inference.gateway.client import BASE, CHAT, Reply, chat, opened, request_bytes, streaming
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

WORDS = "one two three four five"
EVERY_MS = 50  # below what can be configured: a test's patience is shorter than a proxy's
DONE = "data: [DONE]\n\n"


def frame(delta: dict[str, str], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


ROLE = frame({"role": "assistant"})
STOP = frame({}, "stop")
FAILED = 'data: {"error":{"message":"engine died","code":500}}\n\n'


@asynccontextmanager
async def kept_alive(*upstreams: Upstream, **changes: object) -> AsyncIterator[Gateway]:
    """A gateway whose route goes to these, and is kept alive every `EVERY_MS`."""
    pools = [pool_record(name, one.base_url) for name, one in zip("ab", upstreams, strict=False)]
    names = (pool.name for pool in pools)
    route = route_record(*names, **{"keep_alive_ms": EVERY_MS, **changes})
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        yield gateway


def comments(reply: Reply) -> int:
    return reply.body.split(b"\n").count(b":")


async def test_a_silent_worker_is_covered_by_a_comment_each_interval(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=500))
    async with kept_alive(upstream) as gateway:
        arrivals = [time.monotonic()]
        async with streaming(gateway.port) as call:
            assert (call.status, call.headers["content-type"]) == (
                200,
                "text/event-stream; charset=utf-8",
            )
            while await call.read_part() == COMMENT:
                arrivals.append(time.monotonic())
            reply = await call.read_rest()
    assert len(arrivals) > 4
    assert arrivals[1] - arrivals[0] >= EVERY_MS / 1000
    assert arrivals[-1] - arrivals[0] >= (len(arrivals) - 1) * EVERY_MS / 1000
    assert (reply.text, reply.is_whole, reply.events[-1]) == (WORDS, True, "[DONE]")


async def test_comments_are_no_content_and_cost_nothing(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=300))
    async with kept_alive(upstream) as gateway:
        reply = await chat(gateway.port, stream=True)
        end, charge = gateway.books.end, gateway.books.charge
    assert comments(reply) > 1
    assert (end.outcome, charge.kind, charge.usage) == (Outcome.OK, ChargeKind.FINAL, Usage(10, 5))
    assert end.first_token_ms is not None
    assert end.first_token_ms >= 300


async def test_a_comment_is_a_single_line_between_whole_events(upstream: Upstream) -> None:
    one, other = frame({"content": "a"}), frame({"content": "b"})
    halves = [one[:20], one[20:], other[:-1], other[-1:]]
    upstream.play(Behaviour(frames=[ROLE, *halves, STOP, DONE], gap_ms=140))
    async with kept_alive(upstream) as gateway:
        reply = await chat(gateway.port, stream=True)
    assert comments(reply) >= 4
    told = reply.body.decode()
    assert "\n\n:\n\n" not in told
    assert "id:" not in told
    assert told.replace("\n:\n", "\n").replace(":\n:\n", "").count("\n\n") == len(reply.events)
    kept = [line for line in told.split("\n") if line not in ("", ":")]
    assert kept == [text.strip() for text in (ROLE, one, other, STOP, DONE)]


async def test_frames_that_are_held_are_sent_in_place_of_a_comment(upstream: Upstream) -> None:
    upstream.play(Behaviour(frames=[ROLE, frame({"content": "a"}), STOP, DONE], gap_ms=3_000))
    async with kept_alive(upstream, keep_alive_ms=700) as gateway:
        started = time.monotonic()
        async with streaming(gateway.port) as call:
            assert (await call.read_part()).decode() == ROLE
            assert time.monotonic() - started < 3.0
            assert await call.read_part() == COMMENT


async def test_a_worker_s_own_comments_are_dropped_before_content_and_ours_go_on(
    upstream: Upstream,
) -> None:
    theirs = [": theirs\n\n"] * 6
    upstream.play(
        Behaviour(frames=[*theirs, frame({"content": "a"}), *theirs, STOP, DONE], gap_ms=30)
    )
    async with kept_alive(upstream) as gateway:
        reply = await chat(gateway.port, stream=True)
    before, _, after = reply.body.partition(b'"content"')
    assert before.startswith(COMMENT * 2)
    assert b"theirs" not in before
    assert after.count(b": theirs\n") == 6
    assert reply.text == "a"


@pytest.mark.slow
async def test_the_official_client_sees_nothing_but_chunks(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=200, gap_ms=120))
    async with kept_alive(upstream) as gateway:
        base_url = f"http://127.0.0.1:{gateway.port}{CHAT.removesuffix('/chat/completions')}"
        async with openai.AsyncOpenAI(base_url=base_url, api_key=TOKEN, max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "ping"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks[:-1])
    told = (chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert "".join(told) == WORDS
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Behaviour(delay_ms=200, status=503), "upstream_saturated"),
        (Behaviour(delay_ms=200, status=500), "upstream_failed"),
        (Behaviour(delay_ms=200, before_head="reset"), "upstream_closed"),
        (Behaviour(frames=[": x\n\n", FAILED], gap_ms=200), "upstream_failed"),
        (Behaviour(frames=[": x\n\n", DONE], gap_ms=200), "upstream_bad_answer"),
    ],
)
async def test_an_error_after_a_comment_is_an_event_and_no_other_target_is_tried(
    upstream: Upstream, other_upstream: Upstream, behaviour: Behaviour, code: str
) -> None:
    upstream.play(behaviour)
    async with kept_alive(upstream, other_upstream) as gateway:
        reply = await chat(gateway.port, stream=True)
        end = gateway.books.end
    assert reply.status == 200
    assert comments(reply) > 1
    assert [json.loads(event)["error"]["code"] for event in reply.events] == [code]
    assert not reply.is_whole
    assert (end.outcome, end.http_status, end.error_code) == (Outcome.ERROR, 200, code)
    assert end.first_token_ms is None
    assert other_upstream.calls == []


@pytest.mark.parametrize("keep_alive_ms", [None, 60_000])
@pytest.mark.parametrize(
    "behaviour",
    [Behaviour(delay_ms=1_500, status=500), Behaviour(frames=[": x\n\n", FAILED], gap_ms=1_500)],
)
async def test_another_target_is_tried_while_no_comment_was_due(
    upstream: Upstream,
    other_upstream: Upstream,
    behaviour: Behaviour,
    keep_alive_ms: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keepalive, "BEGUN_S", 1.0)
    upstream.play(behaviour)
    async with kept_alive(upstream, other_upstream, keep_alive_ms=keep_alive_ms) as gateway:
        reply = await chat(gateway.port, stream=True)
    assert (reply.text, reply.is_whole, comments(reply)) == (WORDS, True, 0)
    assert len(other_upstream.calls) == 1


async def test_the_time_of_a_target_that_failed_does_not_count_for_the_next(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=700, status=500))
    other_upstream.play(Behaviour(delay_ms=700))
    async with kept_alive(upstream, other_upstream, keep_alive_ms=1_350) as gateway:
        reply = await chat(gateway.port, stream=True)
    assert (reply.text, comments(reply)) == (WORDS, 0)


async def test_nothing_is_sent_while_connecting_so_that_another_target_can_be_tried(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Origin._addresses

    async def hang_once(origin: Origin) -> list[str]:
        monkeypatch.setattr(Origin, "_addresses", resolve)
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(Origin, "_addresses", hang_once)
    pools = (pool_record("a", "http://127.0.0.1:1/v1"), pool_record("b", upstream.base_url))
    limits = {"connect_timeout_ms": 2_000, "keep_alive_ms": 1_000}
    route = route_record("a", "b", **limits)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        reply = await chat(gateway.port, stream=True)
        failed, served = gateway.books.end.charges
    assert (reply.text, comments(reply)) == (WORDS, 0)
    assert (failed.error_code, served.error_code) == ("upstream_unreachable", None)
    assert failed.duration_ms >= 2_000


async def test_an_answer_that_has_begun_gets_comments_without_being_asked_to(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keepalive.BEGUN_S == 15.0
    monkeypatch.setattr(keepalive, "BEGUN_S", EVERY_MS / 1000)
    upstream.play(Behaviour(delay_ms=150, gap_ms=130))
    async with kept_alive(upstream, keep_alive_ms=None) as gateway:
        reply = await chat(gateway.port, stream=True)
    before, _, after = reply.body.partition(b'"one"')
    assert before.startswith(b"data: ")
    assert before.count(b"data: ") == 2  # held till there was content
    assert after.split(b"\n").count(b":") > 4
    assert (reply.text, reply.is_whole) == (WORDS, True)


async def test_an_answer_that_has_begun_without_content_gets_them_too(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "BEGUN_S", EVERY_MS / 1000)
    monkeypatch.setattr(relay, "HOLD_S", EVERY_MS / 1000)
    upstream.play(Behaviour(frames=[ROLE, frame({"content": "a"}), STOP, DONE], gap_ms=300))
    async with kept_alive(upstream, keep_alive_ms=None) as gateway:
        reply = await chat(gateway.port, stream=True)
    assert reply.body.startswith(ROLE.encode() + COMMENT * 2)


async def test_a_whole_answer_gets_no_comments(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=200))
    async with kept_alive(upstream) as gateway:
        reply = await chat(gateway.port)
    assert reply.json["choices"][0]["message"]["content"] == WORDS


@pytest.mark.parametrize(
    ("behaviour", "limit"),
    [
        (Behaviour(delay_ms=20_000), {"first_byte_timeout_ms": 700}),
        (Behaviour(gap_ms=20_000), {"idle_timeout_ms": 700}),
        (Behaviour(gap_ms=20_000), {"total_timeout_ms": 700}),
    ],
)
async def test_time_outs_run_on_while_comments_are_sent(
    upstream: Upstream, behaviour: Behaviour, limit: dict[str, int]
) -> None:
    upstream.play(behaviour)
    started = time.monotonic()
    async with kept_alive(upstream, **limit) as gateway:
        reply = await chat(gateway.port, stream=True)
    assert 0.7 <= time.monotonic() - started < 15.0
    assert comments(reply) > 0
    codes = [json.loads(event).get("error", {}).get("code") for event in reply.events]
    assert codes[-1] in ("upstream_timeout", "deadline_exceeded")


@pytest.mark.parametrize("behaviour", [Behaviour(delay_ms=30_000), Behaviour(gap_ms=30_000)])
async def test_a_client_that_leaves_between_comments_stops_the_worker_at_once(
    upstream: Upstream, behaviour: Behaviour
) -> None:
    upstream.play(behaviour)
    async with kept_alive(upstream) as gateway, streaming(gateway.port) as call:
        await call.read_until(COMMENT * 2)
        left = time.monotonic()
        call.leave()
        await gateway.wait_ended()
        assert time.monotonic() - left < 5.0
        await gateway.wait_for(lambda: upstream.calls[0].is_closed_early)
        assert gateway.books.end.outcome is Outcome.CANCELLED


async def test_a_client_that_does_not_read_gets_no_comments_piled_up(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[bool] = []
    sent: list[bool] = []
    comment, write = KeepAlive.comment, KeepAlive.write

    async def noted_comment(alive: KeepAlive) -> None:
        due.append(alive._exchange.downstream.has_unsent)
        await comment(alive)

    async def noted_write(alive: KeepAlive, data: bytes) -> None:
        if data == COMMENT:
            sent.append(alive._exchange.downstream.has_unsent)
        await write(alive, data)

    monkeypatch.setattr(KeepAlive, "comment", noted_comment)
    monkeypatch.setattr(KeepAlive, "write", noted_write)
    flood = frame({"content": "x" * 7_000_000})  # more than sockets take, less than a frame may be
    upstream.play(Behaviour(frames=[flood, STOP], cut_after=1, ending="hang"))
    async with kept_alive(upstream) as gateway:
        body = json.dumps({**BASE, "stream": True}).encode()
        async with opened(gateway.port, request_bytes(body)) as call:
            call.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await gateway.wait_for(lambda: due.count(True) >= 5)
            call.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await call.read_head()
            await call.read_until(b"\n\n:\n:\n")
    assert sent == [False] * due.count(False)


async def test_a_request_that_was_told_to_debug_says_so_with_its_first_comment(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=200))
    async with kept_alive(upstream) as gateway:
        body = json.dumps({**BASE, "stream": True}).encode()
        async with opened(gateway.port, request_bytes(body, token=DEBUG_TOKEN)) as call:
            await call.read_head()
            reply = await call.read_rest()
    assert reply.headers["x-headworks-target"] == "tgt_a"
    assert reply.headers["x-headworks-attempts"] == "1"


async def test_a_stream_that_flows_sets_one_timer_and_not_one_a_read(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_at: list[float] = []
    original = Answer._wake_at

    def wake_at(answer: Answer, due_s: float) -> None:
        before = answer._alarm
        original(answer, due_s)
        if answer._alarm is not before:
            set_at.append(due_s)

    monkeypatch.setattr(Answer, "_wake_at", wake_at)
    upstream.play(Behaviour(text=" ".join(["a"] * 50), gap_ms=2))
    async with kept_alive(upstream, keep_alive_ms=None) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert len(asyncio.all_tasks()) < 10
    assert reply.text.count("a") == 50
    assert len(set_at) <= 2  # what is held, and the comment
