"""One timer for many set times: what was set last happens, on time and once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inference.watchdog import Watchdog

# a timer may ring a tick of the loop's clock early
TICK_S = 0.002
PATIENCE_S = 30.0


@pytest.fixture
def rung() -> list[str]:
    return []


@pytest.fixture
async def watchdog() -> AsyncIterator[Watchdog]:
    made = Watchdog(asyncio.get_running_loop())
    yield made
    made.close()


async def time_until(rung: list[str]) -> float:
    """Seconds until it calls."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not rung:
        assert loop.time() - began_s < PATIENCE_S
        await asyncio.sleep(0.002)
    return loop.time() - began_s


async def test_it_calls_once_when_the_time_is_over(watchdog: Watchdog, rung: list[str]) -> None:
    watchdog.set(0.03, lambda: rung.append("a"))
    assert await time_until(rung) >= 0.03 - TICK_S
    await asyncio.sleep(0.05)
    assert rung == ["a"]


async def test_setting_it_anew_replaces_what_was_set_be_it_sooner_or_later(
    watchdog: Watchdog, rung: list[str]
) -> None:
    watchdog.set(0.01, lambda: rung.append("sooner"))
    watchdog.set(0.06, lambda: rung.append("later"))
    assert await time_until(rung) >= 0.06 - TICK_S
    assert rung == ["later"]
    watchdog.set(5.0, lambda: rung.append("much later"))
    watchdog.set(0.01, lambda: rung.append("now"))
    rung.clear()
    await time_until(rung)
    assert rung == ["now"]


async def test_nothing_is_called_once_it_was_cleared_or_closed(
    watchdog: Watchdog, rung: list[str]
) -> None:
    watchdog.set(0.01, lambda: rung.append("a"))
    watchdog.clear()
    await asyncio.sleep(0.03)
    watchdog.set(0.01, lambda: rung.append("b"))
    watchdog.close()
    await asyncio.sleep(0.03)
    assert rung == []
    watchdog.set(0.01, lambda: rung.append("c"))
    await time_until(rung)
    assert rung == ["c"]


async def test_what_is_far_off_is_looked_at_again_on_the_way(
    watchdog: Watchdog, rung: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.watchdog._LONGEST_S", 0.01)
    watchdog.set(0.04, lambda: rung.append("a"))
    assert await time_until(rung) >= 0.04 - TICK_S
    assert rung == ["a"]
