"""The recorder on what arrives: each event once, whatever it holds and however often it comes."""

from dataclasses import replace

import pytest
from django.db.models import Sum

from controlplane.models import (
    CatalogueModel,
    Charge,
    JournalMark,
    PoisonRecord,
    Request,
    UsageDay,
    UsageMinute,
)
from inference.contract.codec import encode_event
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Outcome
from inference.contract.wire import JOURNAL_MARKS, USAGE_GROUP, USAGE_STREAM
from tests.controlplane.bridge.conftest import Recording
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON, feed, make_charge, make_end

pytestmark = pytest.mark.slow


def test_an_event_becomes_a_request_its_charges_and_sums(recording: Recording) -> None:
    feed(recording.store, make_end(1), make_end(2))
    recording.drain()
    row = Request.objects.get(event_id=f"req_{1:026d}")
    assert (row.at, row.total_ms, row.first_token_ms) == (NOON, 3_692.2, 250.8)
    assert (row.prompt_tokens, row.completion_tokens, row.cost_nanousd) == (1_846, 182, 487_200)
    assert row.decision == make_end().decision
    assert row.recorded_at == NOON
    charge = Charge.objects.get(event_id=row.event_id)
    assert (charge.kind, charge.worker_id, charge.price_id) == ("final", "pool_1-0", "prc_1")
    minute = UsageMinute.objects.get()
    assert (minute.requests, minute.prompt_tokens, minute.cost_nanousd) == (2, 3_692, 974_400)
    assert recording.store.hgetall(JOURNAL_MARKS) == {b"gw-1.1": b"2"}
    assert recording.store.xpending(USAGE_STREAM, USAGE_GROUP)["pending"] == 0


def test_names_are_those_of_the_rows_of_that_time(recording: Recording, admin: Caller) -> None:
    pool = admin.made(
        "/pools/",
        {
            "name": "mine",
            "provisioner": "static",
            "addresses": ["http://127.0.0.1:9000/v1"],
            "model": "gpt-x",
        },
    )
    model = CatalogueModel.objects.get(name="gpt-x")
    charge = make_charge(pool_id=pool["id"], model_id=model.pk, worker_id=f"{pool['id']}-0")
    feed(recording.store, make_end(charges=(charge,)))
    recording.drain()
    row = Request.objects.get()
    assert (row.pool_name, row.model_name, row.route_name) == ("mine", "gpt-x", "chat-default")
    labels = dict(UsageDay.objects.values_list("dimension", "label"))
    assert (labels["pool"], labels["model"], labels["route"]) == ("mine", "gpt-x", "chat-default")


def test_the_same_event_twice_is_one_row_and_counted_once(recording: Recording) -> None:
    feed(recording.store, make_end(1), make_end(1))
    recording.drain()
    feed(recording.store, make_end(1))
    recording.drain()
    assert (Request.objects.count(), Charge.objects.count()) == (1, 1)
    assert UsageMinute.objects.get().requests == 1


def test_content_that_postgresql_refuses_is_replaced_and_kept(recording: Recording) -> None:
    nul = encode_event(make_end(1, decision={"prompt": "a\0b"}))
    lone = encode_event(make_end(2, client_request_id="HERE")).replace(b"HERE", rb"\ud83d")
    feed(recording.store, nul, lone, *(make_end(number) for number in range(3, 8)))
    recording.drain()
    assert Request.objects.count() == 7
    assert Request.objects.get(seq=1).decision == {"prompt": "a\ufffdb"}
    assert Request.objects.get(seq=2).client_request_id == "\ufffd"
    assert PoisonRecord.objects.count() == 0


def test_poison_is_set_aside_whole_and_blocks_nothing(recording: Recording) -> None:
    endless = make_end(2, charges=(make_charge(usage=Usage(2**63, 0)),))
    unreadable = encode_event(make_end(3)).replace(b'"outcome":"ok"', b'"outcome":"odd"')
    feed(recording.store, make_end(1), endless, unreadable, b"garbage", make_end(4))
    recording.drain()
    assert sorted(Request.objects.values_list("seq", flat=True)) == [1, 4]
    assert {bytes(one.raw) for one in PoisonRecord.objects.all()} == {
        encode_event(endless),
        unreadable,
        b"garbage",
    }
    assert JournalMark.objects.get().mark == 4
    assert UsageMinute.objects.get().requests == 2


def test_poison_fed_again_is_set_aside_once(recording: Recording) -> None:
    feed(recording.store, b"garbage")
    recording.drain()
    feed(recording.store, b"garbage")
    recording.drain()
    assert PoisonRecord.objects.count() == 1


def test_a_missing_price_stays_unknown(recording: Recording) -> None:
    unpriced = make_charge(price=None, cost_nanousd=None, cost_max_nanousd=None)
    feed(recording.store, make_end(charges=(unpriced,)))
    recording.drain()
    row = Request.objects.get()
    assert (row.cost_nanousd, row.cost_max_nanousd) == (None, None)
    assert UsageMinute.objects.get().unknown_cost == 1


def test_a_lost_gateway_keeps_both_bounds_of_its_cost(recording: Recording) -> None:
    charge = make_charge(
        kind=ChargeKind.ESTIMATED,
        usage=Usage(),
        http_status=None,
        first_token_ms=None,
        duration_ms=0.0,
        cost_nanousd=0,
        cost_max_nanousd=1_203_000,
    )
    lost = make_end(
        charges=(charge,),
        outcome=Outcome.LOST_GATEWAY,
        http_status=0,
        total_ms=0.0,
        decision=None,
    )
    feed(recording.store, lost)
    recording.drain()
    row = Request.objects.get()
    assert (row.outcome, row.prompt_tokens, row.decision) == ("lost_gateway", None, None)
    assert (row.cost_nanousd, row.cost_max_nanousd) == (0, 1_203_000)
    assert UsageMinute.objects.get().errors == 1


def test_roll_ups_equal_the_sums_of_the_rows(recording: Recording) -> None:
    ends = []
    for number in range(1, 101):
        pool_id = f"pool_{number % 3}"
        charges = [make_charge(pool_id=pool_id, cost_nanousd=number)]
        if number % 5 == 0:
            charges.append(make_charge(attempt=2, cost_nanousd=None, usage=Usage(7, None)))
        end = make_end(number, charges=tuple(charges), at_ms=make_end().at_ms + number * 1_000)
        ends.append(end if number % 7 else replace(end, charges=()))
    feed(recording.store, *ends, *ends[:30])
    recording.drain()
    rows = Charge.objects.aggregate(cost=Sum("cost_nanousd"), tokens=Sum("prompt_tokens"))
    for roll_up in (UsageMinute.objects.all(), UsageDay.objects.filter(dimension="key")):
        sums = roll_up.aggregate(
            requests=Sum("requests"), cost=Sum("cost_nanousd"), tokens=Sum("prompt_tokens")
        )
        assert sums == {"requests": 100, **rows}
    assert UsageMinute.objects.count() > 3


@pytest.mark.parametrize(
    ("first", "mark", "ahead", "then"),
    [([1, 2, 3], 3, [], 3), ([1, 3, 4], 1, [[3, 4]], 4), ([2, 4], 0, [[2, 2], [4, 4]], 4)],
)
def test_marks_say_up_to_where_a_journal_is_recorded(
    recording: Recording, first: list[int], mark: int, ahead: list[list[int]], then: int
) -> None:
    feed(recording.store, *(make_end(number) for number in first))
    recording.drain()
    row = JournalMark.objects.get()
    assert (row.mark, row.ahead) == (mark, ahead)
    assert recording.store.hget(JOURNAL_MARKS, "gw-1.1") == str(mark).encode()
    feed(recording.store, *(make_end(number) for number in range(1, then + 1)))
    recording.drain()
    row.refresh_from_db()
    assert (row.mark, row.ahead) == (then, [])
    assert recording.store.hget(JOURNAL_MARKS, "gw-1.1") == str(then).encode()


def test_a_mark_in_the_store_never_goes_back(recording: Recording) -> None:
    recording.store.hset(JOURNAL_MARKS, "gw-1.1", 9)
    feed(recording.store, make_end(1))
    recording.drain()
    assert recording.store.hget(JOURNAL_MARKS, "gw-1.1") == b"9"


def test_marks_are_told_again_to_a_store_that_lost_them(recording: Recording) -> None:
    feed(recording.store, make_end(1), make_end(2))
    recording.drain()
    recording.store.flushdb()
    recording.drain()
    assert recording.store.hgetall(JOURNAL_MARKS) == {b"gw-1.1": b"2"}
