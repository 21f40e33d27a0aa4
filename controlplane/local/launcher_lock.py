"""The lock that says which launcher a VAR belongs to: held for as long as it runs."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from controlplane.local.places import Places
from controlplane.local.problems import LocalProblem

# Whoever only looks whether a launcher runs (a status, a guardian's shadow) holds it for a moment.
_LOOK_S = 0.5
_POLL_S = 0.02


@contextmanager
def only_launcher(places: Places) -> Iterator[None]:
    """Be the one launcher of this VAR, or raise LocalProblem."""
    with (places.run / "launcher.lock").open("a+") as lock:
        if not _is_taken(lock):
            lock.seek(0)
            raise LocalProblem(
                f"Headworks already runs on {places.var} (process {lock.read().strip()}); "
                "stop it first, or set HEADWORKS_VAR to another folder"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _is_taken(lock: TextIOWrapper) -> bool:
    """Take the lock; False if somebody holds it for longer than a look takes."""
    deadline = time.monotonic() + _LOOK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        else:
            return True


def running_launcher(places: Places) -> str | None:
    """The process id of the launcher that holds this VAR's lock, or None."""
    try:
        with (places.run / "launcher.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return (places.run / "launcher.lock").read_text().strip()
    return None
