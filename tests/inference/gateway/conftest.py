"""A gateway over one scripted upstream, and over two."""

from collections.abc import AsyncIterator

import pytest

from tests.inference.gateway.rig import Gateway, configuration, pool_record, running_gateway
from tests.upstream.fixtures import Upstream


@pytest.fixture
async def gateway(upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose route `m` has the first upstream for its only worker."""
    async with running_gateway(configuration(pool_record("a", upstream.base_url))) as running:
        yield running


@pytest.fixture
async def pair(upstream: Upstream, other_upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose route `m` goes to the first upstream, then to the second."""
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools)) as running:
        yield running
