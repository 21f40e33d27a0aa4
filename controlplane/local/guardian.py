"""The guardian: outlives the launcher by seconds, and ends all that the launcher started.

It reads a pipe of which the launcher holds the other end. A line `stop`, or the end of the pipe
(however the launcher died), makes it end every recorded group in order, and then itself.

It has a shadow, which does the same should launcher and guardian die together.
"""

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.places import Places, find_places
from controlplane.local.processes import (
    POSTGRES,
    RECORDER,
    STORE,
    WORKER,
    GroupRecord,
    end_groups,
    read_records,
    remove_record,
)

READY = "ready"
STOP = b"stop\n"
HURRY = b"hurry\n"
# What a guardian ends with that has done its work and could not end all; any other failure is 1.
LEFT = 3
_ROUNDS = 3
_LOOK_S = 0.1
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")


@dataclass(frozen=True, slots=True)
class Stage:
    """Groups that end side by side. `kinds` None: all that have no stage of their own."""

    label: str
    kinds: frozenset[str] | None
    grace_s: float


# The recorder outlives the gateways, so that their last events reach the ledger; the stores go
# last. The graces add up to the 15 seconds a stop may take.
STAGES = (
    Stage("console, jobs, feed, gateways and pools", None, 7.0),
    Stage("workers and recorder", frozenset({WORKER, RECORDER}), 3.0),
    Stage("stores and PostgreSQL", frozenset({STORE, POSTGRES}), 2.0),
)


def start_guardian(
    places: Places, *options: str, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a guardian; it prints `ready` on its standard output once it guards.

    Options: `--adopt` leaves running groups alone (its predecessor died), `--remove` removes the
    whole VAR at the end. Keep the process's standard input open: closing it is the order to end.
    """
    with (log or places.log("guardian")).open("ab") as errors:
        return subprocess.Popen(
            (sys.executable, "-m", "controlplane.local.guardian", str(places.var), *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[2],
            env=_environment(places),
            start_new_session=True,
        )


def _environment(places: Places) -> Mapping[str, str]:
    """No secret of the caller's; the last three say where `tempfile` puts short sockets."""
    kept = {name: os.environ[name] for name in ("PATH", *_TEMPORARY) if name in os.environ}
    return kept | {"HEADWORKS_VAR": str(places.var)}


def end_everything(
    places: Places, tell: Callable[[str], None], is_hurried: Callable[[], bool]
) -> tuple[GroupRecord, ...]:
    """End every recorded group, stage by stage; return what could not be ended (should be none)."""
    left: tuple[GroupRecord, ...] = ()
    for _ in range(_ROUNDS):
        left = tuple(
            record
            for stage in STAGES
            for record in _end_stage(stage, places.groups, tell, is_hurried)
        )
        # A supervisor may have recorded one more worker while it was being ended.
        if not read_records(places.groups):
            break
    return left


def end_all(
    places: Places,
    tell: Callable[[str], None],
    is_hurried: Callable[[], bool],
    *,
    removes_var: bool = False,
) -> int:
    """End everything and remove what nobody needs then; 0 if nothing is left, else `LEFT`."""
    left = end_everything(places, tell, is_hurried)
    _clean_up(places, removes_var=removes_var)
    return LEFT if left else 0


def _end_stage(
    stage: Stage, groups: Path, tell: Callable[[str], None], is_hurried: Callable[[], bool]
) -> tuple[GroupRecord, ...]:
    records = [record for record in read_records(groups) if _is_of(record, stage)]
    if not records:
        return ()
    began = time.monotonic()
    left = end_groups(records, grace_s=stage.grace_s, is_hurried=is_hurried)
    for record in records:
        if record not in left:
            remove_record(record, groups)
    outcome = f"NOT ended: {', '.join(record.name for record in left)}" if left else "ended"
    tell(f"{stage.label}: {outcome} ({time.monotonic() - began:.1f} s)")
    return left


def _is_of(record: GroupRecord, stage: Stage) -> bool:
    if stage.kinds is None:
        return not any(record.kind in other.kinds for other in STAGES if other.kinds)
    return record.kind in stage.kinds


def forget_other_machines(places: Places) -> None:
    """Drop records from before a reboot, or of another container: their pids mean nothing here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    machine = f"{boot} {os.readlink('/proc/self/ns/pid')}"
    note = places.run / "machine"
    if not note.exists() or note.read_text() != machine:
        for path in places.groups.glob("*.json"):
            path.unlink()
        note.write_text(machine)


@contextmanager
def guarding(places: Places) -> Iterator[None]:
    """Be the one guardian of this VAR; waits for an earlier one to finish its work."""
    with (places.run / "guardian.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):  # it is for people to read: a full disk must not keep it from work
            os.ftruncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), str(os.getpid()).encode(), 0)
        yield


class _Pipe:
    """What the launcher says on our standard input."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._heard = b""
        self._is_open = True

    def wait_for_end(self) -> bool:
        """Return at the first `stop` (True), or when whoever holds the other end is gone."""
        while self._is_open and STOP not in self._heard:
            self._read()
        return STOP in self._heard

    def is_hurried(self) -> bool:
        """Whether the launcher asked to hurry; never waits."""
        while self._is_open and select.select([self._descriptor], [], [], 0)[0]:
            self._read()
        return HURRY in self._heard

    def _read(self) -> None:
        heard = os.read(self._descriptor, 4096)
        self._heard += heard
        self._is_open = bool(heard)


@contextmanager
def _shadowed(places: Places, *options: str) -> Iterator[None]:
    """Have a shadow while the block runs. It costs a waiting process, and is told when to go."""
    with (
        places.log("guardian").open("ab") as errors,
        subprocess.Popen(
            (sys.executable, "-m", "controlplane.local.guardian", str(places.var), *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        ) as shadow,
    ):
        yield
        shadow.communicate(STOP)


def _stand_in(places: Places, pipe: _Pipe, *, removes_var: bool) -> None:
    """Be the shadow: end everything if the guardian died untold and nobody takes its place.

    A launcher that lives starts another guardian within moments, which then holds the lock.
    """
    is_over = pipe.wait_for_end()
    while not is_over:
        with _lock_if_free(places.run / "guardian.lock") as is_ours:
            is_over = not is_ours or _is_free(places.run / "launcher.lock")
            if is_ours and is_over:
                end_all(places, _tell, pipe.is_hurried, removes_var=removes_var)
        time.sleep(_LOOK_S)


@contextmanager
def _lock_if_free(path: Path) -> Iterator[bool]:
    """Hold a lock inside the block if nobody else does; says whether it is held."""
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _is_free(path: Path) -> bool:
    with _lock_if_free(path) as is_free:
        return is_free


def _tell(message: str) -> None:
    with suppress(OSError):  # a full disk must not keep it from its work
        print(time.strftime("%H:%M:%S"), message, file=sys.stderr, flush=True)
    with suppress(BrokenPipeError, ValueError):
        print(message, flush=True)


def _clean_up(places: Places, *, removes_var: bool) -> None:
    copy = places.run / "postgres-copy"
    if copy.exists():
        shutil.rmtree(copy.read_text(), ignore_errors=True)
        copy.unlink()
    if removes_var:
        shutil.rmtree(places.sockets, ignore_errors=True)
        shutil.rmtree(places.var, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Guard until told to end, then end everything; 0 if nothing is left, else `LEFT`."""
    parser = ArgumentParser(prog="controlplane.local.guardian")
    parser.add_argument("var", type=Path)
    parser.add_argument("--adopt", action="store_true")
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--shadow", action="store_true")
    options = parser.parse_args(arguments)
    # whoever tells all of an installation at once to end (a service manager does) tells us by the
    # launcher: one that ended first would leave nobody to end the rest
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    places = find_places(options.var)
    pipe = _Pipe(sys.stdin.fileno())
    if options.shadow:
        _stand_in(places, pipe, removes_var=options.remove)
        return 0
    shadow = ("--shadow", "--remove") if options.remove else ("--shadow",)
    with guarding(places), _shadowed(places, *shadow):
        if not options.adopt:
            forget_other_machines(places)
            end_everything(places, _tell, pipe.is_hurried)
        _tell(READY)
        pipe.wait_for_end()
        return end_all(places, _tell, pipe.is_hurried, removes_var=options.remove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
