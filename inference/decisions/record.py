"""What was decided about a request, as data: the one form of it in events, headers and pages."""

from collections.abc import Sequence
from typing import Any, Protocol

from inference.contract.values import frozen
from inference.decisions.arms import assignments_record
from inference.decisions.facts import facts_record
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.routing.base import Choice

_MILLION = 1e6


class Attempted(Protocol):
    """One attempt: where it was sent, why there, and how it failed if it did.

    `inflight` is what the worker had under way before it. Those `set_aside` were passed over. A
    hedge was sent beside the one before it.
    """

    @property
    def planned(self) -> PlannedTarget: ...

    @property
    def worker_id(self) -> str: ...

    @property
    def inflight(self) -> int: ...

    @property
    def choice(self) -> Choice[Any]: ...

    @property
    def is_trial(self) -> bool: ...

    @property
    def set_aside(self) -> Sequence[str]: ...

    @property
    def error_code(self) -> str | None: ...

    @property
    def is_hedge(self) -> bool: ...


@frozen
class Step:
    """An attempt as a value."""

    planned: PlannedTarget
    worker_id: str
    inflight: int
    choice: Choice[Any]
    is_trial: bool = False
    set_aside: tuple[str, ...] = ()
    error_code: str | None = None
    is_hedge: bool = False


def decision_record(
    plan: Plan, steps: Sequence[Attempted], *, is_out_of_retries: bool = False
) -> dict[str, object]:
    """Plan and attempts as plain JSON; what says nothing is left out."""
    route, planned = plan.route, plan.targets
    record: dict[str, object] = {
        "at": plan.at,
        "route": route.id,
        "strategy": route.strategy,
        "u": plan.u,
        "facts": facts_record(plan.facts),
        "targets": [one.target.id for one in planned],
        "attempts": [_step_record(step) for step in steps],
    }
    if plan.rule_id is not None:
        record["rule"] = plan.rule_id
    if plan.assignments:
        record["experiments"] = assignments_record(plan.assignments)
    if plan.left_out:
        record["left_out"] = {one.target_id: one.reason.value for one in plan.left_out}
    if is_out_of_retries:
        record["out_of_retries"] = True
    return record


def _step_record(step: Attempted) -> dict[str, object]:
    planned, choice = step.planned, step.choice
    score = choice.score
    if score is None:
        record: dict[str, object] = {
            "target": planned.target.id,
            "worker": step.worker_id,
            "inflight": step.inflight,
        }
    else:
        # why this one of several, term by term: waits are never below 0, and told to the
        # millionth, for which `round` takes three times as long
        prefill, requests, kv = score.prefill, score.requests, score.kv
        record = {
            "target": planned.target.id,
            "worker": step.worker_id,
            "inflight": step.inflight,
            "candidates": choice.candidates,
            "u": choice.u,
            "wait": int((prefill + requests + kv) * _MILLION + 0.5) / _MILLION,
            "wait_prefill": int(prefill * _MILLION + 0.5) / _MILLION,
            "wait_requests": int(requests * _MILLION + 0.5) / _MILLION,
            "wait_kv": int(kv * _MILLION + 0.5) / _MILLION if kv else 0.0,
            "least_wait": int(choice.least_wait * _MILLION + 0.5) / _MILLION,
        }
        if choice.is_warm:
            record["warm"] = True
    if planned.fallbacks:
        record["fallbacks"] = planned.fallbacks
    if planned.stands_in:
        record["stands_in"] = True
    if planned.bridge is not None:
        record["bridge"] = planned.bridge.value
    if choice.terms:
        record["terms"] = dict(choice.terms)
    if choice.room.is_panic:
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
