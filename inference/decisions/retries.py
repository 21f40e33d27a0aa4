"""How many further attempts a route may make: a share of its requests, so that no outage doubles.

Without a budget every request of an outage is sent as often as the route allows, just when the
workers that are left have least room for it.
"""

WINDOW_S = 10
"""Requests and retries older than this no longer count."""

FREE_RETRIES = 10
"""So many in the window are always allowed: a share of few requests would be none."""


REPEAT_MIN_S, REPEAT_MAX_S = 0.05, 0.2
"""A worker that is asked again after it failed has this long to recover."""


def pause_s(u: float) -> float:
    """How long to wait before a worker is asked again what it just failed to answer.

    There is one such repeat a request, so nothing grows; `u` in [0, 1) keeps callers that failed
    together from coming back together.
    """
    return REPEAT_MIN_S + (REPEAT_MAX_S - REPEAT_MIN_S) * u


def may_retry(*, requests: int, retries: int, budget_percent: int) -> bool:
    """Whether one more retry fits, after so many requests and retries in the window."""
    return retries < FREE_RETRIES + requests * budget_percent / 100
