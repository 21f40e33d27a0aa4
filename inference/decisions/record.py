"""What was decided about a request, as data: the one form of it in events, headers and pages."""

from collections.abc import Sequence
from typing import Any

from inference.contract.values import frozen
from inference.decisions.facts import facts_record
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.routing.base import Choice, Score

_DIGITS = 6


@frozen
class Step:
    """One attempt: where it was sent, why there, and how it failed if it did.

    `inflight` is what the worker had under way before it. Those `set_aside` were passed over. A
    hedge was sent beside the one before it.
    """

    planned: PlannedTarget
    worker_id: str
    inflight: int
    choice: Choice[Any]
    is_trial: bool = False
    set_aside: tuple[str, ...] = ()
    error_code: str | None = None
    is_hedge: bool = False


def decision_record(
    plan: Plan, steps: Sequence[Step], *, is_out_of_retries: bool = False
) -> dict[str, object]:
    """Plan and attempts as plain JSON; what says nothing is left out."""
    record: dict[str, object] = {
        "at": plan.at,
        "route": plan.route.id,
        "strategy": plan.route.strategy.value,
        "u": plan.u,
        "facts": facts_record(plan.facts),
        "targets": [planned.target.id for planned in plan.targets],
        "attempts": [_step_record(step) for step in steps],
    }
    if plan.rule_id is not None:
        record["rule"] = plan.rule_id
    if plan.left_out:
        record["left_out"] = {one.target_id: one.reason.value for one in plan.left_out}
    if is_out_of_retries:
        record["out_of_retries"] = True
    return record


def _step_record(step: Step) -> dict[str, object]:
    record: dict[str, object] = {
        "target": step.planned.target.id,
        "worker": step.worker_id,
        "inflight": step.inflight,
    }
    if step.planned.fallbacks:
        record["fallbacks"] = step.planned.fallbacks
    if step.planned.bridge is not None:
        record["bridge"] = step.planned.bridge.value
    if step.choice.score is not None:
        record |= _choice_record(step.choice, step.choice.score)
    if step.choice.terms:
        record["terms"] = dict(step.choice.terms)
    if step.choice.room.is_panic:
        record["panic"] = True
    if step.is_trial:
        record["trial"] = True
    if step.is_hedge:
        record["hedge"] = True
    if step.set_aside:
        record["set_aside"] = list(step.set_aside)
    if step.error_code is not None:
        record["error"] = step.error_code
    return record


def _choice_record(choice: Choice[Any], score: Score) -> dict[str, object]:
    """Why this one of several, term by term."""
    record: dict[str, object] = {
        "candidates": choice.candidates,
        "u": choice.u,
        "wait": round(score.wait, _DIGITS),
        "wait_prefill": round(score.prefill, _DIGITS),
        "wait_requests": round(score.requests, _DIGITS),
        "wait_kv": round(score.kv, _DIGITS),
        "least_wait": round(choice.least_wait, _DIGITS),
    }
    if choice.is_warm:
        record["warm"] = True
    return record
