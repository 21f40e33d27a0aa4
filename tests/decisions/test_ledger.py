"""Ends of requests as rows of the ledger."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from controlplane.decisions.ledger import (
    TEXT_CHARACTERS,
    charge_rows,
    day_of,
    ids_in,
    place_of,
    read_fact,
    request_row,
)
from inference.contract.codec import CodecError, encode_event
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Outcome
from inference.decisions.cost import MAX_NANOUSD
from tests.controlplane.ledger_events import NOON, make_charge, make_end, make_origin

NOW = datetime(2026, 11, 24, 12, 0, 1, tzinfo=UTC)
FAILED = make_charge(
    attempt=1,
    pool_id="pool_2",
    worker_id="pool_2-1",
    kind=ChargeKind.ESTIMATED,
    usage=Usage(),
    error_code="upstream_error",
    cost_nanousd=0,
    cost_max_nanousd=1_000_000,
)


def test_a_row_says_what_the_end_says_with_names_of_the_time() -> None:
    names = {"pool_1": "llama-prod", "mdl_1": "llama-70b"}
    row = request_row(make_end(7), names, recorded_at=NOW)
    assert (row.day, row.at, row.recorded_at) == (date(2026, 11, 24), NOON, NOW)
    assert (row.pool_name, row.model_name, row.worker_id) == (
        "llama-prod",
        "llama-70b",
        "pool_1-0",
    )
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (1_846, 182, 1_024)
    assert (row.cost_nanousd, row.cost_max_nanousd) == (487_200, 487_200)
    assert (row.journal, row.seq, row.attempts) == ("gw-1.1", 7, 1)


def test_the_day_is_that_of_the_event_in_utc() -> None:
    last_ms = int(datetime(2026, 11, 24, 23, 59, 59, 999_000, tzinfo=UTC).timestamp() * 1000)
    assert day_of(make_end(at_ms=last_ms)) == date(2026, 11, 24)
    assert day_of(make_end(at_ms=last_ms + 1)) == date(2026, 11, 25)


def test_the_last_attempt_names_the_row_and_all_of_them_sum_into_it() -> None:
    last = make_charge(attempt=2)
    row = request_row(make_end(charges=(last, FAILED)), {}, recorded_at=NOW)
    assert (row.attempts, row.pool_id, row.worker_id) == (2, "pool_1", "pool_1-0")
    assert (row.cost_nanousd, row.cost_max_nanousd) == (487_200, 1_487_200)
    assert (row.prompt_tokens, row.completion_tokens) == (1_846, 182)


def test_an_unknown_price_is_never_zero() -> None:
    unpriced = make_charge(attempt=2, price=None, cost_nanousd=None, cost_max_nanousd=None)
    row = request_row(make_end(charges=(FAILED, unpriced)), {}, recorded_at=NOW)
    assert (row.cost_nanousd, row.cost_max_nanousd) == (None, None)


def test_nothing_sent_upstream_costs_nothing_and_has_no_tokens() -> None:
    end = make_end(charges=(), outcome=Outcome.REFUSED, http_status=429, error_code="no_capacity")
    row = request_row(end, {}, recorded_at=NOW)
    assert (row.cost_nanousd, row.prompt_tokens, row.pool_id, row.attempts) == (0, None, None, 0)


def test_explicit_zero_usage_stays_zero() -> None:
    end = make_end(charges=(make_charge(usage=Usage(0, 0), cost_nanousd=0, cost_max_nanousd=0),))
    row = request_row(end, {}, recorded_at=NOW)
    assert (row.prompt_tokens, row.completion_tokens, row.cost_nanousd) == (0, 0, 0)
    assert row.cached_tokens is None


def test_costs_beyond_what_a_column_holds_are_cut_to_it() -> None:
    dear = make_charge(cost_nanousd=MAX_NANOUSD, cost_max_nanousd=MAX_NANOUSD)
    end = make_end(charges=(dear, replace(dear, attempt=2)))
    assert request_row(end, {}, recorded_at=NOW).cost_nanousd == MAX_NANOUSD


def test_long_texts_are_cut_and_not_refused() -> None:
    end = make_end(origin=make_origin(requested_model="m" * 9_000))
    assert request_row(end, {}, recorded_at=NOW).requested_model == "m" * TEXT_CHARACTERS


def test_each_attempt_keeps_its_own_price_and_outcome() -> None:
    first, second = charge_rows(make_end(charges=(FAILED, make_charge(attempt=2))), {})
    assert (first.attempt, first.kind, first.error_code) == (1, "estimated", "upstream_error")
    assert (first.cost_nanousd, first.cost_max_nanousd) == (0, 1_000_000)
    assert first.prompt_tokens is None
    assert (second.price_id, second.cached_input_nanousd_per_mtok) == ("prc_1", 75_000_000)


def test_ids_are_those_whose_names_are_kept() -> None:
    assert ids_in([make_end()]) == {
        "01jdkey00000000000000000a",
        "team_1",
        "proj_1",
        "pool_1",
        "mdl_1",
    }


def test_reading_replaces_what_postgresql_cannot_store() -> None:
    data = encode_event(make_end(decision={"model": "a\0b", "c\0": ["\0"]}))
    assert read_fact(data).decision == {"model": "a\ufffdb", "c\ufffd": ["\ufffd"]}


@pytest.mark.parametrize("broken", [rb"\ud83d", rb"\udc00x", b"\xed\xa0\xbd", b"\xff"])
def test_reading_mends_lone_surrogates_and_broken_bytes(broken: bytes) -> None:
    data = encode_event(make_end(client_request_id="HERE")).replace(b"HERE", broken)
    mended = read_fact(data)
    assert mended.client_request_id is not None
    assert mended.client_request_id.startswith("\ufffd")
    assert mended.charges == make_end().charges


@pytest.mark.parametrize(
    "data",
    [b"", b"nonsense", b'{"v":1,"d":{}}', b'{"v":99,"d":{}}', b"[" * 100_000, b'"\\u0000"'],
)
def test_what_is_no_end_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(CodecError):
        read_fact(data)


def test_an_unreadable_end_still_tells_its_place() -> None:
    data = encode_event(make_end(9)).replace(b'"outcome":"ok"', b'"outcome":"no such"')
    assert place_of(data) == ("gw-1.1", 9)


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b"{}", b'{"d":{"journal":"j","seq":0}}'])
def test_what_tells_no_place_has_none(data: bytes) -> None:
    assert place_of(data) is None
