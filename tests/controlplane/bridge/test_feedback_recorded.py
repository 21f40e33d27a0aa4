"""What people say of answers, from the stream to the request they speak of."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.models import Feedback, JournalMark, PoisonRecord, Request
from inference.contract import events
from inference.contract.codec import encode_event
from tests.controlplane.bridge.conftest import Recording
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON_MS, feed, make_end, make_origin

pytestmark = pytest.mark.slow

REQUEST = f"req_{1:026d}"


def said(seq: int, at_ms: int = NOON_MS, **changed: Any) -> events.Feedback:
    plain = events.Feedback(
        event_id="fbk_1",
        at_ms=at_ms,
        organisation_id="org_1",
        project_id="prj_1",
        key_id="abc",
        gateway="gw-1.1",
        request_id=REQUEST,
        rater="ann",
        score=-1.0,
        is_completed=False,
        journal="gw-1.1",
        seq=seq,
    )
    return replace(plain, **changed)


def test_feedback_is_written_once_and_its_journal_goes_on(recording: Recording) -> None:
    for _ in range(2):
        feed(recording.store, make_end(1), said(2), make_end(3))
        recording.drain()
    row = Feedback.objects.get()
    assert (row.request_id, row.rater, row.score, row.is_completed) == (REQUEST, "ann", -1.0, False)
    assert (row.label, row.comment) == (None, None)
    mark = JournalMark.objects.get()
    assert (mark.mark, mark.recorded, mark.set_aside, mark.missing) == (3, 3, 0, 0)
    assert (Request.objects.count(), PoisonRecord.objects.count()) == (2, 0)


def test_the_newest_counts_however_late_it_comes(recording: Recording) -> None:
    newer = said(1, NOON_MS + 5_000, score=1.0, comment="better")
    feed(recording.store, newer, said(2))
    recording.drain()
    feed(recording.store, said(3, NOON_MS + 1_000, score=0.0))
    recording.drain()
    row = Feedback.objects.get()
    assert (row.score, row.comment) == (1.0, "better")
    # all of it is taken back to what was said last, what was left unsaid too
    feed(recording.store, said(4, NOON_MS + 9_000, score=None, label="fine"))
    recording.drain()
    row = Feedback.objects.get()
    assert (row.score, row.label, row.comment) == (None, "fine", None)


def test_what_postgresql_refuses_is_replaced_and_nonsense_is_set_aside(
    recording: Recording,
) -> None:
    nul = encode_event(said(1, comment="a\0b"))
    never = encode_event(said(2)).replace(b'"at_ms":%d' % NOON_MS, b'"at_ms":%d' % 10**17)
    feed(recording.store, nul, never, make_end(3))
    recording.drain()
    assert Feedback.objects.get().comment == "a�b"
    assert PoisonRecord.objects.count() == 1
    assert JournalMark.objects.get().mark == 3


def test_a_request_tells_what_was_said_of_it_by_its_own_organisation(
    recording: Recording, admin: Caller
) -> None:
    home = admin.organisation.pk
    mine = said(2, organisation_id=home, comment="no")
    foreign = said(3, event_id="fbk_2", organisation_id="org_other", comment="not ours")
    feed(recording.store, make_end(1, origin=make_origin(organisation_id=home)), mine, foreign)
    recording.drain()
    (told,) = admin.get(f"/requests/{REQUEST}/").json()["feedback"]
    assert told["comment"] == "no"
    assert (told["score"], told["is_completed"], told["label"]) == (-1.0, False, None)
