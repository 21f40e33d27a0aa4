"""Shares of traffic by how likely each variant is the best (Thompson), with a floor for each.

The floor keeps every variant being measured, so that one that was unlucky at first can come back,
and bounds the weights by which a read-out must divide.
"""

from collections.abc import Sequence
from math import exp, floor

from controlplane.decisions.experiments.contrasts import Level
from controlplane.decisions.experiments.design import Better
from controlplane.decisions.experiments.tails import log_normal_below

WHOLE_BP = 10_000

_STEPS = 400
_REACH = 8.0
"""Standard errors around the estimates beyond which nothing is worth adding."""


def chances_to_be_best(levels: Sequence[Level], better: Better) -> tuple[float, ...] | None:
    """How likely each variant's true level is the best, the errors being normal; sums to 1.

    None while one of them has no estimate with an error: then nobody knows.
    """
    sign = 1.0 if better is Better.HIGHER else -1.0
    known = []
    for level in levels:
        if level.value is None or not level.standard_error:
            return None
        known.append((sign * level.value, level.standard_error))
    chances = [_chance(known, place) for place in range(len(known))]
    whole = sum(chances)
    return tuple(chance / whole for chance in chances)


def _chance(known: Sequence[tuple[float, float]], place: int) -> float:
    """The chance that all others are below, over all that one can be (Simpson's rule)."""
    mean, error = known[place]
    others = [one for number, one in enumerate(known) if number != place]
    total = 0.0
    for step in range(_STEPS + 1):
        z = _REACH * (2.0 * step / _STEPS - 1.0)
        weight = 1.0 if step in (0, _STEPS) else 4.0 if step % 2 else 2.0
        below = sum(log_normal_below((mean + error * z - m) / e) for m, e in others)
        total += weight * exp(below - 0.5 * z * z)
    return total


def weigh_arms(chances: Sequence[float] | None, arms: int, floor_bp: int) -> tuple[int, ...]:
    """Shares in parts of 10,000 that sum to it: the floor for each, the rest by the chances.

    Without chances all are even. A floor that leaves nothing makes all even too.
    """
    floor_bp = min(floor_bp, WHOLE_BP // arms)
    rest = WHOLE_BP - arms * floor_bp
    wanted = [rest / arms] * arms if chances is None else [rest * chance for chance in chances]
    whole = [floor(one) for one in wanted]
    left = rest - sum(whole)
    by_part = sorted(range(arms), key=lambda place: (whole[place] - wanted[place], place))
    for place in by_part[:left]:
        whole[place] += 1
    return tuple(floor_bp + one for one in whole)
