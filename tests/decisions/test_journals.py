"""Contiguous-range arithmetic of journals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.journals import Progress, advance, count_missing, skip_to


@pytest.mark.parametrize(
    ("before", "seqs", "after"),
    [
        (Progress(), [], Progress()),
        (Progress(), [1, 2, 3], Progress(3)),
        (Progress(), [2, 3], Progress(0, ((2, 3),))),
        (Progress(0, ((2, 3),)), [1], Progress(3)),
        (Progress(5), [7, 9, 8, 12], Progress(5, ((7, 9), (12, 12)))),
        (Progress(5, ((7, 9), (12, 12))), [6], Progress(9, ((12, 12),))),
        (Progress(5, ((7, 9), (12, 12))), [10, 11, 6], Progress(12)),
        (Progress(5, ((7, 9),)), [8, 7, 5, 1], Progress(5, ((7, 9),))),
        (Progress(5, ((7, 9),)), [10], Progress(5, ((7, 10),))),
        (Progress(), [0, -3], Progress()),
    ],
)
def test_mark_is_the_end_of_the_contiguous_range(
    before: Progress, seqs: list[int], after: Progress
) -> None:
    assert advance(before, seqs) == after


@given(st.lists(st.lists(st.integers(1, 60), max_size=12), max_size=8))
def test_any_order_and_repetition_ends_where_the_set_says(batches: list[list[int]]) -> None:
    progress = Progress()
    seen: set[int] = set()
    for batch in batches:
        progress = advance(progress, batch)
        seen |= set(batch)
    covered = set(range(1, progress.mark + 1))
    for first, last in progress.ahead:
        assert first > progress.mark + 1
        covered |= set(range(first, last + 1))
    assert covered == seen


def test_what_a_journal_has_let_go_of_is_not_waited_for() -> None:
    held = Progress(3, ((6, 7), (12, 12)))
    assert skip_to(held, 2) == held
    assert skip_to(held, 5) == Progress(7, ((12, 12),))
    assert skip_to(held, 9) == Progress(9, ((12, 12),))
    assert skip_to(held, 11) == Progress(12)
    assert skip_to(Progress(), 20) == Progress(20)


@pytest.mark.parametrize(("upto", "missing"), [(3, 0), (5, 2), (6, 2), (9, 4), (12, 6), (15, 9)])
def test_missing_are_the_ends_up_to_a_number_that_are_not_committed(
    upto: int, missing: int
) -> None:
    assert count_missing(Progress(3, ((6, 7), (12, 12))), upto) == missing
