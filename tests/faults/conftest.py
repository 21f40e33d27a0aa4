"""An installation without an engine: the scripted upstream stands behind its demo route."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, Gateway, second_gateway, small_disk
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
    """A whole installation, two gateway children, no engine; tests leave it as they found it.

    Its launcher is killed in the end, after its guardian was, and nothing outlives that.
    """
    with running_installation(
        tmp_path_factory.mktemp("faults") / "var",
        DEMO_ENGINE="none",
        DEMO_UPSTREAM_URL=engineless_upstream.base_url,
        DEMO_UPSTREAM_KEY="upstream-secret",
        GATEWAY_PROCESSES="2",
        GATEWAY_ID="gw-first",
        end_by=signal.SIGKILL,
    ) as running:
        yield running


@pytest.fixture(scope="session")
def session_fleet(
    installation: Installation,
    engineless_upstream: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    """The installation and a second gateway, whose folder is on a small disk if we are root."""
    demo = installation.demo
    admin_url = f"http://127.0.0.1:{installation.settings['HEADWORKS_GATEWAY_ADMIN_PORT']}"
    first = Gateway("gw-first", installation.var, demo["GATEWAY_URL"], admin_url, demo["API_KEY"])
    folder: Path = tmp_path_factory.mktemp("f") / "second"
    with small_disk(folder), second_gateway(installation, folder) as (second, link):
        yield Fleet(installation, engineless_upstream, (first, second), link)


@pytest.fixture
def fleet(session_fleet: Fleet) -> Fleet:
    """The fleet as a test finds it: serving, its ledger told of all that was before."""
    session_fleet.take_stock()
    return session_fleet
