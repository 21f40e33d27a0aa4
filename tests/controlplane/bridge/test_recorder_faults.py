"""The recorder when it, its store or its database fails in the middle of its work."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from django.db import connection, transaction
from redis.exceptions import RedisError

from controlplane.models import Charge, JournalMark, Request, UsageDay, UsageMinute
from inference.contract.wire import MANIFEST, USAGE_GROUP, USAGE_STREAM
from tests.controlplane.bridge.conftest import Recording, wait_until
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import feed, make_charge, make_end

pytestmark = pytest.mark.fault


@contextmanager
def roll_ups_locked() -> Iterator[None]:
    """Keep every recorder in the middle of its transaction: rows written, sums not."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE controlplane_usageminute IN SHARE MODE")
        yield


_HERE = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
"""Locks in this test's database: those of other processes are copies of it, numbers and all."""


def waiting_backends() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks "
            f"WHERE relation = 'controlplane_usageminute'::regclass AND NOT granted AND {_HERE}"
        )
        return [row[0] for row in cursor.fetchall()]


def assert_recorded_once(number: int) -> None:
    assert (Request.objects.count(), Charge.objects.count()) == (number, number)
    for roll_up in (UsageMinute.objects.all(), UsageDay.objects.filter(dimension="team")):
        assert sum(roll_up.values_list("requests", flat=True)) == number
    assert JournalMark.objects.get().mark == number


def test_a_recorder_killed_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    recording: Recording,
) -> None:
    feed(recording.store, *(make_end(number) for number in range(1, 51)))
    with roll_ups_locked():
        process = recording.start_process()
        wait_until(lambda: bool(waiting_backends()), "a recorder in its transaction")
        process.kill()
        process.wait()
    assert recording.store.xpending(USAGE_STREAM, USAGE_GROUP)["pending"] == 50
    recording.drain(recording.recorder("next", stale_ms=0))
    assert_recorded_once(50)


def test_a_recorder_told_to_stop_finishes_its_batch_and_leaves(recording: Recording) -> None:
    feed(recording.store, *(make_end(number) for number in range(1, 21)))
    with roll_ups_locked():
        process = recording.start_process()
        wait_until(lambda: bool(waiting_backends()), "a recorder in its transaction")
        process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert recording.left == 0
    assert recording.store.xinfo_consumers(USAGE_STREAM, USAGE_GROUP) == []
    assert_recorded_once(20)


def test_two_recorders_share_the_work_and_ignore_each_others_repeats(
    recording: Recording,
) -> None:
    ends = [make_end(n, charges=(make_charge(pool_id=f"pool_{n % 7}"),)) for n in range(1, 2_001)]
    processes = [recording.start_process(), recording.start_process()]
    # the slower one would find nothing left to do, or be told to stop before it can hear that
    wait_until(lambda: len(recording.consumers) == 2, "both at the stream")
    feed(recording.store, *ends, *reversed(ends))
    wait_until(lambda: recording.left == 0, "an empty stream")
    for process in processes:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert_recorded_once(2_000)


def test_a_lost_database_connection_is_waited_out(recording: Recording) -> None:
    feed(recording.store, *(make_end(number) for number in range(1, 6)))
    with roll_ups_locked():
        recorder = recording.recorder(is_stopping=lambda: recording.left == 0)
        thread = recording.start_thread(recorder)
        wait_until(lambda: bool(waiting_backends()), "a recorder in its transaction")
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [waiting_backends()[0]])
        wait_until(lambda: bool(waiting_backends()), "the same batch tried again")
    thread.join(30)
    assert_recorded_once(5)


def waits_for_locks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted "
            f"AND pid IN (SELECT pid FROM pg_locks WHERE {_HERE})"
        )
        return int(cursor.fetchone()[0])


def test_a_database_that_stops_answering_is_given_up_and_the_batch_tried_again(
    recording: Recording,
) -> None:
    kind = connection.settings_dict["OPTIONS"]["pool"]["connection_class"]
    feed(recording.store, *(make_end(number) for number in range(1, 6)))
    stop = Event()
    # only here: what clears the tables afterwards takes the time it takes
    with pytest.MonkeyPatch.context() as patch, roll_ups_locked():
        patch.setattr(kind, "answer_within_s", 1.0)
        recorder = recording.recorder(is_stopping=lambda: stop.is_set() or recording.left == 0)
        thread = recording.start_thread(recorder)
        wait_until(lambda: bool(waiting_backends()), "a recorder in its transaction")
        backend = waiting_backends()[0]
        os.kill(backend, signal.SIGSTOP)
        try:
            wait_until(lambda: waits_for_locks() >= 2, "the same batch tried beside it")
        except AssertionError:
            stop.set()
            raise
        finally:
            os.kill(backend, signal.SIGCONT)
    thread.join(30)
    assert_recorded_once(5)


def test_what_was_committed_but_not_acknowledged_comes_again_and_is_ignored(
    recording: Recording,
) -> None:
    feed(recording.store, make_end(1), make_end(2))
    recorder = recording.recorder("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "_acknowledge", _fail)
        with pytest.raises(RedisError):
            recorder.step()
    assert recording.left == 2
    recording.drain(recording.recorder("second", stale_ms=0))
    assert_recorded_once(2)


def _fail(*arguments: object) -> None:
    raise RedisError("gone before the acknowledgement")


def test_a_store_that_comes_back_empty_is_joined_again_and_told_what_it_lost(
    recording: Recording, admin: Caller
) -> None:
    stop = Event()
    thread = recording.start_thread(recording.recorder(is_stopping=stop.is_set))
    feed(recording.store, make_end(1))
    wait_until(lambda: Request.objects.count() == 1, "the first event")
    recording.store.flushdb()
    feed(recording.store, make_end(1), make_end(2))
    wait_until(lambda: Request.objects.count() == 2, "the second event")
    assert recording.store.exists(MANIFEST) == 1
    stop.set()
    thread.join(30)
    assert_recorded_once(2)


def test_a_recorder_told_to_stop_during_an_outage_keeps_its_hands_off_the_stream(
    recording: Recording,
) -> None:
    feed(recording.store, make_end(1))
    recorder = recording.recorder(is_stopping=lambda: True)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE controlplane_usageminute RENAME TO elsewhere")
    try:
        assert recorder.step() == 0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO controlplane_usageminute")
    assert (recording.left, Request.objects.count()) == (1, 0)
    recording.drain(recording.recorder("next", stale_ms=0))
    assert_recorded_once(1)
