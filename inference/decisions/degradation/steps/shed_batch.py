"""Requests of the class `batch` are refused."""

from dataclasses import replace

from inference.contract.kinds import PriorityClass
from inference.decisions.degradation.base import Serving


def shed(serving: Serving) -> Serving:
    """Refuse it if it can wait."""
    if serving.plan.standing.priority is not PriorityClass.BATCH:
        return serving
    return replace(serving, is_shed=True)
