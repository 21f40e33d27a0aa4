"""Answers of the class `batch` are kept short: long ones hold a slot for minutes."""

from dataclasses import replace

from inference.contract.kinds import PriorityClass
from inference.decisions.degradation.base import Serving

TRIMMED_OUTPUT_TOKENS = 512
"""Most answers are shorter anyway; of the rest the tail is what costs."""


def trim(serving: Serving) -> Serving:
    """Lower the maximum of each answer, and with it the bound of the whole."""
    plan = serving.plan
    facts = plan.facts
    if plan.standing.priority is not PriorityClass.BATCH or not facts.answers:
        return serving
    requested = facts.output_tokens_requested
    if requested is not None and requested <= TRIMMED_OUTPUT_TOKENS:
        return serving
    most = min(plan.output_tokens_max, TRIMMED_OUTPUT_TOKENS * facts.answers)
    return replace(
        serving,
        plan=replace(plan, output_tokens_max=most),
        output_tokens_limit=TRIMMED_OUTPUT_TOKENS,
    )
