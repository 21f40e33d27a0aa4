"""A seeded store of a test's own."""

import pytest
from redis.asyncio import Redis

from tests.inference.limits.rig import SEEDED
from tests.inference.stores import OwnStore, keep_clear_of_the_end

DAY_S = 86_400


@pytest.fixture(autouse=True)
def _one_day() -> None:
    """Keep a test's counters in the day it began in."""
    keep_clear_of_the_end(DAY_S, margin_s=30)


@pytest.fixture
async def store(own_store: OwnStore, admin: Redis) -> OwnStore:
    """A store that the control plane has filled."""
    await admin.mset(SEEDED)
    return own_store
