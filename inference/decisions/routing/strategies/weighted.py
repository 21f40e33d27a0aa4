"""Weighted chance: a target comes first as often as its weight says, and so on down the list."""

from collections.abc import Sequence

from inference.contract.snapshot import TargetRecord


def order_targets(targets: Sequence[TargetRecord], *, u: float) -> tuple[TargetRecord, ...]:
    """Draw without replacement, each draw in proportion to the weights that are left.

    One `u` does for all draws: where it fell inside the drawn target's share is uniform again.
    """
    left = [target for target in targets if target.weight > 0]
    drawn: list[TargetRecord] = []
    while left:
        index, u = _draw(left, u)
        drawn.append(left.pop(index))
    return tuple(drawn)


def _draw(targets: Sequence[TargetRecord], u: float) -> tuple[int, float]:
    """The index drawn by `u`, and what is left of `u` as a fresh number in [0, 1)."""
    point = u * sum(target.weight for target in targets)
    for index, target in enumerate(targets):
        if point < target.weight:
            return index, point / target.weight
        point -= target.weight
    return len(targets) - 1, 0.0  # u so close to 1 that rounding ate the last share
