"""Where accounts that roll are going, by exact steps."""

from controlplane.decisions.budget_forecasts import forecast_rolling, horizon_s
from inference.contract.kinds import BudgetPeriod
from inference.decisions.budgets import ROLLING

DAY = ROLLING[BudgetPeriod.DAY]
STEP = DAY.step_s
NOW = 100 * 86_400 + 900
WINDOW = DAY.window(NOW)
AHEAD = 12


def buckets(*sums: int, first: int = 0) -> list[tuple[int, int]]:
    """What was spent in steps of the window, from its `first` on."""
    return [(WINDOW.starts_s + (first + place) * STEP, spent) for place, spent in enumerate(sums)]


def test_what_is_spent_evenly_stays_and_what_leaves_is_made_up_for() -> None:
    assert horizon_s(DAY) == 6 * 3_600
    even = forecast_rolling(DAY, buckets(*[10] * 48), amount_nanousd=1_000, now_s=NOW)
    assert even is not None
    assert (even.at_end_nanousd, even.reached_at_s) == (480, None)
    assert (even.low_nanousd, even.high_nanousd) == (480, 480)


def test_an_old_burst_leaves_and_a_new_pace_comes() -> None:
    burst = [100] * AHEAD + [0] * 24 + [5] * AHEAD
    found = forecast_rolling(DAY, buckets(*burst), amount_nanousd=10_000, now_s=NOW)
    assert found is not None
    assert found.at_end_nanousd == 2 * 5 * AHEAD
    rising = [0] * 36 + [50] * AHEAD
    found = forecast_rolling(DAY, buckets(*rising), amount_nanousd=700, now_s=NOW)
    assert found is not None
    assert found.at_end_nanousd == 1_200
    # 600 count now, and two steps of 50 are missing
    assert found.reached_at_s == NOW + 2 * STEP


def test_what_differs_has_an_interval_that_never_is_below_what_is_sure_to_count() -> None:
    uneven = [0] * 36 + [100, 0] * 6
    found = forecast_rolling(DAY, buckets(*uneven), amount_nanousd=10**6, now_s=NOW)
    assert found is not None
    assert found.low_nanousd is not None
    assert found.high_nanousd is not None
    assert 600 <= found.low_nanousd < found.at_end_nanousd == 1_200 < found.high_nanousd


def test_of_a_few_steps_and_of_none_nothing_is_foretold() -> None:
    assert forecast_rolling(DAY, [], amount_nanousd=1, now_s=NOW) is None
    few = buckets(9, 9, 9, first=45)
    assert forecast_rolling(DAY, few, amount_nanousd=100, now_s=NOW) is None
    young = forecast_rolling(DAY, buckets(9, 9, 9, 9, first=44), amount_nanousd=100, now_s=NOW)
    assert young is not None
    assert young.at_end_nanousd == 36 + 9 * AHEAD
