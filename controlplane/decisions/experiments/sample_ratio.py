"""Whether units came to the variants in the planned ratio: if not, no other figure means anything.

A mismatch says that units were lost or doubled on one side, and mostly not at random. Chi-squared
is right for one look. An experiment that is looked at all the time needs the multinomial test
valid at any look (Lindon and Malek 2022): chi-squared at each of many looks would stop sound ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.tails import chi_squared_tail

MISMATCH_ALPHA = 0.001
"""Of sound experiments one in a thousand is stopped: a stop makes all of its data worthless."""

_CONCENTRATION = 1_000.0
"""How near to the plan a mismatch is sought: within 1.6 points of a half, mostly."""


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """How units came, and whether that can be chance.

    `p_value` decides; at any look it is that of the multinomial test, and `chi_squared_p_value`
    stands beside it for who compares. None while no unit has come.
    """

    units: tuple[int, ...]
    expected: tuple[float, ...]
    chi_squared: float | None
    chi_squared_p_value: float | None
    p_value: float | None
    is_mismatched: bool


def sample_ratio(units: Sequence[int], shares: Sequence[float], looks: Looks) -> SampleRatio:
    """Compare units a variant with their planned shares, which are above 0 in any scale."""
    total, whole = sum(units), sum(shares)
    planned = [share / whole for share in shares]
    expected = tuple(total * share for share in planned)
    if total == 0:
        return SampleRatio(tuple(units), expected, None, None, None, is_mismatched=False)
    value = sum((n - due) ** 2 / due for n, due in zip(units, expected, strict=True))
    at_once = chi_squared_tail(value, len(units) - 1)
    p_value = at_once if looks is Looks.FIXED else _any_time(units, planned)
    return SampleRatio(
        tuple(units), expected, value, at_once, p_value, is_mismatched=p_value < MISMATCH_ALPHA
    )


def _any_time(units: Sequence[int], planned: Sequence[float]) -> float:
    """1 over the evidence of a Dirichlet mixture around the plan against the plan itself."""
    evidence = lgamma(_CONCENTRATION) - lgamma(_CONCENTRATION + sum(units))
    for n, share in zip(units, planned, strict=True):
        prior = _CONCENTRATION * share
        evidence += lgamma(prior + n) - lgamma(prior) - n * log(share)
    return exp(-evidence) if evidence > 0 else 1.0
