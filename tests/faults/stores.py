"""A fleet's state store with a user who may do what no role may: it takes its launcher's place."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import AuthenticationError, RedisError

from controlplane.local.valkey import find_binary
from tests.faults.fleet import Fleet, environment_of
from tests.installation import SOON_S, wait_until

SERVICE = "valkey-state"
TESTER = "tester"


@contextmanager
def administered_store(fleet: Fleet) -> Iterator[Redis]:
    """The fleet's state store runs on its own data with one user more inside the block.

    It is this process that starts it, while the launcher stands still; afterwards the launcher
    finds its own one dead and starts it again.
    """
    (own,) = fleet.service(SERVICE)
    folder = Path(f"/proc/{own}/cwd").readlink()
    socket = urlsplit(environment_of(fleet.find("record_usage")[0])["HEADWORKS_STATE_URL"]).path
    acl = fleet.installation.var / "run" / "state.acl"
    with fleet.stopped([fleet.installation.process.pid]):
        os.kill(own, signal.SIGKILL)
        wait_until(lambda: not is_answering(socket), SOON_S, "the launcher's store to be gone")
        more = acl.with_name("tester.acl")
        more.write_text(f"{acl.read_text()}user {TESTER} on nopass ~* &* +@all\n")
        Path(socket).unlink(missing_ok=True)
        store = subprocess.Popen(
            (
                *(str(find_binary()), "--port", "0", "--unixsocket", socket, "--dir", str(folder)),
                *("--aclfile", str(more), "--save", "", "--appendonly", "yes"),
            ),
            env={"HEADWORKS_VAR": str(fleet.installation.var), "LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: is_answering(socket), SOON_S, "the same store again")
            with Redis(unix_socket_path=socket, username=TESTER, password="") as admin:
                yield admin
        finally:
            store.kill()
            store.wait()
            more.unlink()
    wait_until(lambda: is_listening(socket), SOON_S, "the launcher's store again")


def is_answering(socket: str) -> bool:
    """Whether a store serves the user of this module."""
    with (
        suppress(RedisError, OSError),
        Redis(unix_socket_path=socket, username=TESTER, password="", socket_timeout=2) as client,
    ):
        return bool(client.ping())
    return False


def is_listening(socket: str) -> bool:
    """Whether a store is there at all: it refuses the user of this module."""
    with Redis(unix_socket_path=socket, username=TESTER, password="", socket_timeout=2) as client:
        try:
            client.ping()
        except AuthenticationError:
            return True
        except (RedisError, OSError):
            return False
    return True
