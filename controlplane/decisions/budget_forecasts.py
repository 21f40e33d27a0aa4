"""Where an account that rolls is going: what leaves is known, what comes is as it was of late."""

import math
from collections.abc import Sequence

from controlplane.decisions.alert_kinds import seconds_words
from controlplane.decisions.budgets import FEWEST_STRETCHES, Z80, Bucket, Forecast
from inference.decisions.budgets import Rolling

_DAY_S = 86_400

SHARE = 4
"""A forecast looks a quarter of the window ahead, and goes by the newest quarter."""


def horizon_s(rolling: Rolling) -> int:
    """How far ahead a forecast looks: whole steps."""
    return _steps(rolling) * rolling.step_s


def ahead_words(rolling: Rolling) -> str:
    """How far ahead, for people: `6 h`, `7.5 days`."""
    length_s = horizon_s(rolling)
    return f"{length_s / _DAY_S:g} days" if length_s > _DAY_S else seconds_words(length_s)


def _steps(rolling: Rolling) -> int:
    return rolling.steps // SHARE


def forecast_rolling(
    rolling: Rolling, buckets: Sequence[Bucket], *, amount_nanousd: int, now_s: float
) -> Forecast | None:
    """What will count a quarter of the window from now; None of an account of a few steps.

    By then the oldest steps have left; each that comes is taken for the mean of the newest ones.
    The interval holds four fifths of the outcomes if these differ as they did. `reached_at_s` is
    when the amount is first met on the way, None if it isn't.
    """
    window, ahead = rolling.window(now_s), _steps(rolling)
    sums = [0] * (rolling.steps + 1)
    for at, spent in buckets:
        place = (at - window.starts_s) // rolling.step_s
        if 0 <= place < len(sums):
            sums[place] += spent
    # the step that is on isn't whole
    first = min((place for place, spent in enumerate(sums) if spent), default=rolling.steps)
    newest = sums[max(first, rolling.steps - ahead) : rolling.steps]
    if len(newest) < FEWEST_STRETCHES:
        return None
    mean = sum(newest) / len(newest)
    variance = sum((one - mean) ** 2 for one in newest) / (len(newest) - 1)
    within = Z80 * math.sqrt(variance * (ahead + ahead * ahead / len(newest)))
    course = [sum(sums[step:]) + mean * step for step in range(ahead + 1)]
    met = (step for step, value in enumerate(course) if value >= amount_nanousd and value)
    step = next(met, None)
    return Forecast(
        at_end_nanousd=round(course[-1]),
        low_nanousd=max(round(course[-1] - within), sum(sums[ahead:])),
        high_nanousd=round(course[-1] + within),
        reached_at_s=None if step is None else math.ceil(now_s + step * rolling.step_s),
    )
