"""Requests that are not of the class `interactive` are refused."""

from dataclasses import replace

from inference.contract.kinds import PriorityClass
from inference.decisions.degradation.base import Serving


def shed(serving: Serving) -> Serving:
    """Refuse it unless somebody sits before it."""
    if serving.plan.standing.priority is PriorityClass.INTERACTIVE:
        return serving
    return replace(serving, is_shed=True)
