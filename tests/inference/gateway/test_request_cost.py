"""What a plain request costs, in what can be counted on any machine: calls of our own code."""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import FrameType

import pytest

import inference
from inference.gateway import hot
from tests.inference.gateway.client import BASE, chat, request_bytes, send
from tests.inference.gateway.rig import (
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream

OURS = str(Path(inference.__file__).parent)
REQUESTS = 12

# 154 when it was written, without a journal. It was 308 before heads were known again and plans
# had a groundwork.
MOST_CALLS = 157


async def test_a_plain_request_is_served_with_few_calls(upstream: Upstream) -> None:
    counts: list[int] = []
    pool = pool_record("a", upstream.base_url)
    route = route_record("a", total_timeout_ms=60_000)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for number in range(REQUESTS):
            body = json.dumps({**BASE, "max_tokens": 10, "seed": 10**number}).encode()
            count = Counter[bool]()

            def note(
                frame: FrameType, event: str, argument: object, count: Counter[bool] = count
            ) -> None:
                if event == "call":
                    count[frame.f_code.co_filename.startswith(OURS)] += 1

            sys.setprofile(note)
            try:
                writer.write(request_bytes(body))
                head = await reader.readuntil(b"\r\n\r\n")
                _, _, rest = head.partition(b"content-length: ")
                await reader.readexactly(int(rest.partition(b"\r\n")[0]))
                await gateway.wait_for(lambda: not gateway.tasks)
            finally:
                sys.setprofile(None)
            assert head.startswith(b"HTTP/1.1 200")
            counts.append(count[True])
        writer.close()
    assert median(counts) <= MOST_CALLS, counts


@pytest.mark.parametrize(("path", "parsed"), [("/v1/chat/completions", 1), ("/v1/completions", 1)])
async def test_a_head_is_parsed_once_a_connection(
    upstream: Upstream, path: str, parsed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    read_headers = hot.read_headers

    def counted(raw: list[tuple[bytes, bytes]]) -> object:
        read.append(len(raw))
        return read_headers(raw)

    monkeypatch.setattr(hot, "read_headers", counted)
    async with running_gateway(configuration(pool_record("a", upstream.base_url))) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for number in range(5):
            body = json.dumps({**BASE, "prompt": "ping", "seed": 10**number}).encode()
            sent = request_bytes(body, path=path)
            for part in (sent[:-20], sent[-20:]) if number % 2 else (sent,):
                writer.write(part)
                await asyncio.sleep(0.01)
            head = await reader.readuntil(b"\r\n\r\n")
            _, _, rest = head.partition(b"content-length: ")
            await reader.readexactly(int(rest.partition(b"\r\n")[0]))
            assert head.startswith(b"HTTP/1.1 200")
        writer.close()
    assert len(read) == parsed


async def test_requests_that_say_no_more_of_themselves_share_an_origin(upstream: Upstream) -> None:
    first = configuration(pool_record("a", upstream.base_url))
    async with running_gateway(first) as gateway:
        for headers in ({}, {}, {"x-headworks-tags": "t"}, {}):
            body = json.dumps(BASE).encode()
            await send(gateway.port, request_bytes(body, headers=headers))
        await chat(gateway.port, user="ann")
        gateway.apply(replace(first, version=first.version + 1))
        await chat(gateway.port)
        origins = [end.origin for end in gateway.books.ends]
    plain, again, tagged, after, named, newer = origins
    assert plain is again is after
    assert (plain.tags, tagged.tags) == ((), ("t",))
    assert (plain.end_user, named.end_user) == (None, "ann")
    assert (plain.version, newer.version) == (7, 8)
