"""A back-up is one file and restores to an installation that serves, with every event once."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.local.__main__ import main
from controlplane.local.archive import opened, read_manifest, read_secrets
from controlplane.local.problems import LocalProblem
from controlplane.local.restore import Allowed, restore
from tests.installation import (
    ROOT,
    SOON_S,
    Installation,
    running_installation,
    wait_until,
)
from tests.upstream.fixtures import Upstream, running_upstream

pytestmark = pytest.mark.fault

POOL = {
    "name": "made-later",
    "provisioner": "static",
    "model": "scripted",
    "addresses": ["http://127.0.0.1:9000/v1"],
}
PORTS = ("HEADWORKS_CONSOLE_PORT", "HEADWORKS_GATEWAY_PORT")


@dataclass(frozen=True)
class Told:
    """What one command said and how it ended."""

    code: int
    text: str


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with running_upstream() as made:
        yield made


def command(environment: Mapping[str, str], *arguments: str) -> Told:
    """Run the launcher's program on an installation's folder, as its user does."""
    done = subprocess.run(
        (sys.executable, "-m", "controlplane.local", *arguments),
        cwd=ROOT,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Told(done.returncode, done.stdout)


def serve(installation: Installation, count: int) -> list[str]:
    """Ask that often and wait until the ledger has it; the ids."""
    ids = [installation.chat(model="chat")[0] for _ in range(count)]
    for event_id in ids:
        installation.wait_for_request(event_id)
    return ids


def listed(installation: Installation) -> list[str]:
    rows: list[dict[str, Any]] = installation.api("GET", "/requests/?page_size=100")["results"]
    return sorted(row["id"] for row in rows)


def snapshots_part(installation: Installation) -> Any:
    parts = installation.api("GET", "/system/")["parts"]
    return next(part for part in parts if part["name"] == "snapshots")


def gateways_follow(installation: Installation) -> bool:
    """Whether every gateway runs the version the database has."""
    told = installation.api("GET", "/gateways/")
    return bool(told["seen"]) and told["applied"] == told["seen"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("back-up")
    return made


@dataclass(frozen=True)
class Kept:
    """A back-up, and what was asked before and after it."""

    file: Path
    settings: Mapping[str, str]
    environment: Mapping[str, str]
    before: list[str]
    after: list[str]


@pytest.fixture(scope="module")
def kept(upstream: Upstream, folder: Path) -> Kept:
    """An installation that was backed up while it ran, went on, and stopped."""
    settings = {
        "DEMO_ENGINE": "none",
        "DEMO_UPSTREAM_URL": upstream.base_url,
        "DEMO_UPSTREAM_KEY": "upstream-secret",
        "GATEWAY_PROCESSES": "2",
    }
    file = folder / "kept.zip"
    with running_installation(folder / "var", **settings) as running:
        before = serve(running, 3)
        assert main(["backup", str(file), "--with-secrets"], running.settings) == 0
        assert file.stat().st_mode & 0o777 == 0o600
        after = serve(running, 2)
        running.api("POST", "/pools/", POOL)
        with pytest.raises(LocalProblem, match="Headworks already runs"):
            restore(running.settings, file, Allowed())
        ports = {name.removeprefix("HEADWORKS_"): running.settings[name] for name in PORTS}
        told = command(running.settings, "manage", "adopt_configuration")
        assert "there is nothing to adopt" in told.text
        environment = dict(running.settings)
    return Kept(file, {**settings, **ports}, environment, before, after)


def test_a_restored_installation_serves_and_its_ledger_has_every_event_once(
    kept: Kept, folder: Path
) -> None:
    told = command(kept.environment, "restore", str(kept.file))
    assert told.code == 0, told.text
    assert "adopted as version" in told.text
    assert "up to 2 events" in told.text
    (aside,) = (folder / "var").glob("postgres.before-*")
    assert (aside / "PG_VERSION").exists()
    assert not (folder / "var" / "restoring.dump").exists()

    # what the first start said would count for the second's
    (folder / "var.out").unlink()
    with running_installation(folder / "var", **kept.settings) as running:
        wait_until(lambda: gateways_follow(running), SOON_S, "the restored version to apply")
        pools = running.api("GET", "/pools/")["results"]
        assert POOL["name"] not in [pool["name"] for pool in pools]
        (new,) = serve(running, 1)
        expected = sorted([*kept.before, *kept.after, new])
        wait_until(lambda: listed(running) == expected, SOON_S, "every event, once")
        total = running.api("GET", "/usage/")["total"]
        assert total["requests"] == len(expected)
        assert snapshots_part(running)["state"] == "ok"
        recorder = next(
            part for part in running.api("GET", "/system/")["parts"] if part["name"] == "recorder"
        )
        assert recorder["facts"]["missing_events"] == 0


def refusal(kept: Kept, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a restore into a folder of its own is refused with."""
    environment = {**kept.environment, "HEADWORKS_VAR": str(folder)}
    assert main(["restore", *words], environment) == 1
    assert not (folder / "postgres").exists()
    return capsys.readouterr().err


def copy_of(kept: Kept, target: Path, **changes: object) -> Path:
    """The same back-up, saying something else of itself and without the secrets."""
    with opened(kept.file) as archive, zipfile.ZipFile(target, "w") as copy:
        told = json.loads(archive.read("manifest.json"))
        copy.writestr("manifest.json", json.dumps({**told, **changes}))
        copy.writestr("database.dump", archive.read("database.dump"))
    return target


def test_what_must_not_be_restored_is_refused_before_anything_is_touched(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = copy_of(kept, tmp_path / "bare.zip")
    said = refusal(kept, tmp_path / "a", capsys, str(bare))
    assert "made with another data key" in said
    assert "put the installation's secrets into" in said

    newer = copy_of(kept, tmp_path / "newer.zip", migrations=["0001_initial", "9999_later"])
    assert "9999_later" in refusal(kept, tmp_path / "b", capsys, str(newer))

    other = copy_of(kept, tmp_path / "other.zip", format=2)
    assert "has format 2" in refusal(kept, tmp_path / "c", capsys, str(other))

    torn = tmp_path / "torn.zip"
    torn.write_bytes(kept.file.read_bytes()[:-100])
    assert "damaged" in refusal(kept, tmp_path / "d", capsys, str(torn))

    content = bytearray(kept.file.read_bytes())
    with zipfile.ZipFile(kept.file) as archive:
        start = archive.getinfo("database.dump").header_offset
    content[start + 5_000] ^= 0xFF
    torn.write_bytes(content)
    assert "damaged" in refusal(kept, tmp_path / "e", capsys, str(torn))


def test_a_back_up_carries_secrets_only_if_asked(kept: Kept, tmp_path: Path) -> None:
    with opened(kept.file) as archive:
        assert set(read_secrets(archive)) == {"secret_key", "data_key", "peppers", "demo"}
        assert read_manifest(archive).has_secrets
        key = read_secrets(archive)["data_key"]
    told = command(kept.environment, "backup", str(tmp_path / "without.zip"))
    assert (told.code, key in told.text) == (0, False), told.text
    assert key.encode() not in (tmp_path / "without.zip").read_bytes()
    again = command(kept.environment, "backup", str(tmp_path / "without.zip"))
    assert (again.code, "is there already" in again.text) == (1, True)


def test_an_empty_folder_becomes_the_installation_if_the_secrets_are_in_the_file(
    kept: Kept, tmp_path: Path
) -> None:
    var = tmp_path / "v"
    told = command({**kept.environment, "HEADWORKS_VAR": str(var)}, "restore", str(kept.file))
    assert told.code == 0, told.text
    assert (var / "secrets" / "data.key").stat().st_mode & 0o777 == 0o600
    assert (var / "demo.env").exists()
    assert (var / "postgres" / "PG_VERSION").exists()
    assert list(var.glob("postgres.*")) == []
