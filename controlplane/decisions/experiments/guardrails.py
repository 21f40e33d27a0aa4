"""Whether a guardrail was broken, is sure to hold, or can't be told yet.

Both sides are tested one-sided and valid at any look, whatever framework the experiment has: a
guardrail stops for harm by itself, before any horizon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.decisions.experiments.contrasts import Contrast
from controlplane.decisions.experiments.design import Better, Metric
from controlplane.decisions.experiments.looks import AnyTime


class GuardrailState(StrEnum):
    """How a guardrail stands."""

    HARMED = "harmed"
    """Worse than its margin allows, surely."""
    SAFE = "safe"
    """Not worse than its margin allows, surely."""
    OPEN = "open"
    """Neither is sure."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guardrail's state with the p-values of both sides; None where there is too little to say.

    `p_harm` is against "not worse than the margin allows", `p_safe` against "worse".
    """

    state: GuardrailState
    p_harm: float | None
    p_safe: float | None


UNKNOWN = Guarded(GuardrailState.OPEN, None, None)


def guard(
    metric: Metric, contrast: Contrast, *, looks: AnyTime, units: int, alphas: Sequence[float]
) -> Guarded:
    """Compare with the margin. `alphas` are those of harm and of safety.

    That for harm is shared between all guardrails and variants, since any one stops; that for
    safety is not, since all must be safe. Without a margin nothing can be shown safe.
    """
    above = _score_beyond_margin(metric, contrast)
    if above is None or units == 0:
        return UNKNOWN
    p_harm, p_safe = looks.p_above(above, units), looks.p_above(-above, units)
    for_harm, for_safety = alphas
    if p_harm <= for_harm:
        return Guarded(GuardrailState.HARMED, p_harm, p_safe)
    is_safe = metric.margin > 0.0 and p_safe <= for_safety
    return Guarded(GuardrailState.SAFE if is_safe else GuardrailState.OPEN, p_harm, p_safe)


def _score_beyond_margin(metric: Metric, contrast: Contrast) -> float | None:
    """How many standard errors the treatment is worse than the margin allows."""
    sign = 1.0 if metric.better is Better.LOWER else -1.0
    control = contrast.control.value
    if control is None:
        return None
    if metric.is_margin_absolute:
        score = contrast.score(offset=sign * metric.margin)
    else:
        # of a negative level, worse by a share is still worse
        toward = sign if control >= 0.0 else -sign
        score = contrast.score(factor=1.0 + toward * metric.margin)
    return None if score is None else sign * score
