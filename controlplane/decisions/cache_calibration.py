"""How many hits by meaning are false, how sure that is, and which threshold holds a limit. Pure.

Checks answer a sampled share of such hits anew and compare. Each has a similarity, counted in steps
of 0.01.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt

from controlplane.decisions.cache_rollups import STEPS, Verdict, step_of

Z_95 = 1.959963984540054
"""The normal distribution's quantile for an interval of 95 %."""

LEAST_CHECKS = 20
"""Fewer say nothing: one false hit among a handful is no rate."""

LEAST_FALSE = 3
"""One or two may be checks that erred: they raise nothing, however low the limit."""

MOST_STEPS = 2
"""So far it goes at a time; what is checked from there on says whether it goes on."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of `false_hits` among `checks`, between `low` and `high` with 95 % confidence."""

    false_hits: int
    checks: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        """The share itself, None of no checks."""
        return self.false_hits / self.checks if self.checks else None


@dataclass(frozen=True, slots=True)
class Raise:
    """A threshold to be raised, and the rate at the one there is."""

    similarity_min: float
    rate: Rate


Steps = Mapping[tuple[int, str], int]
"""Checks by step of similarity and verdict."""


def rate_of(false_hits: int, checks: int) -> Rate:
    """The share with Wilson's interval, which keeps within 0 and 1 and means something at 0 too."""
    if checks == 0:
        return Rate(0, 0, 0.0, 1.0)
    share, square = false_hits / checks, Z_95 * Z_95
    middle = (share + square / (2 * checks)) / (1 + square / checks)
    spread = sqrt(share * (1 - share) / checks + square / (4 * checks * checks))
    half = Z_95 * spread / (1 + square / checks)
    return Rate(false_hits, checks, max(0.0, middle - half), min(1.0, middle + half))


def rate_from(steps: Steps, least: int) -> Rate:
    """The rate among checks of hits that were at least so alike."""
    false_hits = _sum(steps, least, (Verdict.DIFFERED,))
    return rate_of(false_hits, _sum(steps, least, (Verdict.DIFFERED, Verdict.AGREED)))


def raised_threshold(steps: Steps, similarity_min: float, limit: float) -> Raise | None:
    """The threshold that holds the limit, None where there is no sure reason to raise it.

    It is raised once the lower bound of the rate at the present threshold passes the limit: then
    to the least step from which on the upper bound holds it, or, where too few checks lie so high,
    to the least step above every hit that was found false; by MOST_STEPS and to 1 at most.
    """
    present = step_of(similarity_min)
    rate = rate_from(steps, present)
    if rate.checks < LEAST_CHECKS or rate.false_hits < LEAST_FALSE:
        return None
    if rate.low <= limit or present >= STEPS:
        return None
    holding = (
        step
        for step in range(present + 1, STEPS + 1)
        if (found := rate_from(steps, step)).checks >= LEAST_CHECKS and found.high <= limit
    )
    above = 1 + max(step for (step, verdict) in steps if verdict == Verdict.DIFFERED)
    wanted = next(holding, max(above, present + 1))
    return Raise(min(wanted, present + MOST_STEPS, STEPS) / STEPS, rate)


def raised_by_complaint(similarity_min: float, similarity: float) -> float | None:
    """The threshold after somebody told of a wrong answer; None if it would not have been served.

    One step at a time: one person's word shall not switch the tier off.
    """
    present = step_of(similarity_min)
    if similarity < similarity_min or present >= STEPS:
        return None
    return (present + 1) / STEPS


def _sum(steps: Steps, least: int, verdicts: Iterable[Verdict]) -> int:
    wanted = {one.value for one in verdicts}
    return sum(n for (step, verdict), n in steps.items() if step >= least and verdict in wanted)
