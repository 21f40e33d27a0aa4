"""What ends of requests add to the roll-ups of caches."""

from typing import Any

import pytest

from controlplane.decisions.cache_rollups import (
    CacheSums,
    Verdict,
    roll_up_caches,
    step_of,
    verdict_of,
)
from inference.contract.events import CacheUse, End
from inference.contract.kinds import CacheOutcome, CacheTier
from tests.controlplane.ledger_events import make_end

SAVED: dict[str, Any] = {
    "saved_prompt_tokens": 100,
    "saved_completion_tokens": 20,
    "saved_nanousd": 7,
    "saved_ms": 250.5,
}


def hit(number: int = 1, **changes: Any) -> End:
    told = {"tier": CacheTier.LOCAL, "entry_id": "e_1", **SAVED, **changes}
    return make_end(number, charges=(), cache=CacheUse("cpol_1", CacheOutcome.HIT, **told))


def used(outcome: CacheOutcome, **fields: Any) -> CacheUse:
    return CacheUse("cpol_1", outcome, **fields)


def test_what_no_policy_bore_on_adds_nothing() -> None:
    told = roll_up_caches([make_end()])
    assert (told.hours, told.similarities, told.found_false) == ((), (), ())


def test_hits_sum_what_they_saved_and_an_unknown_price_is_counted_not_summed() -> None:
    told = roll_up_caches([hit(1), hit(2, saved_nanousd=None), hit(3, saved_nanousd=0)])
    ((key, sums),) = told.hours
    assert (key.policy_id, key.outcome, key.tier) == ("cpol_1", "hit", "local")
    assert sums == CacheSums(
        requests=3,
        prompt_tokens=300,
        completion_tokens=60,
        saved_nanousd=7,
        unknown_saved=1,
        saved_ms=751.5,
    )


def test_a_miss_and_a_check_save_nothing_whatever_they_say() -> None:
    ends = [
        make_end(1, cache=used(CacheOutcome.MISS, **SAVED)),
        make_end(2, cache=used(CacheOutcome.CHECKED, agreed=True, similarity=0.95, **SAVED)),
    ]
    assert [sums.saved_nanousd for _, sums in roll_up_caches(ends).hours] == [0, 0]
    assert [sums.unknown_saved for _, sums in roll_up_caches(ends).hours] == [0, 0]


def test_a_batch_of_embeddings_saves_for_the_inputs_that_were_kept() -> None:
    use = used(CacheOutcome.MISS, inputs=5, inputs_hit=2, saved_prompt_tokens=9, saved_nanousd=3)
    ((_, sums),) = roll_up_caches([make_end(cache=use)]).hours
    assert (sums.inputs, sums.inputs_hit, sums.prompt_tokens, sums.saved_nanousd) == (5, 2, 9, 3)


@pytest.mark.parametrize(
    ("use", "verdict"),
    [
        (used(CacheOutcome.HIT, tier=CacheTier.LOCAL), None),
        (used(CacheOutcome.HIT, tier=CacheTier.SEMANTIC, similarity=0.95), Verdict.SERVED),
        (used(CacheOutcome.STALE, tier=CacheTier.SEMANTIC, similarity=0.95), Verdict.SERVED),
        (used(CacheOutcome.MISS, similarity=0.9, refused_by="numbers"), Verdict.REFUSED),
        (used(CacheOutcome.CHECKED, similarity=0.95, agreed=True), Verdict.AGREED),
        (used(CacheOutcome.CHECKED, similarity=0.95, agreed=False), Verdict.DIFFERED),
        (used(CacheOutcome.CHECKED, similarity=0.95), Verdict.UNSURE),
    ],
)
def test_the_nearest_has_a_verdict(use: CacheUse, verdict: Verdict | None) -> None:
    assert verdict_of(use) is verdict


@pytest.mark.parametrize(
    ("similarity", "step"),
    [(0.0, 0), (0.92, 92), (0.29, 29), (0.929999, 92), (0.58, 58), (1.0, 100), (1.1, 100)],
)
def test_similarities_fall_into_steps_of_a_hundredth(similarity: float, step: int) -> None:
    assert step_of(similarity) == step


def test_a_check_that_differed_is_a_false_hit_with_its_place() -> None:
    use = used(CacheOutcome.CHECKED, similarity=0.953, agreed=False, entry_id="e_9")
    told = roll_up_caches([make_end(2, cache=use)])
    (found,) = told.found_false
    assert (found.entry_id, found.similarity, found.route_id) == ("e_9", 0.953, "rt_1")
    assert [(key.step, key.verdict, count) for key, count in told.similarities] == [
        (95, "differed", 1)
    ]
