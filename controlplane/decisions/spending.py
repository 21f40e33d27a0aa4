"""Whether an hour's spending is unusual: by the same hour of days before, robustly.

The middle of the days and the middle of their distances from it (MAD) are what one wild day can't
move; the distance is scaled so that for a bell curve it is its standard deviation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from inference.decisions.budgets import dollars

DAYS = 14
LEAST_DAYS = 5
"""Of fewer days nobody knows what is usual."""

_BELL = 1.4826
_LEAST_SHARE = 0.1
_LEAST_NANOUSD = 10_000_000
"""A spread is a tenth of what is usual, and a cent, at least: days that were all alike, or free,
make no alert of the next cent."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One hour beside the same hour of `days` days: in nano-USD, and how far off in deviations."""

    spent_nanousd: int
    usual_nanousd: int
    spread_nanousd: int
    days: int

    @property
    def deviations(self) -> float:
        """Never below 0: who spends less than usual is no alert."""
        return max(0.0, (self.spent_nanousd - self.usual_nanousd) / self.spread_nanousd)

    @property
    def words(self) -> str:
        return (
            f"{about(self.spent_nanousd)} in the last hour; in the same hour of the last"
            f" {self.days} days {about(self.usual_nanousd)} (median), give or take"
            f" {about(self.spread_nanousd)} (robust deviation)."
        )


def about(nanousd: int) -> str:
    """Money as sentences tell it, to the cent: `$2.03`; less than a cent exactly."""
    is_less = nanousd < _LEAST_NANOUSD
    return dollars(nanousd if is_less else round(nanousd / _LEAST_NANOUSD) * _LEAST_NANOUSD)


def compare(spent_nanousd: int, before: Sequence[int]) -> Compared | None:
    """Compare an hour with the same hour of days before; None if they are too few."""
    if len(before) < LEAST_DAYS:
        return None
    usual = median(before)
    distance = _BELL * median(abs(one - usual) for one in before)
    spread = max(distance, usual * _LEAST_SHARE, _LEAST_NANOUSD)
    return Compared(spent_nanousd, round(usual), round(spread), len(before))
