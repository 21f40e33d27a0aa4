"""What live pages are told: exact numbers from what gateways and supervisors said."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from controlplane.errors import Invalid, NotFound
from controlplane.models import Organisation, Pool, UsageDay, UsageMinute
from controlplane.selectors.access import Access
from controlplane.selectors.live import LiveView, Span, get_live, newest, span_of
from controlplane.selectors.spend import get_month_to_date
from controlplane.services.live import Census, tidy
from inference.decisions.histograms import bucket_of, value_of
from tests.controlplane.conftest import Caller
from tests.controlplane.live.facts import (
    NOON,
    after,
    child,
    gauges,
    histogram,
    quiet,
    sampled,
    supervisor,
    traffic,
)

pytestmark = pytest.mark.slow


ALL = Access(is_platform_admin=True)


def read(organisation: Organisation, now_s: float, window: str = "5m", **more: Any) -> LiveView:
    """What a page that asks at this time is told."""
    return get_live(ALL, organisation, span_of(window, after(now_s)), **more)


def near(value: float) -> Any:
    """A value as a histogram gives it back."""
    return pytest.approx(value_of(bucket_of(value)))


@pytest.fixture
def org(organisation: Organisation) -> str:
    return organisation.pk


@pytest.fixture
def pool_id(pool: Any) -> str:
    found: str = pool["id"]
    return found


def test_rates_are_by_the_time_the_newest_bucket_has_covered_so_far(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    known = {"requests": 10, "failures": {"timeout": 1, "refused": 1}, "prompt_tokens": 500}
    more = {"completion_tokens": 50, "cost_nanousd": 1_000}
    for name in ("a/0", "a/1", "b/0", "b/1"):
        whole = traffic(0, org, pool_id, **known, **more)
        begun = traffic(5, org, pool_id, requests=1, cost_nanousd=4)
        sampled(7.1, child(name, whole, begun, written_s=7.0))
    view = read(organisation, 7.2)
    line = view.total
    assert view.at[-2:] == (NOON, after(5))
    assert view.covered[-2:] == (1.0, 0.4)
    assert line.requests[-2:] == (40, 4)
    assert line.requests_per_s[-2:] == (8.0, 2.0)
    assert line.failure_share[-2:] == (0.2, 0.0)
    assert {code: values[-2:] for code, values in line.failures.items()} == {
        "refused": (4, 0),
        "timeout": (4, 0),
    }
    assert line.prompt_tokens_per_s[-2:] == (400.0, 0.0)
    assert line.completion_tokens_per_s[-2:] == (40.0, 0.0)
    assert line.cost_nanousd_per_hour[-2:] == (2_880_000.0, 28_800.0)
    assert [(one.key, one.label, one.requests[-2:]) for one in view.pools] == [
        (pool_id, "mine", (40, 4))
    ]


def test_no_report_is_a_gap_and_a_report_of_nothing_is_zero(organisation: Organisation) -> None:
    quiet(2.0)
    quiet(33.0)
    line = read(organisation, 34.0).total
    recent = line.requests[-10:]
    # 30 s after the first report the second speaks for the last 20 s; between them nobody did
    assert recent == (0, 0, 0, 0, None, None, 0, 0, 0, 0)
    assert line.requests_per_s[-10:] == recent
    assert line.failure_share[-1] is None
    assert line.first_token_ms[0.5][-1] is None


def test_percentiles_merge_gateways_and_are_hidden_while_values_are_too_few(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    slow, fast = histogram(*[900.0] * 2), histogram(*[100.0] * 17)
    sampled(
        4.0,
        child("a/0", traffic(0, org, pool_id, requests=17, first_token_ms=fast), written_s=4.0),
        child("b/0", traffic(0, org, pool_id, requests=2, first_token_ms=slow), written_s=4.0),
    )
    last = {
        share: values[-1] for share, values in read(organisation, 4.1).total.first_token_ms.items()
    }
    assert last == {0.5: near(100), 0.95: None, 0.99: None}
    quick = traffic(5, org, pool_id, requests=1, first_token_ms=histogram(900.0))
    sampled(8.0, child("a/0", quick, written_s=8.0))
    view = read(organisation, 8.1)
    line = view.total.first_token_ms
    assert (line[0.95][-2], line[0.95][-1]) == (None, near(900))
    assert (view.summary.samples, view.summary.first_token_ms[0.95]) == (20, near(900))
    assert view.percentile_window_s == 300


def test_a_percentile_forgets_what_is_older_than_its_window(
    organisation: Organisation, org: str
) -> None:
    old = histogram(*[800.0] * 5)
    sampled(4.0, child("a/0", traffic(0, org, requests=5, first_token_ms=old), written_s=4.0))
    new = histogram(*[50.0] * 4)
    sampled(304.0, child("a/0", traffic(300, org, requests=4, first_token_ms=new), written_s=304.0))
    sampled(298.0, child("a/0", written_s=298.0))
    line = read(organisation, 304.1).total.first_token_ms[0.5]
    assert line[-2:] == (near(800), near(50))


def test_what_nobody_priced_or_counted_is_unknown_and_not_zero(
    organisation: Organisation, org: str
) -> None:
    unknown = traffic(0, org, requests=2, unknown_cost=2, unknown_usage=2)
    partly = traffic(5, org, requests=2, unknown_cost=1, cost_nanousd=10, prompt_tokens=5)
    free = traffic(10, org, requests=1)
    sampled(15.0, child("a/0", unknown, partly, free, written_s=15.0))
    view = read(organisation, 15.1)
    assert view.total.cost_nanousd_per_hour[-4:-1] == (None, 7_200.0, 0.0)
    assert view.total.prompt_tokens_per_s[-4:-1] == (None, 1.0, 0.0)
    assert view.summary.has_unknown_cost


def test_traffic_without_a_pool_and_of_a_deleted_pool_keeps_a_name(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    for day, label in ((23, "once"), (24, "lately")):
        UsageDay.objects.create(
            organisation_id=org,
            day=datetime(2026, 11, day, tzinfo=UTC).date(),
            dimension="pool",
            value="pool_gone",
            label=label,
        )
    buckets = [traffic(0, org, key, requests=n) for key, n in (("", 1), ("pool_gone", 2))]
    sampled(3.0, child("a/0", *buckets, written_s=3.0))
    view = read(organisation, 3.0)
    assert [(one.key, one.label) for one in view.pools] == [
        ("pool_gone", "lately"),
        ("", "Refused, no pool"),
        (pool_id, "mine"),
    ]
    assert set(view.pool_summaries) == {"pool_gone", "", pool_id}


def test_tiles_are_of_the_last_minute_and_gauges_of_the_last_seconds(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    quiet(0.0)
    for at in range(0, 60, 5):
        now = at + 5.0
        one = traffic(at, org, pool_id, requests=6, failures={"timeout": 3}, cost_nanousd=100)
        sampled(
            now,
            child("a/0", one, written_s=now),
            supervisor(
                gauges(f"{pool_id}-0", now, running=at, waiting=0, kv_used=0.5, utilisation=80.0),
                gauges(f"{pool_id}-1", now, running=1, utilisation=40.0, is_gpu=False),
                written_s=now,
            ),
        )
    view = read(organisation, 60.0)
    tile = view.summary
    assert tile == view.pool_summaries[pool_id]
    assert (tile.requests_per_s, tile.failure_share) == (1.2, 0.5)
    assert tile.failures == {"timeout": 33}
    assert (tile.running, tile.waiting, tile.kv_used, tile.utilisation) == (56, 0, 0.5, 60.0)
    assert tile.cost_nanousd_per_hour == 72_000
    assert not tile.is_gpu
    assert [(one.label, one.running[-1]) for one in view.workers] == [
        ("mine-0", 55.0),
        ("mine-1", 1.0),
    ]
    assert view.workers[1].kv_used[-1] is None


def test_gateways_that_fell_silent_are_named_and_their_tiles_are_empty(
    organisation: Organisation, org: str
) -> None:
    sampled(3.0, child("a/0", traffic(0, org, requests=9), written_s=3.0))
    sampled(90.0, census=Census(0, 1, ("a",)))
    view = read(organisation, 90.2)
    assert (view.coverage.live, view.coverage.seen, view.coverage.missing) == (0, 1, ("a",))
    assert view.coverage.as_of == after(90)
    assert view.summary.requests_per_s is None


def test_nothing_was_ever_sampled(organisation: Organisation, pool_id: str) -> None:
    view = read(organisation, 0.0, "24h")
    assert len(view.at) == 96
    assert set(view.total.requests) == {None}
    assert view.coverage.as_of is None
    assert view.summary.running is None
    assert view.month_to_date_nanousd == 0


def test_an_hour_reads_minutes_and_the_end_that_is_not_folded_yet(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    for at in range(0, 300, 5):
        first = histogram(100.0)
        bucket = traffic(at, org, pool_id, requests=1, first_token_ms=first)
        sampled(at + 5.0, child("a/0", bucket, written_s=at + 5.0))
        if at % 10 == 0:
            tidy(after(at + 5.0))
    # a request of the minute before shows although that minute is folded already
    late = traffic(299 // 5 * 5, org, pool_id, requests=4)
    sampled(302.0, child("a/0", late, written_s=302.0))
    view = read(organisation, 302.1, "1h")
    assert view.at[-6:] == tuple(after(at) for at in range(0, 360, 60))
    assert view.total.requests[-6:] == (12, 12, 12, 12, 15, 0)
    assert view.total.requests_per_s[-6:-1] == (0.2, 0.2, 0.2, 0.2, 0.25)
    assert view.total.first_token_ms[0.95][-1] == near(100)
    assert view.summary.requests_per_s == pytest.approx(14 / 57)


def test_a_week_adds_quarters_minutes_and_fine_rows_up(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    for minute in (0, 14, 16, 40):
        at = minute * 60
        first = histogram(*[100.0] * 10)
        bucket = traffic(at, org, pool_id, requests=minute + 1, first_token_ms=first)
        measured = supervisor(gauges(f"{pool_id}-0", at, running=minute), written_s=at + 5.0)
        sampled(at + 5.0, child("a/0", bucket, written_s=at + 5.0), measured)
        tidy(after(at + 250))
    for window, expected in (("7d", (74,)), ("24h", (16, 17, 41))):
        view = read(organisation, 41 * 60.0, window)
        shown = [value for value in view.total.requests if value is not None]
        assert tuple(shown[-len(expected) :]) == expected
    week = read(organisation, 41 * 60.0, "7d")
    assert week.total.first_token_ms[0.95][-1] == near(100)
    assert week.workers[0].running[-1] == pytest.approx(70 / 4)
    assert week.covered[-1] == pytest.approx((5 + 15 + 15 + 15) / 3_600)


def test_history_that_is_older_than_fine_rows_is_read_by_the_minute(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    sampled(40.0, child("a/0", traffic(35, org, pool_id, requests=7), written_s=40.0))
    tidy(after(120))
    tidy(after(3 * 3_600))
    quiet(3 * 3_600.0)
    span = span_of("5m", after(3 * 3_600), until=after(60))
    assert span.bucket_s == 60
    view = get_live(ALL, organisation, span)
    assert view.total.requests == (None, None, None, None, 7)
    assert view.summary.requests_per_s == pytest.approx(7 / 15)
    assert view.coverage.as_of == after(40)


def test_the_newest_buckets_are_the_whole_windows_last(
    organisation: Organisation, org: str, pool_id: str
) -> None:
    for at in range(0, 60, 5):
        first = histogram(*[100.0 + at] * 3)
        bucket = traffic(at, org, pool_id, requests=1, first_token_ms=first)
        sampled(at + 4.0, child("a/0", bucket, written_s=at + 4.0))
    for window in ("5m", "15m", "1h"):
        span = span_of(window, after(59.5))
        whole, last = (get_live(ALL, organisation, one) for one in (span, newest(span)))
        assert last.at == tuple(whole.at[-3:])
        for mine, theirs in ((last.total, whole.total), (last.pools[0], whole.pools[0])):
            assert mine.requests_per_s == tuple(theirs.requests_per_s[-3:])
            assert mine.first_token_ms[0.5] == tuple(theirs.first_token_ms[0.5][-3:])
        assert last.summary == whole.summary


def test_spans_begin_at_whole_buckets_and_unknown_windows_are_refused() -> None:
    assert span_of("1h", after(61)) == Span(after(-3_480), after(120), 60)
    assert span_of("5m", NOON) == Span(after(-295), after(5), 5)
    assert span_of("5m", NOON, until=after(900)) == Span(after(-295), after(5), 5)
    assert span_of("5m", after(900), until=NOON) == Span(after(-300), NOON, 5)
    with pytest.raises(Invalid):
        span_of("2y", NOON)


def test_an_hour_of_many_pools_takes_few_queries(
    organisation: Organisation, pool_id: str, django_assert_num_queries: Any
) -> None:
    row = Pool.objects.get(pk=pool_id)
    for number in range(19):
        row.pk, row.name = f"pool_{number}", f"p{number}"
        row.save(force_insert=True)
    quiet(30.0)
    with django_assert_num_queries(9):
        assert len(read(organisation, 30.0, "1h").pools) == 20


def test_figures_are_of_one_organisation_and_of_pools_the_caller_knows(
    organisation: Organisation,
    org: str,
    pool_id: str,
    make_caller: Callable[..., Caller],
) -> None:
    buckets = [traffic(0, org, pool_id, requests=3), traffic(0, "org_of_others", requests=5)]
    measured = supervisor(
        gauges(f"{pool_id}-0", 1.0, running=1), gauges("pool_of_others-0", 1.0), written_s=1.0
    )
    sampled(2.0, child("a/0", *buckets, written_s=2.0), measured)
    assert read(organisation, 2.0).total.requests[-1] == 3
    assert [one.key for one in read(organisation, 2.0).workers] == [f"{pool_id}-0"]
    assert read(organisation, 2.0, pool_id=pool_id).month_to_date_nanousd is None
    with pytest.raises(NotFound):
        read(organisation, 2.0, pool_id="pool_of_others")
    span = span_of("5m", after(2))
    with pytest.raises(NotFound):
        get_live(Access(), organisation, span)
    other = make_caller("viewer").organisation
    with pytest.raises(NotFound):
        get_live(ALL, other, span, pool_id=pool_id)


@pytest.mark.parametrize(
    ("zone", "until", "spent"),
    [
        ("UTC", datetime(2026, 11, 24, 12, tzinfo=UTC), 111),
        ("Asia/Kolkata", datetime(2026, 11, 24, 12, tzinfo=UTC), 1_111),
        ("America/New_York", datetime(2026, 11, 24, 12, tzinfo=UTC), 101),
        ("Asia/Kolkata", datetime(2026, 10, 31, 19, tzinfo=UTC), 1_000),
        ("UTC", datetime(2026, 11, 1, 2, tzinfo=UTC), 10),
    ],
)
def test_the_month_is_that_of_the_organisations_zone(
    organisation: Organisation, org: str, zone: str, until: datetime, spent: int
) -> None:
    organisation.time_zone = zone
    rows = [
        (datetime(2026, 10, 31, 18, 45, tzinfo=UTC), 1_000),
        (datetime(2026, 11, 1, 1, tzinfo=UTC), 10),
        (datetime(2026, 11, 24, 11, tzinfo=UTC), 101),
    ]
    for minute, cost in rows:
        shared = {"organisation_id": org, "cost_nanousd": cost}
        names = {"route_id": "", "pool_id": "", "model_id": "", "project_id": ""}
        UsageMinute.objects.create(minute=minute, **names, **shared)
        for dimension in ("project", "route"):
            day = minute.astimezone(ZoneInfo(zone)).date()
            UsageDay.objects.create(day=day, dimension=dimension, value=str(cost), **shared)
    is_past = until < datetime(2026, 11, 24, tzinfo=UTC)
    assert get_month_to_date(ALL, organisation, until, is_past=is_past) == spent


def test_a_month_of_which_nothing_has_a_price_is_unknown(
    organisation: Organisation, org: str
) -> None:
    day = {"organisation_id": org, "day": datetime(2026, 11, 24, tzinfo=UTC).date()}
    UsageDay.objects.create(dimension="project", value="a", unknown_cost=3, **day)
    until = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert get_month_to_date(ALL, organisation, until) is None
    UsageDay.objects.create(dimension="project", value="b", cost_nanousd=7, **day)
    assert get_month_to_date(ALL, organisation, until) == 7
