"""However launcher, guardian or children end, the groups on record end with them."""

import os
import signal
from pathlib import Path

import pytest

from controlplane.local.processes import (
    GATEWAY,
    POOLS,
    STORE,
    WORKER,
    members_of,
    start_group,
)
from tests.controlplane.local.dummies import (
    BAD_SETTINGS,
    STUBBORN,
    DummyRun,
    dummy_run,
    running,
    shell_start,
    start_dummy,
    wait_for,
)

pytestmark = pytest.mark.fault

SLEEP = "exec sleep 600"
LEAVES_ONE = f"(trap '' TERM; {SLEEP}) & {SLEEP}"
PLAN = {"gateway": (GATEWAY, SLEEP), "valkey-state": (STORE, SLEEP)}


def hurries(run: DummyRun, number: signal.Signals) -> bool:
    """Send the signal until the launcher hurries: two that come at once count as one."""
    run.process.send_signal(number)
    return run.said("hurrying")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_group_outlives_the_launcher_however_it_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    # nobody is left to hurry after SIGKILL, so there only the grandchild is stubborn
    script = LEAVES_ONE if number == signal.SIGKILL else STUBBORN
    plan = {**PLAN, "gateway": (GATEWAY, script)}
    with dummy_run(tmp_path / "var", plan) as run:
        wait_for(lambda: set(running(run.places)) == set(plan), "all children")
        records = [run.record(name) for name in plan]
        wait_for(lambda: len(members_of(records[0])) >= 2, "the grandchild")
        run.process.send_signal(number)
        if number != signal.SIGKILL:
            wait_for(lambda: hurries(run, number), "a hurry")
        run.process.wait(120)
        wait_for(lambda: not any(members_of(record) for record in records), "no group")
        wait_for(lambda: not list(run.places.groups.iterdir()), "no record")
        expected = -signal.SIGKILL if number == signal.SIGKILL else 0
        assert run.process.returncode == expected


def test_a_killed_guardian_is_replaced_and_the_new_one_guards(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        first, before = run.guardian(), running(run.places)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: run.guardian() not in (0, first), "a new guardian")
        assert running(run.places) == before
        run.process.kill()
        wait_for(lambda: not running(run.places), "no group")


def test_a_guardian_that_dies_with_the_launcher_has_a_shadow(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        shadow = run.shadow()
        os.kill(run.guardian(), signal.SIGKILL)
        run.process.kill()
        wait_for(lambda: not running(run.places), "no group")
        wait_for(lambda: not Path(f"/proc/{shadow}").exists(), "no shadow")


def test_a_guardian_that_dies_while_it_ends_things_has_a_shadow(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", {"gateway": (GATEWAY, STUBBORN)}) as run:
        wait_for(lambda: run.said("all started"), "all children")
        run.process.kill()
        run.process.wait(120)
        os.kill(run.guardian(), signal.SIGKILL)
        wait_for(lambda: not running(run.places), "no group")


def kill_guards(run: DummyRun) -> None:
    """Kill guardian and shadow, so that nobody but the launcher knows what to end."""
    guards = run.shadow(), run.guardian()
    os.kill(run.guardian(), signal.SIGSTOP)  # or it might have another shadow by then
    for pid in guards:
        os.kill(pid, signal.SIGKILL)


def test_a_stop_while_a_guardian_is_being_replaced_ends_everything(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        kill_guards(run)
        wait_for(lambda: run.said("the guardian ended; starting another"), "another guardian")
        run.process.terminate()
        assert run.process.wait(120) == 0
        assert not running(run.places)
        assert not run.said("Traceback")


def test_a_guardian_that_dies_over_a_stop_leaves_the_rest_to_the_launcher(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", {**PLAN, "gateway": (GATEWAY, STUBBORN)}) as run:
        wait_for(lambda: run.said("all started"), "all children")
        run.process.terminate()
        wait_for(lambda: run.said("stopping"), "the stop")
        kill_guards(run)
        assert run.process.wait(120) == 0
        assert not running(run.places)
        assert run.said("without a guardian")


def test_a_guardian_not_to_be_had_is_tried_again_and_a_stop_does_without(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        first, before = run.guardian(), running(run.places)
        log = run.places.log("guardian")
        log.rename(log.with_suffix(".kept"))
        log.mkdir()  # what can't be opened for writing, like a disk that is full
        kill_guards(run)
        wait_for(lambda: run.said("another in 1.0 s"), "a second attempt that failed")
        assert run.process.poll() is None
        assert running(run.places) == before
        log.rmdir()
        wait_for(lambda: run.guardian() not in (0, first), "a guardian once there can be one")
        log.unlink()
        log.mkdir()
        kill_guards(run)
        run.process.terminate()
        assert run.process.wait(120) == 0
        assert not running(run.places)
        assert run.said("without a guardian")


def test_told_to_end_with_all_the_others_the_guardian_ends_them_in_order(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        first = run.guardian()
        for pid in (run.shadow(), first, run.process.pid):
            os.kill(pid, signal.SIGTERM)
        assert run.process.wait(120) == 0
        assert not running(run.places)
        assert run.guardian() == first


def test_a_group_that_somebody_else_recorded_is_ended_too(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        start = shell_start(run.places, "worker-pool-0", WORKER, STUBBORN)
        with start_group(start, run.places.groups) as worker:
            run.process.kill()
            assert worker.wait(120) == -signal.SIGKILL
        wait_for(lambda: not running(run.places), "no group")


def test_what_an_earlier_run_left_is_ended_at_the_next_start(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "all children")
        left = [run.record(name) for name in PLAN]
        for pid in (run.shadow(), run.guardian(), run.process.pid):
            os.kill(pid, signal.SIGSTOP)
        for pid in (run.shadow(), run.guardian(), run.process.pid):
            os.kill(pid, signal.SIGKILL)
        run.process.wait(120)
        assert all(members_of(record) for record in left)
        with dummy_run(tmp_path / "var", {}) as again:
            wait_for(lambda: again.said("left from an earlier run"), "the sweep")
            wait_for(lambda: again.said("all started"), "the start")
            # the dead are whoever's to reap that took them over
            wait_for(lambda: not any(members_of(record) for record in left), "their end")


def test_a_child_that_dies_is_started_again_after_its_group_was_ended(tmp_path: Path) -> None:
    script = f"test -e seen && {SLEEP}; touch seen; echo hello; echo '{{\"event\": 1}}'; {STUBBORN}"
    with dummy_run(tmp_path / "var", {"gateway": (GATEWAY, script)}) as run:
        wait_for(lambda: running(run.places), "the child")
        first = run.record("gateway")
        # until then, a second member may be one of the script's own commands
        wait_for(lambda: "hello" in run.places.log("gateway").read_text(), "its word")
        wait_for(lambda: len(members_of(first)) >= 2, "the grandchild")
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: run.said("again in 0.5 s"), "a word of it")
        wait_for(lambda: set(running(run.places).values()) - {first}, "another child")
        assert members_of(first) == ()
        assert run.said("gateway ended (-9)")
        assert run.said("\nhello\n")
        assert not run.said('{"event"')
        wait_for(lambda: run.said("gateway is back"), "the word that it is back")


def test_a_child_that_cannot_run_with_its_settings_ends_everything(tmp_path: Path) -> None:
    plan = {**PLAN, "pools": (POOLS, f"echo HEADWORKS_X is not set; exit {BAD_SETTINGS}")}
    run = start_dummy(tmp_path / "var", plan, output=tmp_path / "var.out")
    assert run.process.wait(120) == 1
    assert run.said("\nheadworks: pools cannot start: HEADWORKS_X is not set\n")
    assert not running(run.places)


def test_a_child_that_once_ran_is_started_again_whatever_it_ends_with(tmp_path: Path) -> None:
    script = f"test -e third && {SLEEP}; test -e second && touch third && exit {BAD_SETTINGS}"
    plan = {"pools": (POOLS, f"{script}; touch second; exit 1")}
    with dummy_run(tmp_path / "var", plan) as run:
        wait_for(lambda: run.said(f"pools ended ({BAD_SETTINGS})"), "the second end")
        wait_for(lambda: running(run.places), "the third start")
        assert run.process.poll() is None


def test_the_guardian_is_told_nothing_but_where_it_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWORKS_DEMO_UPSTREAM_KEY", "k")
    with dummy_run(tmp_path / "var", {}) as run:
        wait_for(lambda: run.said("all started"), "the start")
        told = Path(f"/proc/{run.guardian()}/environ").read_bytes().split(b"\0")
        names = {one.partition(b"=")[0].decode() for one in told if one}
        assert {"PATH", "HEADWORKS_VAR"} <= names
        assert names <= {"PATH", "HEADWORKS_VAR", "TMPDIR", "TEMP", "TMP"}


def test_a_second_launcher_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with dummy_run(tmp_path / "var", PLAN) as run:
        wait_for(lambda: run.said("all started"), "the first")
        before = running(run.places)
        second = start_dummy(tmp_path / "var", PLAN, output=tmp_path / "second.out")
        assert second.process.wait(120) == 1
        assert second.said(f"already runs on {run.places.var} (process {run.process.pid}); stop")
        assert running(run.places) == before
