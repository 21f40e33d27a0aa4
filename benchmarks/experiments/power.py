"""How often an effect is found, after how many units, and what knowing the past saves of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks.experiments.false_positives import ALPHA, is_seen
from benchmarks.experiments.worlds import UNITS_A_LOOK, World
from controlplane.decisions.experiments.contrasts import Contrast
from controlplane.decisions.experiments.design import MINIMUM_UNITS
from controlplane.decisions.experiments.looks import FixedHorizon, Looks, tuned
from controlplane.decisions.experiments.planning import Baseline, plan

POWER = 0.8


@dataclass(frozen=True)
class Sizes:
    """Planned units of both frameworks for one effect."""

    fixed: int
    sequential: int


@dataclass(frozen=True)
class Found:
    """Shares of experiments in which an effect was found, and units until then.

    `units` counts an experiment that found nothing with all of its units.
    """

    fixed: float
    sequential: float
    units: float
    reduction: float


def sizes(baseline: Baseline, effect: float) -> Sizes:
    """What the wizard would plan, in whole looks."""
    found = []
    for looks in (Looks.FIXED, Looks.SEQUENTIAL):
        planned = plan(baseline, (1, 1), effect=effect, alpha=ALPHA, power=POWER, looks=looks)
        found.append(-(-(planned.units or 0) // UNITS_A_LOOK) * UNITS_A_LOOK)
    return Sizes(*found)


def run(world: World, planned: Sizes, effect: float, simulations: int, seed: int) -> Found:
    """Look after every hundred units until an effect is found; once, at its size, if fixed."""
    chance = np.random.default_rng(seed)
    sequence, fixed = tuned(planned.sequential, ALPHA), FixedHorizon()
    at_once = found = 0
    units, reductions = [], []
    for _ in range(simulations):
        until = None
        for looked in world(chance, planned.sequential // UNITS_A_LOOK, effect):
            contrast = Contrast(looked.control, looked.treatment)
            if looked.units == planned.fixed:
                at_once += is_seen(contrast, fixed, looked.units)
                reductions.append(looked.control.reduction or 0.0)
            is_enough = looked.units >= 2 * MINIMUM_UNITS
            if until is None and is_enough and is_seen(contrast, sequence, looked.units):
                until = looked.units
            if until is not None and looked.units >= planned.fixed:
                break
        found += until is not None
        units.append(planned.sequential if until is None else until)
    return Found(at_once / simulations, found / simulations, fmean(units), fmean(reductions))


def curve(
    world: World, baseline: Baseline, planned_for: float, effects: Iterable[float], simulations: int
) -> tuple[Sizes, list[tuple[float, Found]]]:
    """The power over effects, of an experiment that was planned for one of them."""
    planned = sizes(baseline, planned_for)
    return planned, [
        (effect, run(world, planned, effect, simulations, seed))
        for seed, effect in enumerate(effects)
    ]
