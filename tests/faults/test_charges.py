"""Charges and budgets of a few hundred requests against what the upstreams say they served."""

from contextlib import ExitStack

import pytest

from benchmarks.charges import charge_and_compare

pytestmark = pytest.mark.fault

REQUESTS = 250


def test_charges_are_what_was_served_and_counters_of_budgets_what_the_ledger_has() -> None:
    """The small version of `benchmarks.charges`, in which nobody is killed."""
    with ExitStack() as stack:
        faults, budgets = charge_and_compare(stack, REQUESTS, rate=20, kills=0)
        assert faults == []
        assert len({budget for budget, _ in budgets.purses}) == 8
