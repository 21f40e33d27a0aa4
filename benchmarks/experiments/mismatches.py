"""How soon units that come otherwise than planned are noticed, and how often that is an error.

The decision is asked for the smallest imbalance that it stops at each size; then tens of thousands
of experiments are compared with that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.sample_ratio import sample_ratio


@dataclass(frozen=True)
class Caught:
    """Shares of experiments stopped by each size, looked at all the time."""

    any_time: tuple[float, ...]
    chi_squared: tuple[float, ...]
    chi_squared_at_the_end: float


def run(share: float, step: int, sizes: Sequence[int], simulations: int, seed: int) -> Caught:
    """Half and half was planned, `share` comes to the control; a look after every `step` units."""
    looks = sizes[-1] // step
    bounds = {framework: _bounds(framework, step, looks) for framework in Looks}
    chance = np.random.default_rng(seed)
    ever = {framework: np.zeros(len(sizes)) for framework in Looks}
    ended = 0
    for _ in range(simulations):
        control = chance.binomial(step, share, looks).cumsum()
        excess = np.abs(2 * control - step * np.arange(1, looks + 1))
        for framework in Looks:
            stopped = excess >= bounds[framework]
            if stopped.any():
                first = step * (int(stopped.argmax()) + 1)
                ever[framework] += [first <= size for size in sizes]
        ended += bool(excess[-1] >= bounds[Looks.FIXED][-1])
    told = {framework: tuple((ever[framework] / simulations).tolist()) for framework in Looks}
    return Caught(told[Looks.SEQUENTIAL], told[Looks.FIXED], ended / simulations)


def _bounds(framework: Looks, step: int, looks: int) -> np.ndarray:
    """The smallest difference between both arms that is stopped, at each look."""
    found, least = [], 0
    for look in range(1, looks + 1):
        units = look * step
        least = max(least - step, 0)
        # of one parity: units of two arms differ by an even number if they are even together
        least += (least - units) % 2
        while least <= units and not _is_stopped(framework, units, least):
            least += 2
        found.append(least)
    return np.array(found)


def _is_stopped(framework: Looks, units: int, excess: int) -> bool:
    control = (units + excess) // 2
    return sample_ratio([control, units - control], [1, 1], framework).is_mismatched
