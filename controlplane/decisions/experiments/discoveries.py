"""Which of many differences are real: at most a named share of those called so may be chance."""

from collections.abc import Sequence


def adjust_p_values(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Each p-value as the smallest false discovery rate that calls it real (Benjamini-Hochberg).

    What has no p-value was not looked for and counts for nothing.
    """
    known = sorted(((p, place) for place, p in enumerate(p_values) if p is not None), reverse=True)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank, (p, place) in zip(range(len(known), 0, -1), known, strict=True):
        least = min(least, p * len(known) / rank)
        adjusted[place] = least
    return tuple(adjusted)
