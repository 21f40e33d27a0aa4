"""Chance by weight from one number: where it fell inside what was drawn is a fresh one again."""

from collections.abc import Iterable, Sequence

from inference.contract.snapshot import TargetRecord


def order_targets(targets: Iterable[TargetRecord], *, u: float) -> tuple[TargetRecord, ...]:
    """Lower tiers first; inside one, draw without replacement by the weights that are left.

    A target comes first in its tier as often as its weight says, and so on down the list; those of
    weight 0 are left out.
    """
    left = [target for target in targets if target.weight > 0]
    drawn: list[TargetRecord] = []
    while left:
        left, later = _lowest_tier(left)
        while len(left) > 1:
            index, u = draw([target.weight for target in left], u)
            drawn.append(left.pop(index))
        drawn += left
        left = later
    return tuple(drawn)


def draw(weights: Sequence[int], u: float) -> tuple[int, float]:
    """The index drawn by `u` in proportion to weights above 0, and a fresh number in [0, 1)."""
    point = u * sum(weights)
    for index, weight in enumerate(weights):
        if point < weight:
            return index, point / weight
        point -= weight
    return len(weights) - 1, 0.0  # u so close to 1 that rounding ate the last share


def draw_evenly(count: int, u: float) -> tuple[int, float]:
    """One of `count` indexes, and a fresh number in [0, 1)."""
    point = u * count
    index = min(int(point), count - 1)
    return index, min(max(point - index, 0.0), 1 - 2**-53)


def _lowest_tier(
    targets: list[TargetRecord],
) -> tuple[list[TargetRecord], list[TargetRecord]]:
    """Those of the lowest tier, and the others; mostly there are none."""
    tier = targets[0].tier
    for target in targets:
        if target.tier != tier:
            break
    else:
        return targets, []
    lowest = min([target.tier for target in targets])
    return (
        [target for target in targets if target.tier == lowest],
        [target for target in targets if target.tier != lowest],
    )
