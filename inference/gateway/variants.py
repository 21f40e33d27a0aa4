"""A request as the variant it is served by has it, and what is told of its part in experiments."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from inference.contract.events import Exposure
from inference.contract.kinds import Outcome
from inference.contract.params import ANSWER_BOUNDS
from inference.contract.values import changed
from inference.decisions.arms import exposures_of, parameters_of, prompt_of
from inference.decisions.plan import Plan, PlannedTarget
from inference.gateway.headers import Headers
from inference.gateway.prompts import with_prompt
from inference.gateway.schemas import InferenceRequest
from inference.gateway.trimming import may_be_trimmed, trimmed

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange


def varied(
    exchange: "Exchange", plan: Plan, request: InferenceRequest, *, is_stood_in: bool
) -> InferenceRequest:
    """The request with what its variants set: prompt and members; or the control that stands in.

    Bounds of an answer are set in the words of its endpoint, and only ever lower what the caller
    and the route allow: limits and budgets have counted on that.
    """
    version_id = prompt_of(plan.assignments, is_stood_in=is_stood_in)
    if version_id is not None and exchange.snapshot is not None:
        request = with_prompt(exchange.snapshot, request, version_id)
    given = parameters_of(plan.assignments, is_stood_in=is_stood_in)
    if not given:
        return request
    set_to = {
        name: msgspec.Raw(text.encode())
        for name, text in given.items()
        if name not in ANSWER_BOUNDS
    }
    if set_to:
        request = changed(request, members={**request.members, **set_to})
    bounds = [int(text) for name, text in given.items() if name in ANSWER_BOUNDS]
    if not bounds or not may_be_trimmed(request):
        return request
    allowed = plan.output_tokens_max // max(plan.facts.answers, 1)
    most = max(min(*bounds, allowed), 1)
    return trimmed(request, endpoint=plan.facts.endpoint, most=most)


def of_one_variant(plan: Plan, asked: PlannedTarget) -> Plan:
    """The plan with targets of whoever is asked already: a control that helped a slow variant would
    make it look as quick.
    """
    same = tuple(one for one in plan.targets if one.stands_in is asked.stands_in)
    return replace(plan, targets=same)


def opened(exchange: "Exchange") -> tuple[Exposure, ...]:
    """The exposures of a request that is about to be sent; of one that nobody reads none."""
    if exchange.is_renewal:
        return ()
    return exposures_of(exchange.assignments, is_served=False)


def settled(exchange: "Exchange", outcome: Outcome) -> tuple[Exposure, ...]:
    """The exposures of a request that has ended, which are counted with it.

    It was served if it ended well or its caller had something of the answer: by whoever was asked
    last, or where nobody was asked by a cache, which keeps variants apart.
    """
    if exchange.is_renewal:
        return ()
    is_served = outcome is Outcome.OK or exchange.first_token_ms is not None
    exposures = _exposures(exchange, is_served=is_served)
    counts = exchange.services.metrics.experiments
    for exposure in exposures:
        counts.exposed(exposure)
    for one in exchange.assignments:
        if one.why_not is not None:
            counts.unexposed(one.experiment.id, one.why_not)
    return exposures


def variant_headers(exchange: "Exchange") -> Headers:
    """What keys that may know are told: of each experiment the variant, and by which it is served
    if that is another; or why it has none.
    """
    exposures = {one.experiment_id: one for one in _exposures(exchange, is_served=True)}
    told: list[str] = []
    for one in exchange.assignments:
        exposure = exposures.get(one.experiment.id)
        if exposure is None:
            told.append(f"{one.experiment.id}=none; why={one.why_not}")
        elif exposure.served_variant_id == exposure.variant_id:
            told.append(f"{one.experiment.id}={exposure.variant_id}")
        else:
            served = exposure.served_variant_id
            told.append(f"{one.experiment.id}={exposure.variant_id}; served={served}")
    return ((b"x-headworks-variant", ", ".join(told).encode()),)


def _exposures(exchange: "Exchange", *, is_served: bool) -> tuple[Exposure, ...]:
    attempts: Sequence[object] = exchange.attempts
    is_stood_in = bool(attempts) and exchange.attempts[-1].planned.stands_in
    return exposures_of(exchange.assignments, is_served=is_served, is_stood_in=is_stood_in)
