"""How often an experiment without any difference is said to have one, however often one looks."""

from dataclasses import dataclass
from math import inf

import numpy as np

from benchmarks.experiments.worlds import (
    World,
    clustered_quantile,
    clustered_rate,
    mean,
    past,
    quantile,
    rate,
    ratio,
    returning,
)
from controlplane.decisions.experiments.contrasts import Contrast
from controlplane.decisions.experiments.design import MINIMUM_UNITS, USUAL_PLAN
from controlplane.decisions.experiments.looks import FixedHorizon, Framework, tuned

ALPHA = 0.05
LOOKS = 100

WORLDS: dict[str, World] = {
    "mean: cost of a request": mean,
    "mean: cost of a user, CUPED": past(0.6),
    "rate of 0.5 %": rate(0.005),
    "rate of 5 %": rate(0.05),
    "rate of 40 %": rate(0.4),
    "rate by request, users": clustered_rate,
    "ratio: cost by request, users": ratio,
    "quantile p50": quantile(0.5),
    "quantile p95": quantile(0.95),
    "quantile p95, users": clustered_quantile(0.95),
    "ratio, users who go on": returning,
}


@dataclass(frozen=True)
class Share:
    """Of how many experiments a difference was ever seen, and at the last look."""

    sequential: float
    peeking: float
    at_the_end: float


def run(world: World, simulations: int, seed: int) -> Share:
    """Look at experiments after every hundred units, from the least number of units on."""
    chance = np.random.default_rng(seed)
    sequence, fixed = tuned(USUAL_PLAN, ALPHA), FixedHorizon()
    ever = peeked = ended = 0
    for _ in range(simulations):
        is_ever = is_peeked = is_last = False
        for number, looked in enumerate(world(chance, LOOKS, 0.0), start=1):
            if looked.units < 2 * MINIMUM_UNITS:
                continue
            contrast = Contrast(looked.control, looked.treatment)
            is_ever = is_ever or is_seen(contrast, sequence, looked.units)
            if not is_peeked or number == LOOKS:
                is_last = is_seen(contrast, fixed, looked.units)
                is_peeked = is_peeked or is_last
        ever, peeked, ended = ever + is_ever, peeked + is_peeked, ended + is_last
    return Share(ever / simulations, peeked / simulations, ended / simulations)


def is_seen(contrast: Contrast, framework: Framework, units: int) -> bool:
    """Whether a difference is said to be there: by the p-value of means, by the interval else.

    Both say the same; of means the p-value is the quicker to have, of quantiles the interval.
    """
    if contrast.degrees < inf:
        score = contrast.score()
        return score is not None and framework.p_value(score, units, contrast.degrees) <= ALPHA
    wide = framework.multiplier(ALPHA, units)
    return contrast.absolute_bounds(wide).excludes(0.0)
