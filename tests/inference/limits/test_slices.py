"""What a process holds of a counter: sums that must come out whatever happens in between."""

import pytest

from inference.limits.batches import Batch
from inference.limits.shelf import Shelf
from inference.limits.slices import Claim, Counter, Slice
from tests.inference.limits.rig import counter, slots

NOW_S = 100.0


def claim_on(one: Slice) -> Claim:
    """Some claim on its counter."""
    return Claim(one.counter, 1, 1, is_strict=True)


def filled(one: Counter, *, left: int, out: int = 0) -> Slice:
    """A slice in window 7, good for ten seconds."""
    made = Slice(one)
    if one.window_ms:
        made.roll(7)
    made.got, made.left, made.out, made.ends_s = left + out, left, out, NOW_S + 10
    return made


@pytest.mark.parametrize(
    ("floor", "now_s", "amount", "suffices"),
    [
        (3, NOW_S, 10, True),
        (4, NOW_S, 10, False),
        (3, NOW_S + 10, 10, False),
        (3, NOW_S, 11, False),
    ],
)
def test_a_slice_is_good_for_its_units_its_window_and_the_amount_it_was_given_under(
    floor: int, now_s: float, amount: int, suffices: bool
) -> None:
    claim = Claim(counter(amount), floor, floor, is_strict=True)
    assert filled(counter(10), left=3).suffices(claim, now_s) is suffices


def test_what_was_not_used_is_free_again_in_its_window_alone() -> None:
    one = filled(counter(100, is_refundable=True), left=5, out=20)
    one.settle(claim_on(one), 20, 8, window=7, now_s=NOW_S)
    assert (one.left, one.out, one.got) == (17, 0, 25)
    one.roll(8)
    one.settle(claim_on(one), 20, 0, window=7, now_s=NOW_S)
    assert (one.left, one.out, one.got) == (0, 0, 0)


def test_what_was_used_beyond_comes_from_what_is_left_and_is_else_granted_by_nobody() -> None:
    one = filled(counter(100), left=5)
    one.settle(claim_on(one), 0, 4, window=7, now_s=NOW_S)
    assert (one.left, one.got, one.is_dirty) == (1, 5, False)
    one.settle(claim_on(one), 0, 4, window=7, now_s=NOW_S)
    assert (one.left, one.got, one.is_dirty) == (0, 8, True)


def test_what_is_used_after_the_window_counts_in_the_next_one() -> None:
    one = filled(counter(100), left=5)
    one.settle(claim_on(one), 0, 4, window=7, now_s=NOW_S + 11)
    assert (one.left, one.got, one.late, one.is_dirty) == (5, 5, 4, True)


def test_a_slot_that_is_given_back_stays_here_until_it_is_wanted() -> None:
    one = filled(slots(2), left=0, out=1)
    one.settle(claim_on(one), 1, 0, window=0, now_s=NOW_S + 60)
    assert (one.left, one.out, one.got, one.may_return) == (1, 0, 1, 1)
    one.give_up()
    assert (one.left, one.got, one.may_return) == (0, 0, 0)


def test_of_a_store_that_is_entered_anew_nothing_is_wanted_ahead() -> None:
    shelf = Shelf(wake=lambda: None)
    one = shelf.of(counter(1_000))
    one.roll(7)
    one.got, one.left, one.ends_s = 10, 4, NOW_S + 10
    one.ahead, one.is_due = 64, True
    shelf.reenter(NOW_S)
    batch = Batch("org_a")
    batch.add(one, NOW_S, is_short=False)
    assert [(row.got, row.want) for row in batch.rows] == [(10, 0)]
