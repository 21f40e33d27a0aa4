"""A request that budgets don't refuse: a cheaper model, a wait, a shorter answer."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from inference.contract.kinds import BudgetAction
from inference.decisions.budgets import throttle_words
from inference.decisions.easing import cheaper, shortened
from inference.decisions.plan import Plan
from inference.errors import BudgetExceeded
from inference.gateway.trimming import may_be_trimmed, trimmed
from inference.limits.acting import Eased, Slowed, over
from inference.limits.admissions import Admission

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_TRIES = 4
"""What is left changes while somebody asks for it; after so many times a request is refused."""


async def admitted(exchange: "Exchange", plan: Plan) -> Plan:
    """Take what limits and budgets want of the request, or raise; the plan that it is served by.

    A budget may have it go to a cheaper model, wait, or have its answer shortened.
    """
    admission = exchange.admission
    assert admission is not None
    if admission.acting:
        plan, admission = await _eased(exchange, admission, plan)
    for _ in range(_TRIES - 1):
        try:
            await _take(exchange, admission, plan)
        except BudgetExceeded:
            found = _shorter(exchange, admission, plan)
            if found is None:
                raise
            plan, admission = found
        else:
            return plan
    await _take(exchange, admission, plan)
    return plan


async def _eased(exchange: "Exchange", admission: Admission, plan: Plan) -> tuple[Plan, Admission]:
    """The plan that budgets which act leave, and the admission that goes with it."""
    limiter = exchange.services.limiter
    acting = await over(limiter.leases, admission.acting, stopwatch=limiter.stopwatch)
    if not acting:
        return plan, admission
    eased = Eased([one for one in acting if one.throttle is not None])
    for purse in acting:
        if purse.budget.action is BudgetAction.CHEAPER:
            left = cheaper(plan, purse.budget.cheaper_model_id)
            if left is not plan:
                eased.cheaper.append(purse.budget.id)
                plan = left
    if eased.cheaper:
        admission = _planned_anew(exchange, plan)
        limiter.metrics.eased("cheaper")
    admission.eased = eased
    return plan, admission


async def _take(exchange: "Exchange", admission: Admission, plan: Plan) -> None:
    """Take what is wanted, as soon as budgets that let in fewer let it in."""
    stopwatch = exchange.services.stopwatch
    until_s = stopwatch() + plan.route.max_queue_wait_ms / 1000
    while True:
        try:
            await admission.take()
        except Slowed as slowed:
            budget, eased = slowed.purse.budget, admission.eased
            if eased is not None and budget.id not in eased.throttled:
                eased.throttled.append(budget.id)
                exchange.services.limiter.metrics.eased("throttled")
            if stopwatch() + slowed.wait_s > until_s:
                raise admission.refuse_by(
                    budget,
                    BudgetExceeded(throttle_words(budget), retry_after_s=slowed.retry_after_s),
                ) from slowed
            await asyncio.sleep(slowed.wait_s)
        else:
            return


def _shorter(
    exchange: "Exchange", admission: Admission, plan: Plan
) -> tuple[Plan, Admission] | None:
    """The same with answers that what is left buys; None if budgets don't want that, or can't."""
    request, lowers = exchange.request, admission.lowers
    if lowers is None:
        return None
    left = shortened(plan, lowers.left_nanousd)
    if request is None or left is None or not may_be_trimmed(request):
        exchange.services.limiter.metrics.over_budget()
        return None
    most = left.output_tokens_max // left.facts.answers
    shorter = trimmed(request, endpoint=exchange.endpoint, most=most)
    if shorter is request:
        exchange.services.limiter.metrics.over_budget()
        return None
    exchange.request = shorter
    eased = admission.eased or Eased()
    if not eased.lowered:
        exchange.services.limiter.metrics.eased("lowered")
    ids = dict.fromkeys((*eased.lowered, *lowers.budget_ids))
    admission = _planned_anew(exchange, left)
    admission.eased = replace(eased, lowered=list(ids), lowered_to=most)
    return left, admission


def _planned_anew(exchange: "Exchange", plan: Plan) -> Admission:
    exchange.plan = plan
    admission = exchange.limit(plan)
    assert admission is not None
    return admission
