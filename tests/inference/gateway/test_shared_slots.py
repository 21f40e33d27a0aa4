"""A worker's slots are those of all gateways together, however late each hears of the others."""

import asyncio
from contextlib import AsyncExitStack

from inference.decisions.queueing import Crowd
from inference.fleet.peers import PeerLoad
from tests.inference.gateway.client import chat, opened
from tests.inference.gateway.rig import Gateway
from tests.inference.gateway.test_queue import asked, narrow
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


async def test_the_others_slots_are_theirs(upstream: Upstream) -> None:
    async with narrow(upstream, slots=4, max_queue_wait_ms=50) as gateway:
        fleet = gateway.fleet
        fleet.apply_loads({"pool_a-0": PeerLoad(inflight=4)}, Crowd(2))
        assert (await chat(gateway.port)).error["code"] == "queue_timeout"
        task = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: gateway.waiting.waiting == 1)
        fleet.apply_loads({"pool_a-0": PeerLoad(inflight=3)}, Crowd(2))
        assert (await task).status == 200
        fleet.apply_loads({}, None)  # nothing was heard for long: an equal part
        (worker,) = fleet.ready("pool_a")
        assert worker.most == 2


async def test_two_gateways_never_pass_a_workers_slots_though_each_hears_late_of_the_other(
    upstream: Upstream,
) -> None:
    slots = 8
    upstream.play(Behaviour(before_head="hang"))
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(narrow(upstream, slots=slots)) for _ in range(2)
        ]
        said = {"one": 0, "other": 0}
        calls = AsyncExitStack()

        def hear(gateway: Gateway, of: str) -> None:
            """Take what the other said last, however old that is."""
            gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=said[of])}, Crowd(2, None))

        def tell(gateway: Gateway, name: str, now_s: float) -> None:
            said[name] = gateway.fleet.tell_inflight(now_s)["pool_a-0"]

        async def come(gateway: Gateway, count: int = slots) -> None:
            """So many more requests, of which those that find no room wait."""
            before = gateway.inflight + gateway.waiting.waiting
            for _ in range(count):
                await calls.enter_async_context(opened(gateway.port, asked()))
            await gateway.wait_for(
                lambda: gateway.inflight + gateway.waiting.waiting == before + count
            )

        async with calls:
            for gateway, name in ((one, "one"), (other, "other")):
                tell(gateway, name, 0.0)
                hear(gateway, "one" if gateway is other else "other")
            await come(one)
            assert one.inflight == 4
            hear(one, "other")  # nothing, which may be two seconds old by now
            await come(other)
            assert (one.inflight, other.inflight) == (4, 4)
        await one.wait_for(lambda: not (one.inflight or other.inflight))

        async with calls:
            # what one has alone, and has said for long, is known to the other: so it takes more
            await come(one)
            for second in range(1, 15):
                tell(one, "one", second)
                hear(one, "other")
            hear(other, "one")
            await one.wait_for(lambda: one.inflight == 7)
            await come(other)
            assert (one.inflight, other.inflight) == (7, 1)
