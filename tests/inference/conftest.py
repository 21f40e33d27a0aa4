"""Stores and clients for the data plane's own tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.store import connect_store
from tests.inference.stores import OwnStore


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[OwnStore]:
    """A store only this test uses, so that it may do to it what it likes."""
    folder = tmp_path / "store"
    folder.mkdir()
    store = OwnStore(folder)
    yield store
    store.stop()


@pytest.fixture
async def client(own_store: OwnStore) -> AsyncIterator[Redis]:
    """The data plane's client of that store."""
    client = connect_store(own_store.url)
    yield client
    await client.aclose()


@pytest.fixture
async def admin(own_store: OwnStore) -> AsyncIterator[Redis]:
    """A client of that store that may do everything, as the control plane and operators can."""
    client = connect_store(own_store.admin_url)
    yield client
    await client.aclose()
