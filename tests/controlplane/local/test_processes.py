"""Groups on record: written before use, ended whole, never confused with somebody else's."""

import json
import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.local.places import Places, make_places
from controlplane.local.processes import (
    GATEWAY,
    GroupRecord,
    end_groups,
    members_of,
    read_record,
    read_records,
    remove_record,
    start_group,
    start_time_of,
    write_record,
)
from tests.controlplane.local.dummies import STUBBORN, shell_start, wait_for


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = make_places(tmp_path / "var")
    yield made
    end_groups(read_records(made.groups), grace_s=0.1)


def test_the_record_is_there_before_the_command_runs(places: Places) -> None:
    start = shell_start(places, "seen", GATEWAY, "cat run/groups/seen.json")
    with start_group(start, places.groups) as process:
        assert process.wait(10) == 0
    record = read_record(places.groups, "seen")
    assert json.loads(places.log("seen").read_text()) == {
        "name": "seen",
        "pid": process.pid,
        "start_time": record.start_time if record else None,
        "spec_digest": record.spec_digest if record else None,
        "kind": "gateway",
    }
    assert stat.S_IMODE((places.groups / "seen.json").stat().st_mode) == 0o600


def test_the_command_reads_what_it_is_fed_and_then_the_end(places: Places) -> None:
    start = replace(shell_start(places, "fed", GATEWAY, "cat; echo end"), feed=b"a\nb\n")
    with start_group(start, places.groups) as process:
        assert process.wait(10) == 0
    assert places.log("fed").read_text() == "a\nb\nend\n"


def test_a_process_leads_a_group_and_session_of_its_own(places: Places) -> None:
    start = shell_start(places, "leader", GATEWAY, "exec sleep 600")
    with start_group(start, places.groups) as process:
        assert os.getpgid(process.pid) == process.pid == os.getsid(process.pid)
        assert end_groups(read_records(places.groups), grace_s=5.0) == ()
        assert process.wait(10) == -signal.SIGTERM


@pytest.mark.fault
def test_a_grandchild_that_ignores_sigterm_is_ended_with_its_group(places: Places) -> None:
    with start_group(shell_start(places, "stubborn", GATEWAY, STUBBORN), places.groups) as process:
        (record,) = read_records(places.groups)
        wait_for(lambda: len(members_of(record)) >= 2, "the grandchild")
        assert end_groups((record,), grace_s=0.2) == ()
        assert members_of(record) == ()
        assert process.wait(10) == -signal.SIGKILL


@pytest.mark.fault
def test_members_that_outlive_their_leader_are_found_and_ended(places: Places) -> None:
    script = "(trap '' TERM; exec sleep 600) & exit 0"
    with start_group(shell_start(places, "gone", GATEWAY, script), places.groups) as process:
        assert process.wait(10) == 0
    (record,) = read_records(places.groups)
    assert start_time_of(record.pid) is None
    assert len(members_of(record)) == 1
    assert end_groups((record,), grace_s=0.2) == ()
    assert members_of(record) == ()


def test_a_pid_that_is_somebody_elses_now_is_left_alone(places: Places) -> None:
    start = shell_start(places, "other", GATEWAY, "exec sleep 600")
    with start_group(start, places.groups) as process:
        (record,) = read_records(places.groups)
        earlier = replace(record, start_time=record.start_time - 1)
        assert members_of(earlier) == ()
        assert end_groups((earlier,), grace_s=0.1) == ()
        assert process.poll() is None
        end_groups((record,), grace_s=5.0)


def test_records_that_cannot_be_read_are_passed_over(places: Places) -> None:
    write_record(GroupRecord("good", 12, 34, "d", "worker"), places.groups)
    (places.groups / "torn.json").write_text('{"name": "torn"')
    wider = {"name": "w", "pid": 1, "start_time": 2, "kind": "worker", "port": 9}
    (places.groups / "wider.json").write_text(json.dumps(wider))
    assert read_records(places.groups) == (
        GroupRecord("good", 12, 34, "d", "worker"),
        GroupRecord("w", 1, 2, "", "worker"),
    )


def test_a_record_is_removed_only_while_it_names_the_same_process(places: Places) -> None:
    old, new = (GroupRecord("n", pid, 34, "d", "worker") for pid in (12, 13))
    write_record(new, places.groups)
    remove_record(old, places.groups)
    assert read_records(places.groups) == (new,)
    remove_record(new, places.groups)
    assert read_records(places.groups) == ()
