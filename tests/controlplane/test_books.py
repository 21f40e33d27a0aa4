"""Gateways' counters, journals, ledger and roll-ups: equal by themselves, and told apart if not."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from controlplane.bridge.books import books_part, count_differences
from controlplane.models import (
    AuditEntry,
    Charge,
    JournalMark,
    LedgerCheck,
    LiveCoverage,
    LiveTraffic,
    Request,
    UsageDay,
    UsageHour,
    UsageMinute,
)
from controlplane.selectors.partitions import list_days
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.reconciliation import reconcile
from controlplane.services.requests import ensure_partitions
from controlplane.services.retention import drop_old_days
from controlplane.services.usage import Poison, record_usage
from tests.controlplane.ledger_events import NOON, NOON_MS, make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

NOW = NOON + timedelta(hours=1, minutes=10)
HOUR = timedelta(hours=1)


@pytest.fixture
def home(actor: Actor) -> str:
    return create_organisation(actor, name="Books", time_zone="Asia/Kathmandu").pk


@pytest.fixture
def recorded(home: str) -> str:
    """Five requests of the newest whole hour, one of two attempts, one refused, one set aside."""
    origin = make_origin(organisation_id=home)
    charges = (make_charge(), make_charge(attempt=2, cost_nanousd=None))
    ends = [
        *(make_end(number, origin=origin) for number in (1, 2, 3)),
        make_end(4, origin=origin, charges=charges),
        make_end(5, origin=origin, charges=()),
    ]
    aside = Poison("1-0", b"broken", "CodecError", ("gw-1.1", 6))
    record_usage(ends, [aside], now=NOON)
    record_usage(ends[:2], [aside], now=NOON)
    return home


def compared() -> dict[str, list[str]]:
    assert reconcile(NOW) is not None
    return {
        check.name: [f"{one['book']} {one['figure']}" for one in check.differences]
        for check in LedgerCheck.objects.all()
    }


def test_books_that_agree_say_so_repeats_and_all(recorded: str) -> None:
    assert compared() == {
        "gateways": [],
        "journals": [],
        "ledger": [],
        "ledger before": [],
        "roll-ups": [],
    }
    part = books_part(NOW)
    assert (part.state, part.detail, count_differences()) == ("ok", "", 0)
    assert part.facts["ledger"] == "equal, 24 Nov 12:00 to 13:00 UTC"
    assert part.facts["gateways"] == "not compared: not every gateway was heard all the time"
    assert books_part(NOW + timedelta(hours=1)).state == "stale"


def test_each_book_that_is_touched_is_named(recorded: str) -> None:
    UsageHour.objects.filter(dimension="key").update(requests=7)
    assert compared()["roll-ups"] == ["hours by key requests"]
    UsageDay.objects.filter(dimension="team").update(cost_nanousd=1)
    assert "days by team cost_nanousd" in compared()["roll-ups"]
    UsageMinute.objects.update(prompt_tokens=0)
    assert "minutes prompt_tokens" in compared()["ledger"]
    Charge.objects.filter(event_id__endswith="4").delete()
    assert "minutes attempts" in compared()["ledger"]
    JournalMark.objects.update(mark=9)
    assert compared()["journals"] == ["journals ends"] or compared()["journals"] == ["ledger ends"]
    part = books_part(NOW)
    assert part.state == "degraded"
    assert f"hours by key: 2 requests more than minutes, {recorded}" in part.facts["differences"]


def test_a_journal_that_let_go_of_ends_counts_them_and_what_comes_all_the_same(home: str) -> None:
    origin = make_origin(organisation_id=home)
    record_usage([make_end(5, origin=origin)], starts={"gw-1.1": 4}, now=NOON)
    mark = JournalMark.objects.get()
    assert (mark.mark, mark.recorded, mark.skipped) == (5, 1, 4)
    record_usage([make_end(2, origin=origin)], now=NOON)
    mark = JournalMark.objects.get()
    assert (mark.mark, mark.recorded, mark.skipped) == (5, 2, 3)
    assert compared()["journals"] == []


def test_gateways_counters_are_held_against_the_ledger_where_all_were_heard(
    recorded: str,
) -> None:
    since = datetime(2026, 11, 24, 12, tzinfo=UTC)
    for place in range(60):
        LiveCoverage.objects.create(
            resolution_s=60,
            at=since + place * timedelta(minutes=1),
            covered_s=60.0,
            live=1,
            seen=1,
            missing=[],
            as_of=since,
        )
    blank = {"failures": {}, "first_token_ms": {}, "output_token_ms": {}, "shed": {}}
    numbers = dict.fromkeys(
        ("prompt_tokens", "completion_tokens", "cost_nanousd", "unknown_usage", "unknown_cost"), 0
    )
    LiveTraffic.objects.create(
        resolution_s=60,
        organisation_id=recorded,
        at=since,
        pool_id="",
        route_id="",
        source="",
        requests=8,
        **blank,
        **numbers,
    )
    assert compared()["gateways"] == []
    LiveTraffic.objects.update(requests=100)
    assert compared()["gateways"] == ["ledger requests"]


def test_older_hours_are_read_again_one_after_the_other(recorded: str) -> None:
    starts = []
    for _ in range(3):
        reconcile(NOW)
        starts.append(LedgerCheck.objects.get(name="ledger before").since)
    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert starts == [noon - HOUR, noon - 2 * HOUR, noon - 3 * HOUR]


def test_old_days_go_with_an_audit_entry_and_their_sums_stay(home: str) -> None:
    old, new = date(2026, 10, 1), NOON.date()
    ensure_partitions([old, new])
    at_ms = NOON_MS - (new - old).days * 86_400_000
    origin = make_origin(organisation_id=home)
    record_usage([make_end(1, at_ms=at_ms, origin=origin), make_end(2, origin=origin)], now=NOON)
    stray = make_end(3, at_ms=at_ms - 86_400_000, origin=origin)
    record_usage([stray], now=NOON)
    assert drop_old_days(NOON, None) == ()
    assert drop_old_days(NOON, 40) == [old]
    assert [row.event_id[-1] for row in Request.objects.all()] == ["2"]
    assert Charge.objects.count() == 1
    assert old not in list_days()
    assert sum(UsageDay.objects.filter(dimension="key").values_list("requests", flat=True)) == 3
    entry = AuditEntry.objects.get(noun="requests")
    assert (entry.action, entry.object_id, entry.actor_label) == (
        "delete",
        "2026-10-01",
        "retention",
    )
    assert books_part(timezone.now()).facts["last_dropped_day"] == "2026-10-01"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM controlplane_request_default")
        assert cursor.fetchone() == (0,)
