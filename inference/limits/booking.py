"""What one request spent, counted on its budgets."""

from collections.abc import Sequence

from inference.limits.leases import Leases
from inference.limits.purses import Purse
from inference.limits.slices import Permit


def book(
    leases: Leases,
    permits: Sequence[Permit],
    purses: Sequence[Purse],
    units: dict[int, int],
    *,
    first: int,
    cost_nanousd: int,
    reserved_nanousd: int,
) -> bool:
    """Settle with a cost: out of what was reserved first, then out of what was reserved later.

    What nobody reserved is counted all the same. `units` are those of limits, `first` the place of
    the first budget among the claims. True if the store must hear of it.
    """
    permit, *more = permits
    left = min(cost_nanousd, reserved_nanousd) if more else cost_nanousd
    for place, purse in enumerate(purses, first):
        units[place] = left if purse.blocks else cost_nanousd
    is_owed = leases.settle(permit, units)
    for number, one in enumerate(more, 1):
        rest = cost_nanousd - left
        part = rest if number == len(more) else min(rest, one.claims[0].take)
        if leases.settle(one, dict.fromkeys(range(len(one.claims)), part)):
            is_owed = True
        left += part
    return is_owed
