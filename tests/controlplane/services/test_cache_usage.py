"""What the recorder keeps of caches: a row's own part, sums by hour, and false hits, each once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.decisions.replays import Unreplayable, recorded_of
from controlplane.models import CacheHour, CacheSimilarity, FalseHit, Request, UsageHour
from controlplane.selectors.access import Access
from controlplane.selectors.cache_usage import get_saved_since
from controlplane.selectors.reconciliation import read_ledger
from controlplane.selectors.replays import list_arrived
from controlplane.services.cache_usage import (
    FALSE_HITS_KEPT,
    SIMILARITIES_KEPT,
    forget_false_hits,
    forget_similarities,
)
from controlplane.services.usage import record_usage
from inference.contract.events import CacheUse, End, Usage
from inference.contract.kinds import CacheOutcome, CacheTier
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON, make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

HOUR = NOON.replace(minute=0, second=0, microsecond=0)
HIT = CacheUse(
    "cpol_1",
    CacheOutcome.HIT,
    tier=CacheTier.SEMANTIC,
    entry_id="e_1",
    age_ms=12_000,
    similarity=0.97,
    saved_prompt_tokens=1_846,
    saved_completion_tokens=182,
    saved_nanousd=487_200,
    saved_ms=3_692.2,
)


def hit(number: int = 1, **changes: Any) -> End:
    return make_end(number, charges=(), cache=replace(HIT, **changes))


def check(number: int, *, agreed: bool | None) -> End:
    use = CacheUse("cpol_1", CacheOutcome.CHECKED, CacheTier.SEMANTIC, "e_1", similarity=0.93)
    return make_end(number, cache=replace(use, agreed=agreed))


def test_a_hit_costs_nothing_and_says_what_it_saved() -> None:
    record_usage([hit()], now=NOON)
    row = Request.objects.get()
    assert (row.cost_nanousd, row.attempts, row.outcome) == (0, 0, "ok")
    assert row.cache["saved_nanousd"] == 487_200
    assert (row.cache["outcome"], row.cache["tier"]) == ("hit", "semantic")
    assert "refused_by" not in row.cache
    sums = CacheHour.objects.get()
    assert (sums.hour, sums.requests, sums.saved_nanousd, sums.unknown_saved) == (
        HOUR,
        1,
        487_200,
        0,
    )
    booked = UsageHour.objects.get(dimension="route")
    assert (booked.requests, booked.cost_nanousd, booked.unknown_cost) == (1, 0, 0)


def test_what_came_twice_is_counted_once_and_what_no_policy_bore_on_not_at_all() -> None:
    ends = [hit(1), check(2, agreed=False), make_end(3)]
    record_usage(ends, now=NOON)
    record_usage([*ends, hit(4, saved_nanousd=None)], now=NOON)
    assert Request.objects.get(event_id=make_end(3).event_id).cache is None
    by_outcome = {row.outcome: row for row in CacheHour.objects.all()}
    assert {name: row.requests for name, row in by_outcome.items()} == {"hit": 2, "checked": 1}
    assert (by_outcome["hit"].saved_nanousd, by_outcome["hit"].unknown_saved) == (487_200, 1)
    steps = CacheSimilarity.objects.order_by("step").values_list("step", "verdict", "requests")
    assert list(steps) == [(93, "differed", 1), (97, "served", 2)]
    (found,) = FalseHit.objects.all()
    assert (found.source, found.entry_id, found.similarity) == ("check", "e_1", 0.93)


def test_the_books_have_a_hit_as_a_request_without_an_attempt() -> None:
    record_usage([hit(), make_end(2)], now=NOON)
    books = read_ledger(HOUR, HOUR.replace(hour=HOUR.hour + 1))
    assert books["ledger"] == {place: {**figures} for place, figures in books["minutes"].items()}
    assert books["ledger"]["org_a"]["requests"] == 2
    assert books["ledger"]["org_a"]["attempts"] == 1


def test_what_a_batch_had_in_part_is_saved_and_not_served(
    make_caller: Callable[..., Caller],
) -> None:
    caller = make_caller("viewer")
    now = timezone.now()

    def record(number: int, **changes: Any) -> None:
        use = CacheUse("cpol_1", CacheOutcome.MISS, tier=CacheTier.LOCAL, inputs=5, inputs_hit=2)
        origin = make_origin(organisation_id=caller.organisation.pk)
        at_ms = int(now.timestamp() * 1000)
        charges = (make_charge(usage=Usage(10, 5)),)
        use = replace(use, **changes)
        end = make_end(number, at_ms=at_ms, origin=origin, charges=charges, cache=use)
        record_usage([end], now=now)

    def saved() -> int | None:
        return get_saved_since(
            Access(is_platform_admin=True), caller.organisation, now - timedelta(hours=2)
        )

    assert saved() == 0
    record(1, saved_prompt_tokens=9, saved_nanousd=None)
    assert saved() is None
    record(2, saved_prompt_tokens=9, saved_nanousd=3)
    assert saved() == 3
    told = caller.get("/caches/savings/").json()
    total = told["total"]
    assert (total["asked"], total["served"], total["unknown_saved"]) == (2, 0, 1)
    assert (total["saved_prompt_tokens"], total["saved_nanousd"]) == (18, "3")
    assert [(one["tier"], one["saved_nanousd"]) for one in told["tiers"]] == [("local", "3")]
    assert told["engine_hit_rate"] is None


def test_a_replay_passes_over_what_no_worker_had() -> None:
    record_usage([hit()], now=NOON)
    (row,) = list_arrived("org_a", HOUR - timedelta(hours=1), HOUR + timedelta(hours=1))
    found = recorded_of(row)
    assert isinstance(found, Unreplayable)
    assert found.reason == "answered from a cache: no worker had it"


def test_the_histogram_and_false_hits_are_kept_for_a_quarter() -> None:
    record_usage([check(1, agreed=False)], now=NOON)
    assert forget_similarities(HOUR + SIMILARITIES_KEPT) == 0
    assert forget_similarities(timezone.now() + SIMILARITIES_KEPT * 10) == 1
    assert forget_false_hits(NOON + FALSE_HITS_KEPT) == 0
    assert forget_false_hits(NOON + FALSE_HITS_KEPT + timedelta(seconds=1)) == 1


def test_the_api_tells_of_it_and_filters_by_it(make_caller: Callable[..., Caller]) -> None:
    caller = make_caller("viewer")
    mine = [
        replace(one, origin=replace(one.origin, organisation_id=caller.organisation.pk))
        for one in (hit(1), check(2, agreed=True), make_end(3))
    ]
    record_usage(mine, now=NOON)
    (found,) = caller.get("/requests/?cache=hit").json()["results"]
    assert found["cache"] == {
        "policy_id": "cpol_1",
        "outcome": "hit",
        "tier": "semantic",
        "entry_id": "e_1",
        "age_ms": 12_000,
        "similarity": 0.97,
        "refused_by": None,
        "agreed": None,
        "saved_prompt_tokens": 1_846,
        "saved_completion_tokens": 182,
        "saved_nanousd": "487200",
        "saved_ms": 3_692.2,
        "inputs": None,
        "inputs_hit": None,
    }
    assert len(caller.get("/requests/?entry=e_1").json()["results"]) == 2
    every = caller.get("/requests/").json()["results"]
    assert [row["cache"] is None for row in every].count(True) == 1
    one = caller.get(f"/requests/{found['id']}/").json()
    assert one["cache"] == found["cache"]
    assert one["charges"] == []
