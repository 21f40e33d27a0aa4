"""Two consoles on one database: what one does, the other has, and nothing is lost between them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from controlplane.models import ConfigRevision
from inference.contract import wire
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.consoles import Console, running_console
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow

ROUNDS = 25


@pytest.fixture
def two(transactional_db: None, tmp_path: Path) -> Iterator[tuple[Console, Console]]:
    with (
        running_console(tmp_path / "first") as first,
        running_console(tmp_path / "second") as second,
    ):
        yield first, second


def test_patches_of_different_fields_through_two_consoles_both_stay_and_are_published(
    two: tuple[Console, Console], admin: Caller, state_store: Redis
) -> None:
    headers = {"authorization": f"Bearer {admin.token}"}
    status, pool = two[0].ask("POST", "/api/v1/pools/", POOL, **headers)
    assert status == 201
    path = f"/api/v1/pools/{pool['id']}/"

    def patch(console: Console, change: dict[str, Any]) -> int:
        return console.ask("PATCH", path, change, **headers)[0]

    with ThreadPoolExecutor(2) as threads:
        for number in range(2, 2 + ROUNDS):
            changes = ({"replicas": number}, {"drain_timeout_s": number})
            assert list(threads.map(patch, two, changes)) == [200, 200]
            now = two[1].ask("GET", path, **headers)[1]
            assert (now["replicas"], now["drain_timeout_s"]) == (number, number)
    newest = newest_revision()
    staged = staged_snapshot(newest).pools[pool["id"]]
    assert (staged.replicas, staged.drain_timeout_s) == (ROUNDS + 1, ROUNDS + 1)
    assert now["version"] == 1 + 2 * ROUNDS
    versions = ConfigRevision.objects.order_by("id").values_list("version", flat=True)
    assert list(versions) == list(range(1, newest.version + 1))
    assert state_store.hget(wire.MANIFEST, "version") == str(newest.version).encode()


def test_of_two_edits_of_one_version_one_wins(two: tuple[Console, Console], admin: Caller) -> None:
    headers = {"authorization": f"Bearer {admin.token}"}
    _, pool = two[0].ask("POST", "/api/v1/pools/", POOL, **headers)
    path = f"/api/v1/pools/{pool['id']}/"

    def patch(console: Console, replicas: int) -> int:
        tag = {"If_Match": '"1"'}
        return console.ask("PATCH", path, {"replicas": replicas}, **headers, **tag)[0]

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(patch, two, (5, 6))) == [200, 412]
    assert two[0].ask("GET", path, **headers)[1]["version"] == 2
