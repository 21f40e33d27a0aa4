"""An installation without an engine: the scripted upstream stands behind its demo route."""

from collections.abc import Iterator

import pytest

from tests.installation import Installation, running_installation
from tests.upstream.fixtures import Upstream, running_upstream


@pytest.fixture(scope="session")
def engineless_upstream() -> Iterator[Upstream]:
    """The upstream the shared installation serves from."""
    with running_upstream() as made:
        yield made


@pytest.fixture(scope="session")
def installation(
    engineless_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A whole installation, two gateway children, no engine; tests leave it as they found it."""
    with running_installation(
        tmp_path_factory.mktemp("faults") / "var",
        DEMO_ENGINE="none",
        DEMO_UPSTREAM_URL=engineless_upstream.base_url,
        DEMO_UPSTREAM_KEY="upstream-secret",
        GATEWAY_PROCESSES="2",
    ) as running:
        yield running
