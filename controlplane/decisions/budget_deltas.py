"""What the counters of budgets in the state store must be told, by what ledger and store say."""

from collections.abc import Mapping


def missed(told: Mapping[str, int], settled: Mapping[str, int]) -> Mapping[str, int]:
    """Spending the store lacks for certain: the ledger had more before the store was asked."""
    return {
        key: amount - settled.get(key, 0)
        for key, amount in told.items()
        if amount > settled.get(key, 0)
    }


def twice(settled: Mapping[str, int], told: Mapping[str, int]) -> Mapping[str, int]:
    """What the store counts for certain more than once: less than nothing, by counter.

    The ledger has meanwhile all that had ended when the store was asked, and later ends as well.
    """
    return {
        key: told[key] - amount
        for key, amount in settled.items()
        if key in told and amount > told[key]
    }


def seeding(settled: Mapping[str, int], told: Mapping[str, int]) -> Mapping[str, int]:
    """What makes counters that know of living processes alone know of the ledger too.

    A little too much where there was traffic meanwhile, which later comparisons take back.
    """
    return {
        key: amount - settled.get(key, 0)
        for key, amount in told.items()
        if amount != settled.get(key, 0)
    }
