"""Which days of spending are out of the ordinary, by the days before them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median

FEWEST_ALIKE = 4
"""So many of the same day of the week tell what is usual for it."""

FEWEST_DAYS = 7
"""So many days before, whatever day of the week, tell it where those are too few."""

LOOKED_BACK = timedelta(weeks=8)

_RECENT = timedelta(weeks=4)
_DEVIATIONS = 4.0
_NORMAL = 1.4826
"""Times the median deviation, a normal distribution's standard deviation."""
_LEAST_SHARE = 0.3
"""What differs by less than this share of the usual is no news, however even the days were."""

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Usual:
    """What a day costs by the days before it, and from where on it is out of the ordinary."""

    nanousd: int
    low_nanousd: int
    high_nanousd: int


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A day out of the ordinary. Higher or lower is told by the usual beside it."""

    day: date
    nanousd: int
    usual: Usual


def find_anomalies(
    spent: Mapping[date, int], since: date, until: date, *, filling: date | None = None
) -> Sequence[Anomaly]:
    """The days of [since, until) that are out of the ordinary.

    `spent` has what was booked a day, from LOOKED_BACK before `since` on if there was anything; a
    day without an entry after the first one cost nothing. The day that is still `filling` can only
    be too dear.
    """
    first = min(spent, default=until)
    found = []
    for place in range((until - since).days):
        day = since + place * _DAY
        usual = _usual_of(spent, first, day)
        if usual is None or (filling is not None and day > filling):
            continue
        nanousd = spent.get(day, 0)
        is_low = nanousd < usual.low_nanousd and day != filling
        if nanousd > usual.high_nanousd or is_low:
            found.append(Anomaly(day, nanousd, usual))
    return found


def _usual_of(spent: Mapping[date, int], first: date, day: date) -> Usual | None:
    alike = _before(spent, first, day, LOOKED_BACK, step=7)
    known = alike if len(alike) >= FEWEST_ALIKE else _before(spent, first, day, _RECENT, step=1)
    if len(known) < FEWEST_ALIKE or (known is not alike and len(known) < FEWEST_DAYS):
        return None
    middle = median(known)
    deviation = _NORMAL * median(abs(one - middle) for one in known)
    within = max(_DEVIATIONS * deviation, _LEAST_SHARE * middle)
    return Usual(round(middle), max(round(middle - within), 0), round(middle + within))


def _before(
    spent: Mapping[date, int], first: date, day: date, back: timedelta, *, step: int
) -> list[int]:
    days = (day - place * step * _DAY for place in range(1, back.days // step + 1))
    return [spent.get(one, 0) for one in days if one >= first]
