"""Marks don't pile up: those of journals long gone leave the tables and the store."""

from datetime import datetime, timedelta

import pytest
from redis import Redis

from controlplane.bridge import marks
from controlplane.bridge.marks import KEPT, forget_old_marks
from controlplane.celery import app
from controlplane.models import JournalMark
from controlplane.tasks import usage
from inference.contract import codec, wire
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Vitals
from tests.controlplane.ledger_events import NOON

DAY = timedelta(days=1)


def mark(store: Redis, journal: str, at: datetime, ahead: tuple[tuple[int, int], ...] = ()) -> None:
    JournalMark.objects.create(journal=journal, mark=7, ahead=ahead, updated_at=at)
    store.hset(wire.JOURNAL_MARKS, journal, 7)


def left(store: Redis) -> tuple[list[str], list[str]]:
    """Whose marks are in the tables and in the store."""
    rows = JournalMark.objects.order_by("journal").values_list("journal", flat=True)
    return list(rows), sorted(one.decode() for one in store.hkeys(wire.JOURNAL_MARKS))


def test_only_old_marks_without_a_gap_are_forgotten(db: None, state_store: Redis) -> None:
    mark(state_store, "gone", NOON - KEPT - DAY)
    mark(state_store, "with a gap", NOON - KEPT - DAY, ((9, 12),))
    mark(state_store, "recent", NOON - KEPT + DAY)
    assert forget_old_marks(NOON) == 1
    assert left(state_store) == (["recent", "with a gap"], ["recent", "with a gap"])
    assert forget_old_marks(NOON) == 0


def test_a_field_left_without_its_row_is_removed_too(db: None, state_store: Redis) -> None:
    state_store.hset(wire.JOURNAL_MARKS, "row gone before", 3)
    assert forget_old_marks(NOON) == 0
    assert left(state_store) == ([], [])


def test_a_mark_that_may_be_an_idle_gateways_stays(db: None, state_store: Redis) -> None:
    started = NOON - KEPT - 10 * DAY
    mark(state_store, "may be its own", started + DAY)
    mark(state_store, "of one before it", started - DAY)
    vitals = Vitals(
        role=ProcessRole.GATEWAY,
        gateway="gw",
        process="gw-1",
        pid=1,
        started_at=started.timestamp(),
        written_at=NOON.timestamp(),
        applied=Applied(),
    )
    state_store.set(wire.vitals_key("gw-1"), codec.encode_vitals(vitals))
    assert forget_old_marks(NOON) == 1
    assert left(state_store) == (["may be its own"], ["may be its own"])


def test_nothing_is_forgotten_while_nobody_can_tell_who_lives(
    db: None, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(state_store, "gone", NOON - KEPT - DAY)
    monkeypatch.setattr(marks, "read_fleet", lambda: None)
    assert forget_old_marks(NOON) == 0
    assert left(state_store) == (["gone"], ["gone"])


def test_the_clock_has_it_every_hour(db: None, state_store: Redis) -> None:
    entry = app.conf.beat_schedule["forget-old-marks"]
    assert (entry["task"], entry["schedule"]) == (usage.forget_old_marks.name, 3_600.0)
    mark(state_store, "gone", NOON - 10_000 * DAY)
    assert usage.forget_old_marks() == 1
