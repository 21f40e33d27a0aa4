"""Heads that are known again on a connection: never one in place of another."""

import asyncio
import json

from tests.inference.gateway.client import BASE, Call, Reply, request_bytes
from tests.inference.gateway.rig import DEBUG_TOKEN, Gateway

HOT = json.dumps(BASE).encode()


async def answers(gateway: Gateway, *pieces: tuple[bytes, int]) -> list[Reply]:
    """What is answered to pieces sent one after the other, each with so many answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    replies: list[Reply] = []
    try:
        for piece, count in pieces:
            writer.write(piece)
            for _ in range(count):
                call = Call(reader, writer)
                await call.read_head()
                replies.append(await call.read_rest())
            await asyncio.sleep(0.02)  # or two pieces would come as one
    finally:
        writer.transport.abort()
    return replies


async def test_a_head_is_not_taken_for_that_of_the_request_which_came_behind_it(
    gateway: Gateway,
) -> None:
    first = request_bytes(b"{}", path="/v1/models")
    behind = request_bytes(HOT, token=DEBUG_TOKEN)
    replies = await answers(gateway, (first + behind, 2), (first, 1), (behind, 1))
    assert [one.status for one in replies] == [405, 200, 405, 200]


async def test_what_looks_like_a_known_head_within_another_head_is_none(gateway: Gateway) -> None:
    """The other begins in what comes with the end of a body that was answered before."""
    hot, early = request_bytes(HOT), request_bytes(HOT, path="/v1/models")
    begun = early[-7:] + b"GET /nowhere HTTP/1.1\r\nx: "
    replies = await answers(gateway, (hot, 1), (early[:-7], 1), (begun, 0), (hot, 1))
    assert [one.status for one in replies] == [200, 405, 404]
