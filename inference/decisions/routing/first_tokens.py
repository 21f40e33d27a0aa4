"""How long a worker takes to give its first token: learned from streams, and less sure with time.

A sample says little: prompts differ, and a hiccup passes. So one that is slow is believed less than
one that is fast, and what was learned fades into what the pool's workers take on the average.
"""

from collections.abc import Iterable

from inference.decisions.routing.base import Candidate

HALF_LIFE_S = 60.0
"""After so long without a sample, half of what sets a worker apart from its pool is forgotten."""

_LEAST_S = 0.001
_RISE, _FALL = 0.2, 0.5
_MOST_RISE = 4.0


def learned(before_s: float | None, sample_s: float) -> float:
    """What is known of a worker after one more stream took this long to begin."""
    sample_s = max(sample_s, _LEAST_S)
    if before_s is None:
        return sample_s
    if sample_s <= before_s:
        return before_s + _FALL * (sample_s - before_s)
    return before_s + _RISE * (min(sample_s, _MOST_RISE * before_s) - before_s)


def mean_of(workers: Iterable[Candidate]) -> float | None:
    """What the workers take on the average, of whom it is known."""
    known = [one.first_token_s for one in workers if one.first_token_s is not None]
    return sum(known) / len(known) if known else None


def expected_s(worker: Candidate, *, mean_s: float, now_s: float) -> float:
    """How long it will take if it is idle; one that never gave a token is like the others."""
    own_s = worker.first_token_s
    if own_s is None:
        return mean_s
    age_s = max(now_s - worker.first_token_at_s, 0.0)
    faded: float = 0.5 ** (age_s / HALF_LIFE_S)
    return mean_s + (own_s - mean_s) * faded
