"""What the sampler keeps: whole values, whoever writes them and however often."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum

from controlplane.models import LiveCoverage, LiveTraffic, LiveWorker
from controlplane.services.live import (
    FINE_KEPT,
    FOLDED_KEPT,
    Census,
    Tidied,
    tidy,
)
from tests.controlplane.live.facts import (
    NOON,
    NOON_S,
    after,
    child,
    gauges,
    histogram,
    quiet,
    sampled,
    supervisor,
    traffic,
)

pytestmark = pytest.mark.django_db


def requests_in(resolution_s: int = 5) -> dict[float, int]:
    """Requests by seconds after noon."""
    rows = LiveTraffic.objects.filter(resolution_s=resolution_s).values("at")
    sums = rows.annotate(all=Sum("requests")).values_list("at", "all")
    return {(at - NOON).total_seconds(): total for at, total in sums}


def covered(resolution_s: int = 5) -> dict[float, float]:
    """Covered seconds by seconds after noon, of buckets that have any."""
    rows = LiveCoverage.objects.filter(resolution_s=resolution_s, covered_s__gt=0)
    return {(row.at - NOON).total_seconds(): row.covered_s for row in rows.order_by("at")}


def test_two_gateways_of_two_children_add_up_and_repeating_changes_nothing() -> None:
    records = [
        child(name, traffic(0, "org_1", "pool_1", requests=count), written_s=3.0)
        for name, count in (("a/0", 1), ("a/1", 2), ("b/0", 3), ("b/1", 4))
    ]
    for _ in range(3):
        sampled(3.2, *records)
    assert requests_in() == {0: 10}
    assert LiveTraffic.objects.count() == 4


def test_a_record_that_comes_late_fills_its_buckets_and_an_older_one_takes_nothing_away() -> None:
    older = child("a/0", traffic(0, "org_1", requests=2), written_s=4.0)
    newer = child(
        "a/0", traffic(0, "org_1", requests=5), traffic(5, "org_1", requests=1), written_s=8.0
    )
    sampled(8.1, newer)
    sampled(8.2, older)
    assert requests_in() == {0: 5, 5: 1}
    assert covered()[5] == pytest.approx(3.0)


def test_a_restarted_child_adds_to_what_its_predecessor_said() -> None:
    sampled(2.0, child("a/0", traffic(0, "org_1", requests=4), written_s=2.0))
    again = child("a/0", traffic(0, "org_1", requests=1), written_s=4.0, started_at=NOON_S + 2.5)
    sampled(4.0, again)
    assert requests_in() == {0: 5}
    assert covered()[0] == pytest.approx(4.0)


def test_a_sampler_that_was_away_for_15_seconds_lost_nothing() -> None:
    quiet(1.0)
    buckets = [traffic(at, "org_1", requests=at + 1) for at in (0, 5, 10, 15)]
    sampled(16.0, child("a/0", *buckets, written_s=16.0))
    assert requests_in() == {0: 1, 5: 6, 10: 11, 15: 16}
    assert covered() == {-15: 5, -10: 5, -5: 5, 0: 5, 5: 5, 10: 5, 15: 1}


def test_time_that_no_record_speaks_for_stays_uncovered() -> None:
    quiet(1.0)
    quiet(62.0)
    assert covered() == {-15: 5, -10: 5, -5: 5, 0: 1, 45: 5, 50: 5, 55: 5, 60: 2}


def test_a_process_covers_nothing_before_its_start_and_a_supervisor_never() -> None:
    sampled(8.0, child("a/0", written_s=8.0, started_at=NOON_S + 3.5), supervisor(written_s=8.0))
    assert covered() == {0: 1.5, 5: 3}


def test_without_a_gateway_the_bucket_is_there_and_says_who_is_missing() -> None:
    sampled(3.0, census=Census(0, 2, ("a", "b")))
    row = LiveCoverage.objects.get()
    assert (row.covered_s, row.live, row.seen, row.missing) == (0, 0, 2, ["a", "b"])


def test_who_was_missing_in_a_bucket_stays_with_it() -> None:
    sampled(3.0, child("a/0", written_s=3.0), census=Census(1, 2, ("b",)))
    quiet(7.0)
    found = LiveCoverage.objects.filter(at__gte=NOON).order_by("at")
    assert [(row.live, row.missing) for row in found] == [(1, ["b"]), (2, [])]


def test_what_a_wrong_clock_says_is_left_out() -> None:
    sampled(1.0, child("a/0", traffic(600, "org_1", requests=1), written_s=600))
    assert requests_in() == {}
    assert covered() == {}


def test_text_that_the_database_cannot_hold_does_not_stop_the_sampler() -> None:
    odd = traffic(0, "org\0", "pool\0", requests=1, failures={"odd\0": 1})
    sampled(1.0, child("a/0", odd, written_s=1.0))
    assert requests_in() == {0: 1}


def test_gauges_are_kept_by_the_second_and_unknown_is_no_sample() -> None:
    first = supervisor(gauges("pool_1-0", 0.4, running=3, utilisation=50.0), written_s=0.5)
    sampled(0.6, first)
    sampled(0.7, first)
    sampled(1.6, supervisor(gauges("pool_1-0", 1.4, running=5), written_s=1.5))
    rows = LiveWorker.objects.order_by("at")
    assert [(row.running_sum, row.running_samples) for row in rows] == [(3, 1), (5, 1)]
    assert [(row.utilisation_sum, row.utilisation_samples) for row in rows] == [(50, 1), (0, 0)]


def filled_minute() -> None:
    """A minute of two processes, a request a bucket, and a worker measured twice."""
    for at in range(0, 60, 5):
        sampled(
            at + 4.9,
            *(
                child(
                    name,
                    traffic(
                        at,
                        "org_1",
                        "pool_1",
                        requests=1,
                        failures={"timeout": 1} if at < 10 else {},
                        prompt_tokens=10,
                        cost_nanousd=7,
                        unknown_cost=1,
                        first_token_ms=histogram(100.0, 200.0),
                    ),
                    written_s=at + 5.0,
                )
                for name in ("a/0", "b/0")
            ),
            supervisor(gauges("pool_1-0", at, running=at), written_s=at),
        )


def test_a_minute_is_the_sum_of_its_rows_and_folding_again_changes_nothing() -> None:
    filled_minute()
    for _ in range(2):
        assert tidy(after(61)) == Tidied(folded=2, deleted=0, is_behind=False)
    (row,) = LiveTraffic.objects.filter(resolution_s=60)
    assert (row.at, row.source, row.requests, row.failures) == (NOON, "", 24, {"timeout": 4})
    assert (row.prompt_tokens, row.cost_nanousd, row.unknown_cost) == (240, 168, 24)
    expected = {str(bucket): 24 for bucket in histogram(100.0, 200.0)}
    assert row.first_token_ms == expected
    (worker,) = LiveWorker.objects.filter(resolution_s=60)
    assert (worker.running_sum, worker.running_samples) == (330, 12)
    assert covered(60) == {-60: 10, 0: 60}


def test_a_minute_under_way_is_not_folded_and_a_late_record_still_gets_in() -> None:
    quiet(58.0)
    assert tidy(after(59)).folded == 0
    assert tidy(after(60.5)).folded == 1
    sampled(70.0, child("a/0", traffic(55, "org_1", requests=3), written_s=70.0))
    tidy(after(70))
    assert requests_in(60) == {0: 3}


def test_a_quarter_of_an_hour_is_folded_once_its_minutes_can_not_change() -> None:
    filled_minute()
    quiet(16 * 60.0)
    for seconds, quarters in ((17 * 60, {}), (18 * 60, {0: 24})):
        tidy(after(seconds))
        assert requests_in(900) == quarters
    assert covered(900) == {-900: 10, 0: 60}
    (worker,) = LiveWorker.objects.filter(resolution_s=900)
    assert (worker.running_sum, worker.running_samples) == (330, 12)


def test_nothing_is_removed_before_it_is_folded_and_longer_rows_outlive_fine_ones() -> None:
    filled_minute()
    later = NOON + FINE_KEPT + timedelta(minutes=16)
    done = tidy(later)
    assert not done.is_behind
    assert requests_in() == {}
    assert requests_in(60) == {0: 24}
    assert LiveWorker.objects.filter(resolution_s=1).count() == 0
    assert tidy(later).deleted == 0
    tidy(NOON + FOLDED_KEPT + timedelta(minutes=16))
    assert [model.objects.count() for model in (LiveTraffic, LiveWorker, LiveCoverage)] == [0] * 3


def test_an_empty_installation_has_nothing_to_tidy() -> None:
    assert tidy(NOON) == Tidied(folded=0, deleted=0, is_behind=False)


def test_a_tick_takes_three_statements(django_assert_num_queries: Any) -> None:
    records = [child(f"a/{n}", traffic(0, "org_1", requests=n), written_s=1.0) for n in range(9)]
    with django_assert_num_queries(5):  # with the savepoint of the test
        sampled(1.0, *records, supervisor(gauges("pool_1-0", 0.1, running=1), written_s=1.0))
