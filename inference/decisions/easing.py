"""What budgets make of a plan short of refusing it: a cheaper model, or a shorter answer."""

from collections.abc import Sequence

from inference.contract.values import changed
from inference.decisions.cost import cost_at_most
from inference.decisions.plan import Plan, PlannedTarget

LEAST_OUTPUT_TOKENS = 16
"""A shorter answer is none."""


def cheaper(plan: Plan, model_id: str | None) -> Plan:
    """The plan with the targets of this model alone, or else of the one that costs least at most.

    The very same plan if there is nothing cheaper, or nobody knows what its targets cost.
    """
    own = [one for one in plan.targets if one.pool.model_id == model_id]
    if not own:
        known = [one for one in plan.targets if one.cost_max_nanousd is not None]
        if not known:
            return plan
        best = min(known, key=lambda one: one.cost_max_nanousd or 0)
        if best.cost_max_nanousd == plan.cost_max_nanousd:
            return plan
        own = [one for one in plan.targets if one.pool.model_id == best.pool.model_id]
    if len(own) == len(plan.targets):
        return plan
    return changed(plan, targets=tuple(own), cost_max_nanousd=_dearest(own))


def shortened(plan: Plan, left_nanousd: int) -> Plan | None:
    """The plan with answers as long as what is left buys at its dearest target.

    None if that is too short for an answer, or isn't shorter.
    """
    answers = plan.facts.answers
    if not answers or plan.cost_max_nanousd is None:
        return None
    most = plan.output_tokens_max // answers
    low, high = LEAST_OUTPUT_TOKENS, most - 1
    if low > high or _cost(plan, low * answers) > left_nanousd:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if _cost(plan, middle * answers) <= left_nanousd:
            low = middle
        else:
            high = middle - 1
    return with_output(plan, low * answers)


def with_output(plan: Plan, output_tokens_max: int) -> Plan:
    """The plan with this bound of all its answers, and what it costs then at most."""
    targets = [
        changed(
            one,
            cost_max_nanousd=cost_at_most(plan.prompt_tokens_max, output_tokens_max, one.price),
        )
        for one in plan.targets
    ]
    return changed(
        plan,
        targets=tuple(targets),
        output_tokens_max=output_tokens_max,
        cost_max_nanousd=_dearest(targets),
    )


def _cost(plan: Plan, output_tokens: int) -> int:
    """What it costs at most at the dearest target; all of them have a price."""
    costs = [cost_at_most(plan.prompt_tokens_max, output_tokens, one.price) for one in plan.targets]
    return max(one for one in costs if one is not None)


def _dearest(targets: Sequence[PlannedTarget]) -> int | None:
    costs = [one.cost_max_nanousd for one in targets]
    known = [one for one in costs if one is not None]
    return max(known) if len(known) == len(costs) else None
