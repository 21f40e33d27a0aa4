"""What ended is counted once, where the roll-ups count it, and in buckets that survive clocks."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.rollups import roll_up
from inference.contract.events import Charge, End, Usage
from inference.contract.kinds import Outcome, PriorityClass
from inference.contract.vitals import TRAFFIC_BUCKET_S, Traffic
from inference.decisions.histograms import bucket_of
from inference.gateway.traffic import REPORTED_S, TrafficCounter
from tests.controlplane.ledger_events import NOON_MS, make_charge, make_end, make_origin
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import Gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

NOON = NOON_MS // 1000
STEP_MS = TRAFFIC_BUCKET_S * 1000


def counted(*ends: End) -> tuple[Traffic, ...]:
    counter = TrafficCounter()
    for end in ends:
        counter.count(end, mono_s=0)
    return counter.records(mono_s=0)


def at(bucket: int, **changes: Any) -> End:
    """An end in the bucket this many after noon's."""
    return make_end(at_ms=NOON_MS + bucket * STEP_MS, **changes)


def test_a_stream_counts_whole_with_both_of_its_times() -> None:
    end = at(0, charges=(make_charge(),), first_token_ms=232.6, total_ms=3_674.6)
    assert counted(end) == (
        Traffic(
            at=NOON,
            organisation_id="org_a",
            route_id="rt_1",
            pool_id="pool_1",
            requests=1,
            prompt_tokens=1_846,
            completion_tokens=182,
            cost_nanousd=487_200,
            first_token_ms={bucket_of(232.6): 1},
            output_token_ms={bucket_of((3_674.6 - 232.6) / 181): 1},
        ),
    )


def test_who_is_sent_away_for_want_of_room_counts_by_class() -> None:
    def shed(code: str, priority: PriorityClass | None, status: int = 503) -> End:
        refused = {"charges": (), "outcome": Outcome.REFUSED, "http_status": status}
        return at(0, origin=make_origin(priority=priority), error_code=code, **refused)

    batch, interactive = PriorityClass.BATCH, PriorityClass.INTERACTIVE
    ends = (
        *(shed(code, batch) for code in ("queue_full", "queue_timeout", "request_shed")),
        shed("queue_full", interactive),
        # of no class: an older gateway's
        shed("queue_full", None),
        # no capacity is no want of room, nor is a limit
        shed("no_capacity", batch),
        shed("rate_limit_exceeded", batch, status=429),
    )
    (record,) = counted(*ends)
    assert record.shed == {"batch": 3, "interactive": 1, "default": 1}
    assert record.requests == 7


def test_who_is_turned_away_counts_by_reason_unless_a_pool_saw_him() -> None:
    def refused(code: str, status: int, **fields: Any) -> End:
        told = {"charges": (), "outcome": Outcome.REFUSED, **fields}
        return at(0, error_code=code, http_status=status, **told)

    codes = {"budget_exceeded": 429, "budgets_unavailable": 503, "rate_limit_exceeded": 429}
    codes |= {"switched_off": 403, "queue_full": 503, "model_not_found": 404}
    seen = refused("budget_exceeded", 429, charges=make_end(1).charges)
    records = counted(*(refused(code, status) for code, status in codes.items()), seen)
    by_pool = {one.pool_id: one for one in records}
    assert by_pool[""].refused == {"budget": 2, "limit": 1, "switch": 1, "capacity": 1}
    assert by_pool[""].requests == 6
    assert by_pool["pool_1"].refused == {}


def test_an_answer_in_one_piece_has_no_times_of_a_stream() -> None:
    (record,) = counted(at(0, first_token_ms=None))
    assert (record.first_token_ms, record.output_token_ms) == ({}, {})


def test_a_stream_of_one_token_or_one_that_broke_has_no_time_per_output_token() -> None:
    one = make_charge(usage=Usage(10, 1))
    ends = (
        at(0, charges=(one,)),
        at(0, outcome=Outcome.CANCELLED),
        at(0, outcome=Outcome.ERROR, error_code="upstream_closed"),
        at(0, charges=(make_charge(usage=Usage()),)),
    )
    (record,) = counted(*ends)
    assert sum(record.first_token_ms.values()) == 4
    assert record.output_token_ms == {}
    assert record.unknown_usage == 1


def test_failures_count_by_code_and_callers_mistakes_and_cancellations_are_none() -> None:
    (record,) = counted(
        at(0, outcome=Outcome.ERROR, error_code="upstream_closed"),
        at(0, outcome=Outcome.ERROR, error_code="upstream_closed"),
        at(0, outcome=Outcome.ERROR, error_code="deadline_exceeded"),
        at(0, outcome=Outcome.LOST_GATEWAY),
        at(0, outcome=Outcome.REFUSED, error_code="model_not_found", http_status=404),
        at(0, outcome=Outcome.REFUSED, error_code="no_capacity", http_status=503),
        at(0, outcome=Outcome.ERROR, error_code="upstream_refused", http_status=400),
        at(0, outcome=Outcome.CANCELLED, error_code="client_left"),
    )
    assert record.requests == 8
    assert record.failures == {
        "upstream_closed": 2,
        "deadline_exceeded": 1,
        "lost_gateway": 1,
        "no_capacity": 1,
    }


def test_a_request_without_route_or_worker_counts_under_none() -> None:
    end = at(0, charges=(), origin=make_origin(route_id=None), outcome=Outcome.REFUSED)
    (record,) = counted(end)
    assert (record.route_id, record.pool_id, record.requests) == ("", "", 1)


_charges = st.builds(
    make_charge,
    pool_id=st.sampled_from(["pool_1", "pool_2"]),
    usage=st.sampled_from([Usage(), Usage(3), Usage(3, 2), Usage(5, 4, 1)]),
    cost_nanousd=st.sampled_from([None, 0, 7, 2**60]),
)


def _ends(charges: list[Charge], outcome: Outcome, route_id: str | None) -> End:
    numbered = [make_charge(**_fields(one, attempt)) for attempt, one in enumerate(charges, 1)]
    return at(0, charges=tuple(numbered), outcome=outcome, origin=make_origin(route_id=route_id))


def _fields(charge: Charge, attempt: int) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "pool_id": charge.pool_id,
        "usage": charge.usage,
        "cost_nanousd": charge.cost_nanousd,
    }


@given(
    st.lists(
        st.builds(
            _ends,
            st.lists(_charges, max_size=3),
            st.sampled_from(Outcome),
            st.sampled_from([None, "rt_1", "rt_2"]),
        ),
        max_size=8,
    )
)
def test_all_sums_are_those_of_the_roll_ups(ends: list[End]) -> None:
    live = {
        (one.route_id, one.pool_id): (
            *(one.requests, sum(one.failures.values()), one.prompt_tokens, one.completion_tokens),
            *(one.cost_nanousd, one.unknown_usage, one.unknown_cost),
        )
        for one in counted(*ends)
    }
    booked: dict[tuple[str, str], tuple[int, ...]] = {}
    for key, sums in roll_up(ends).minutes:
        row = (
            *(sums.requests, sums.errors, sums.prompt_tokens, sums.completion_tokens),
            *(sums.cost_nanousd, sums.unknown_usage, sums.unknown_cost),
        )
        place = (key.route_id, key.pool_id)
        before = booked.get(place, (0,) * len(row))
        booked[place] = tuple(a + b for a, b in zip(before, row, strict=True))
    assert live == booked


def times(counter: TrafficCounter, *, mono_s: float = 0) -> dict[int, int]:
    """Requests by bucket, counted from noon."""
    records = counter.records(mono_s=mono_s)
    return {(one.at - NOON) // TRAFFIC_BUCKET_S: one.requests for one in records}


def test_the_newest_four_buckets_are_kept_whole() -> None:
    counter = TrafficCounter()
    for bucket in (0, 0, 1, 3, 3, 3, 8, 9):
        counter.count(at(bucket), mono_s=0)
    assert times(counter) == {1: 1, 3: 3, 8: 1, 9: 1}


def test_what_did_not_grow_of_late_leaves_the_record() -> None:
    counter = TrafficCounter()
    counter.count(at(0), mono_s=10)
    counter.count(at(1), mono_s=12)
    assert times(counter, mono_s=10 + REPORTED_S) == {0: 1, 1: 1}
    assert times(counter, mono_s=11 + REPORTED_S) == {1: 1}
    assert times(counter, mono_s=13 + REPORTED_S) == {}


def test_a_clock_set_forward_leaves_what_was_counted_in_the_record() -> None:
    counter = TrafficCounter()
    for bucket in (0, 720):
        counter.count(at(bucket), mono_s=1)
    assert times(counter, mono_s=2) == {0: 1, 720: 1}


def test_a_clock_set_back_a_little_adds_to_the_bucket_of_that_time() -> None:
    counter = TrafficCounter()
    for bucket in (0, 1, 2, 1, 0, 2):
        counter.count(at(bucket), mono_s=0)
    assert times(counter) == {0: 2, 1: 2, 2: 2}


def test_a_clock_set_back_far_never_opens_a_bucket_anew() -> None:
    counter = TrafficCounter()
    last_told: dict[int, int] = {}
    for bucket in (*range(8), *range(2, 10)):
        counter.count(at(bucket), mono_s=0)
        last_told |= times(counter)
    assert sum(last_told.values()) == 16
    assert last_told == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 4, 8: 1, 9: 1}


def test_a_clock_that_was_wrong_at_first_and_is_set_back_counts_by_the_right_time() -> None:
    counter = TrafficCounter()
    for bucket in (1000, 0, 1):
        counter.count(at(bucket), mono_s=0)
    assert times(counter) == {1000: 1, 0: 1, 1: 1}


def test_a_record_is_not_changed_by_what_comes_after_it() -> None:
    counter = TrafficCounter()
    counter.count(at(0, outcome=Outcome.ERROR, error_code="x"), mono_s=0)
    (before,) = counter.records(mono_s=0)
    counter.count(at(0, outcome=Outcome.ERROR, error_code="x"), mono_s=0)
    assert (before.requests, before.failures) == (1, {"x": 1})


async def test_requests_through_the_gateway_are_counted_once_each(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(calls=2), Behaviour(status=500, body="{}"))
    await chat(gateway.port)
    await chat(gateway.port, stream=True)
    await chat(gateway.port)
    await gateway.wait_ended(3)
    records = gateway.traffic.records(mono_s=0)
    assert {(one.organisation_id, one.route_id, one.pool_id) for one in records} == {
        ("org_a", "rt_m", "pool_a")
    }
    assert sum(one.requests for one in records) == 3
    assert sum(one.completion_tokens for one in records) == 10
    assert sum(count for one in records for count in one.first_token_ms.values()) == 1
    assert sum(count for one in records for count in one.failures.values()) == 1


async def test_a_caller_without_a_valid_key_is_in_no_traffic(gateway: Gateway) -> None:
    reply = await chat(gateway.port, token="hw_nobody.secret")
    assert reply.status == 401
    assert gateway.traffic.records(mono_s=0) == ()
