"""The store's client never keeps a caller waiting, and its followers outlive its outages."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.store import STORE_TROUBLE, ChangeSignal, StoreHealth, connect_store
from tests.inference.stores import OwnStore, until

CHANNEL = "hw:snapshot:changed"


@pytest.mark.slow
async def test_a_frozen_store_costs_half_a_second_and_answers_again_when_thawed(
    own_store: OwnStore, client: Redis
) -> None:
    assert await client.get("hw:lineage") is None
    own_store.freeze()
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(STORE_TROUBLE):
            await client.get("hw:lineage")
        assert time.monotonic() - started < 10
    own_store.thaw()
    assert await client.get("hw:lineage") is None


async def test_an_absent_store_is_trouble_at_once(tmp_path: Path) -> None:
    client = connect_store(f"unix://{tmp_path / 'nothing.sock'}?db=0")
    with pytest.raises(STORE_TROUBLE):
        await client.ping()
    await client.aclose()


async def test_a_restart_costs_a_connection_one_error_and_nothing_is_sent_twice(
    own_store: OwnStore, client: Redis
) -> None:
    assert await client.get("hw:lineage") is None
    own_store.restart()
    with pytest.raises(STORE_TROUBLE):
        await client.get("hw:lineage")
    assert await client.get("hw:lineage") is None


async def test_no_cancellation_is_lost_and_no_answer_mistaken_for_another(client: Redis) -> None:
    async def chatter(number: int) -> None:
        while True:
            assert await client.echo(f"{number}") == str(number).encode()

    for number in range(100):
        task = asyncio.create_task(chatter(number))
        for _ in range(20 + number):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=5)
        assert task in done
        assert task.cancelled()
    assert await client.echo("last") == b"last"


async def test_a_cancelled_task_may_still_call_the_store_to_clean_up(client: Redis) -> None:
    async def work(told: list[bytes]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            told.append(await client.echo("clean"))

    told: list[bytes] = []
    task = asyncio.create_task(work(told))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert told == [b"clean"]


async def test_tcp_addresses_work_too() -> None:
    client = connect_store("redis://user:secret@127.0.0.1:1/3")
    with pytest.raises(STORE_TROUBLE):
        await client.ping()
    assert client.connection_pool.connection_kwargs["db"] == 3
    await client.aclose()


async def signal_of(client: Redis, poll_s: float) -> ChangeSignal:
    """A signal that has subscribed: the first wait returns for that."""
    signal = ChangeSignal(client, CHANNEL, poll_s=poll_s)
    await asyncio.wait_for(signal.wait(), 5)
    return signal


async def test_a_message_wakes_at_once(client: Redis, admin: Redis) -> None:
    signal = await signal_of(client, poll_s=60)
    waiting = asyncio.create_task(signal.wait())
    await admin.publish(CHANNEL, "L:1")
    await asyncio.wait_for(waiting, 5)
    await signal.aclose()


async def test_without_messages_the_poll_wakes(client: Redis) -> None:
    signal = await signal_of(client, poll_s=0.05)
    await asyncio.wait_for(signal.wait(), 5)
    await signal.aclose()


async def test_messages_wake_again_after_a_restart_of_the_store(
    own_store: OwnStore, client: Redis, admin: Redis
) -> None:
    signal = await signal_of(client, poll_s=0.05)
    own_store.restart()

    async def is_heard() -> bool:
        await signal.wait()
        return int(await admin.publish(CHANNEL, "L:1")) == 1

    await until(is_heard, "a subscription to the new store")
    await signal.aclose()


async def test_polls_go_on_while_the_store_is_frozen(own_store: OwnStore, client: Redis) -> None:
    signal = await signal_of(client, poll_s=0.05)
    own_store.freeze()
    for _ in range(3):
        await asyncio.wait_for(signal.wait(), 5)
    own_store.thaw()
    await signal.aclose()


def test_an_outage_is_logged_once_and_so_is_its_end() -> None:
    health = StoreHealth("someone")
    with capture_logs() as logs:
        health.succeeded()
        for _ in range(3):
            health.failed(OSError("gone"))
        assert health.is_up is False
        for _ in range(3):
            health.succeeded()
        assert health.is_up is True
    assert [entry["event"] for entry in logs] == [
        "state store unavailable",
        "state store available again",
    ]
