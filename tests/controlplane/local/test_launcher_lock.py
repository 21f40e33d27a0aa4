"""One launcher a VAR; whoever only looks is in nobody's way."""

import fcntl
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.local.guardian import guarding
from controlplane.local.launcher_lock import only_launcher, running_launcher
from controlplane.local.places import Places, make_places
from controlplane.local.problems import LocalProblem


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return make_places(tmp_path / "var")


def test_a_second_launcher_is_refused_and_the_first_one_is_known(places: Places) -> None:
    with only_launcher(places):
        told = running_launcher(places)
        with pytest.raises(LocalProblem, match=f"already runs on .* .process {told}"):
            with only_launcher(places):
                pytest.fail("two launchers of one folder")
    assert running_launcher(places) is None


def test_a_start_in_the_moment_of_a_look_is_not_refused(places: Places) -> None:
    with (places.run / "launcher.lock").open("a+") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        threading.Timer(0.1, fcntl.flock, (look, fcntl.LOCK_UN)).start()
        began = time.monotonic()
        with only_launcher(places):
            assert time.monotonic() - began > 0.05
            assert running_launcher(places) is not None


@contextmanager
def full_disk() -> Iterator[None]:
    """Inside the block this process can't write to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_guardian_guards_on_a_full_disk_too(places: Places) -> None:
    with full_disk():
        with pytest.raises(OSError, match="too large"):
            (places.run / "other").write_text("x")
        with guarding(places):
            is_guarding = True
    assert is_guarding
