"""How far a journal has been committed, when its ends arrive in any order and more than once."""

from collections.abc import Iterable
from dataclasses import dataclass

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """All of 1..`mark` is committed, and beyond the gap after it the ranges `ahead`.

    Ranges are inclusive, ascending, and neither touch each other nor the mark.
    """

    mark: int = 0
    ahead: tuple[Range, ...] = ()


def advance(progress: Progress, seqs: Iterable[int]) -> Progress:
    """Add committed sequence numbers; those below 1 name no end and are ignored."""
    ranges = [(seq, seq) for seq in seqs if seq > progress.mark and seq > 0]
    joined = _join(sorted([*progress.ahead, *ranges]))
    if joined and joined[0][0] <= progress.mark + 1:
        return Progress(joined[0][1], tuple(joined[1:]))
    return Progress(progress.mark, tuple(joined))


def skip_to(progress: Progress, seq: int) -> Progress:
    """Wait no longer for ends up to this one: their journal has let go of them."""
    if seq <= progress.mark:
        return progress
    joined = _join(sorted([(progress.mark + 1, seq), *progress.ahead]))
    return Progress(joined[0][1], tuple(joined[1:]))


def count_missing(progress: Progress, upto: int) -> int:
    """How many of the ends 1..`upto` are not committed."""
    beyond = max(0, upto - progress.mark)
    return beyond - sum(max(0, min(last, upto) - first + 1) for first, last in progress.ahead)


def count_committed(progress: Progress) -> int:
    """How many ends are committed."""
    return progress.mark + sum(last - first + 1 for first, last in progress.ahead)


def is_committed(progress: Progress, seq: int) -> bool:
    """Whether this end is."""
    return seq <= progress.mark or any(first <= seq <= last for first, last in progress.ahead)


def _join(ranges: Iterable[Range]) -> list[Range]:
    """Merge ascending ranges that overlap or touch."""
    joined: list[Range] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
