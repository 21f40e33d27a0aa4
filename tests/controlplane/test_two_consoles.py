"""Two consoles on one database: what one does, the other has, and nothing is lost between them."""

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from controlplane.models import CatalogueModel, ConfigRevision, Key
from inference.contract import wire
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.consoles import Console, running_console
from tests.controlplane.snapshots import newest_revision, staged_snapshot
from tests.installation import ROOT

pytestmark = pytest.mark.slow

ROUNDS = 100


@pytest.fixture(scope="module")
def running(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Console, Console]]:
    logs = tmp_path_factory.mktemp("consoles")
    with running_console(logs / "first") as first, running_console(logs / "second") as second:
        yield first, second


@pytest.fixture
def two(transactional_db: None, running: tuple[Console, Console]) -> tuple[Console, Console]:
    return running


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
            if number % 10:
                continue
            now = two[1].ask("GET", path, **headers)[1]
            assert (now["replicas"], now["drain_timeout_s"]) == (number, number)
    now = two[1].ask("GET", path, **headers)[1]
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


def test_one_idempotency_key_through_two_consoles_makes_one_key_with_one_secret(
    two: tuple[Console, Console], admin: Caller
) -> None:
    headers = {"authorization": f"Bearer {admin.token}", "Idempotency_Key": "once"}

    def make(console: Console, name: str = "mine") -> tuple[int, Any]:
        return console.ask("POST", "/api/v1/keys/", {"name": name}, **headers)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(make, two * 4))
    assert [status for status, _ in answers] == [201] * 8
    assert len({answer["key"] for _, answer in answers}) == 1
    assert Key.objects.count() == 1
    assert make(two[0], "other")[0] == 422


def test_an_answer_of_a_console_that_died_is_told_by_another(
    two: tuple[Console, Console], admin: Caller, tmp_path: Path
) -> None:
    headers = {"authorization": f"Bearer {admin.token}", "Idempotency_Key": "once"}
    with running_console(tmp_path / "dying") as dying:
        status, first = dying.ask("POST", "/api/v1/keys/", {"name": "mine"}, **headers)
        dying.kill()
    assert status == 201
    assert two[1].ask("POST", "/api/v1/keys/", {"name": "mine"}, **headers) == (201, first)
    assert Key.objects.count() == 1


def test_the_calls_of_the_manual_work_as_pasted(
    two: tuple[Console, Console], admin: Caller
) -> None:
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    manual = (ROOT / "docs/api.md").read_text().partition("## The REST API")[2]
    blocks = re.findall(r"^```\n(.*?)^```", manual.partition("### Nouns")[0], re.M | re.S)
    calls = [block for block in blocks if "curl" in block]
    assert len(calls) == 5
    failing = 'curl() { command curl -sS --fail-with-body "$@"; }\n'
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", failing + "".join(calls)],
        env={
            **os.environ,
            "CONSOLE_URL": f"http://127.0.0.1:{two[0].port}",
            "API_TOKEN": admin.token,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"key":"hw_' in done.stdout
    assert CatalogueModel.objects.filter(name__in=("model-a", "model-b")).count() == 2
