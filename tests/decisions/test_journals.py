"""Contiguous-range arithmetic of journals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.journals import Progress, advance


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
