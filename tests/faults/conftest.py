"""An installation without an engine: the scripted upstream stands behind its demo route."""

from collections.abc import Iterator

import pytest

from tests.faults.fleet import Fleet
from tests.faults.keeper import Keeper


@pytest.fixture(scope="session")
def _keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    keeper = Keeper(tmp_path_factory.mktemp)
    yield keeper
    keeper.end()


@pytest.fixture
def fleet(_keeper: Keeper) -> Fleet:
    """The shared fleet as a test finds it; tests leave it as they found it."""
    return _keeper.take()
