"""Metrics are as many as the configuration makes them, whatever callers write."""

import json

import pytest

from tests.inference.gateway.client import BASE, request_bytes, send
from tests.inference.gateway.rig import TOKEN, Gateway
from tests.upstream.fixtures import Upstream

REQUESTS = 200


def series_of(gateway: Gateway) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in gateway.registry.collect()
        for sample in family.samples
    }


async def ask(gateway: Gateway, junk: str) -> None:
    """A request of an unknown model, one with an unknown key, and one that is served."""
    headers = {"x-headworks-tags": junk, "x-headworks-session": junk, "x-request-id": junk}
    for model, token in ((f"m-{junk}", TOKEN), ("m", f"hw_{junk}"), ("m", TOKEN)):
        body = json.dumps({**BASE, "model": model, "user": junk, "metadata": {"user_id": junk}})
        await send(gateway.port, request_bytes(body.encode(), token=token, headers=headers))


@pytest.mark.slow
async def test_what_callers_write_makes_no_series(gateway: Gateway, upstream: Upstream) -> None:
    await ask(gateway, "junk")
    before = series_of(gateway)
    for number in range(REQUESTS):
        await ask(gateway, f"junk-{number}")
    assert series_of(gateway) == before
    assert gateway.metric("requests_total", route="rt_m", outcome="ok") == REQUESTS + 1
    assert gateway.metric("requests_total", route="none", outcome="refused") == 2 * REQUESTS + 2
