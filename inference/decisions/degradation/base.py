"""What every step of degradation is given and promises."""

from collections.abc import Callable
from dataclasses import dataclass

from inference.contract.kinds import DegradationStep
from inference.decisions.plan import Plan


@dataclass(frozen=True, slots=True)
class Serving:
    """How a request is going to be served.

    `output_tokens_limit` is the most of each of its answers, None is as it asked. One that
    `is_shed` is not served. `changed_by` are the steps that made a difference, in their order.
    """

    plan: Plan
    output_tokens_limit: int | None = None
    is_shed: bool = False
    changed_by: tuple[DegradationStep, ...] = ()


Step = Callable[[Serving], Serving]
"""Serve less well; a request that the step doesn't concern comes back as the very same value."""
