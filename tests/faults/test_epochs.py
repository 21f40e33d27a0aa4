"""The state store's volume is lost, or an older copy of it put back, under gateways that serve."""

import base64
import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from controlplane.bridge.parts import HEARTBEAT_KEY
from inference.contract import codec, sealing, wire
from inference.contract.fleet import Directory
from tests.faults.fleet import Fleet, all_ok, ask_all, environment_of
from tests.installation import SOON_S, wait_until

pytestmark = pytest.mark.fault


def store_of(fleet: Fleet) -> Redis:
    """The store as the control plane uses it."""
    recorder = fleet.find("record_usage")[0]
    return Redis.from_url(environment_of(recorder)["HEADWORKS_STATE_URL"], socket_timeout=2)


def directory_of(fleet: Fleet, store: Redis) -> Directory | None:
    """The directory in the store, None while there is none or no answer."""
    try:
        sealed = store.hget(wire.DIRECTORY, "sealed")
    except (RedisError, OSError):
        return None
    key = (fleet.installation.var / "secrets" / "data.key").read_text().strip()
    if sealed is None:
        return None
    return codec.decode_directory(sealing.unseal(base64.urlsafe_b64decode(key), sealed))


def is_published(fleet: Fleet, store: Redis) -> bool:
    """Whether the store has the database's newest version, marks of the ledger, and a beat."""
    try:
        version, lineage, seeded, beat = (
            store.hget(wire.MANIFEST, "version"),
            store.get(wire.LINEAGE),
            store.get(wire.SEEDED_AT),
            store.get(HEARTBEAT_KEY),
        )
    except (RedisError, OSError):
        return False
    (part,) = [
        one
        for one in fleet.installation.api("GET", "/system/")["parts"]
        if one["name"] == "snapshots"
    ]
    newest = part["facts"]["database_version"]
    has_all = None not in (version, lineage, seeded, beat)
    return has_all and version is not None and int(version) == newest


def swap_volume(fleet: Fleet, put_in_place: Callable[[Path], None]) -> None:
    """Take the store's folder away, put another there, and kill the server, which starts again."""
    folder = fleet.installation.var / "valkey-state"
    (server,) = fleet.service("valkey-state")
    folder.rename(folder.with_name(f"valkey-lost-{time.time_ns()}"))
    put_in_place(folder)
    os.kill(server, signal.SIGKILL)


@pytest.mark.parametrize("what", ["lost", "put back"])
def test_a_store_whose_volume_is_lost_or_put_back_is_made_whole_and_nobody_notices(
    fleet: Fleet, what: str, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(fleet.installation.var / "valkey-state", old)
    with store_of(fleet) as store:
        fleet.change_route(default_max_output_tokens=4_000 + len(what))
        expected = ask_all(fleet)
        before = wait_until(partial(directory_of, fleet, store), SOON_S, "a directory")
        with fleet.under_load() as streams:
            make = (lambda to: to.mkdir(mode=0o700)) if what == "lost" else partial(restored, old)
            swap_volume(fleet, make)
            expected |= ask_all(fleet)
            for one in streams:
                one.wait()
            expected |= ask_all(fleet)
        wait_until(partial(is_published, fleet, store), SOON_S, "everything to be published again")

        # a copy younger than the lease still has it, and its holder goes on under the same token
        least = before.fencing_token + (what == "lost")

        def is_led() -> bool:
            now = directory_of(fleet, store)
            return now is not None and now.fencing_token >= least

        wait_until(is_led, SOON_S, "a directory under a greater token")
    fleet.settle(all_ok(streams) | expected)


def restored(old: Path, to: Path) -> None:
    """Put an older copy in place."""
    shutil.copytree(old, to)
