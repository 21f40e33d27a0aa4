"""An explanation as a document: plain values by the names the API gives them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.decisions.described import Described
from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.budgets import amount_at
from inference.decisions.experiments import Assignment
from inference.decisions.explain import (
    Explanation,
    TargetVerdict,
    WorkerVerdict,
)
from inference.decisions.facts import RequestFacts, facts_record
from inference.decisions.limiting import BudgetVerdict, LimitVerdict
from inference.decisions.mismatches import RuleVerdict
from inference.decisions.plan import Plan, Refusal

NOTES = (
    "Speeds of workers, what prompts they have cached and who said “not now” are known to each "
    "gateway process alone: workers count as of usual speed, willing, with nothing cached.",
    "What is used of limits is known to the gateways: each counts as unused.",
)
_SPENDING = "Of budgets, what is held for requests under way counts as left."
_NO_SPENDING = "What is spent of budgets isn't told here: each counts as unspent."
_DIGITS = 6


def document_of(
    explanation: Explanation,
    *,
    facts: RequestFacts,
    snapshot: ConfigSnapshot,
    described: Described,
    is_load_known: bool,
    is_spending_known: bool,
    is_draft: bool,
    at_s: float,
    now: datetime,
) -> dict[str, Any]:
    """The whole answer."""
    decided = explanation.decided
    plan = decided if isinstance(decided, Plan) else None
    standing, route, cost = explanation.standing, explanation.route, _cost(plan)
    return {
        "as_of": now,
        "at": datetime.fromtimestamp(at_s, UTC),
        "configuration": {
            "lineage": snapshot.lineage,
            "version": snapshot.version,
            "is_draft": is_draft,
        },
        "fleet": _fleet(described, now, is_load_known=is_load_known),
        "facts": facts_record(facts),
        "standing": {
            "tags": list(standing.tags),
            "priority": standing.priority.value,
            "task": standing.task.value,
        },
        "refusal": _refusal(decided) if isinstance(decided, Refusal) else None,
        "route": None
        if route is None
        else {"id": route.id, "name": route.name, "strategy": route.strategy.value},
        "rules": [_rule(one) for one in explanation.rules],
        "rule_id": decided.rule_id,
        "experiments": [_assignment(one) for one in decided.assignments],
        "targets": [
            {
                **_target(one, snapshot, is_load_known=is_load_known),
                "variant_id": _variant_of(one.target.id, decided.assignments),
            }
            for one in explanation.targets
        ],
        "choice": _choice(explanation),
        "waits": explanation.waits,
        "is_shed": explanation.is_shed,
        "degraded": [step.value for step in explanation.degraded],
        "unserved": round(explanation.unserved, _DIGITS),
        "prompt_tokens_max": None if plan is None else plan.prompt_tokens_max,
        "output_tokens_max": None if plan is None else plan.output_tokens_max,
        "cost_max_nanousd": cost,
        **_limits(explanation, at_s),
        "record": None if explanation.record is None else dict(explanation.record),
        "is_spending_known": is_spending_known,
        "notes": [*NOTES, _SPENDING if is_spending_known else _NO_SPENDING],
    }


def _fleet(described: Described, now: datetime, *, is_load_known: bool) -> Mapping[str, Any]:
    told_at_s = described.told_at_s
    return {
        "process": described.process,
        "processes": list(described.processes),
        "age_s": None if told_at_s is None else round(max(now.timestamp() - told_at_s, 0.0), 3),
        "is_load_known": is_load_known,
    }


def _limits(explanation: Explanation, at_s: float) -> Mapping[str, Any]:
    refusing, passed_over = explanation.refused_by, explanation.passed_over
    over_budget = refusing if isinstance(refusing, BudgetVerdict) else None
    at_limit = refusing if isinstance(refusing, LimitVerdict) else None
    return {
        "limits": [_limit(one) for one in explanation.limits],
        "refused_by_limit": None if at_limit is None else at_limit.bearing.limit.id,
        "passed_over_limits": [
            one.bearing.limit.id for one in passed_over if isinstance(one, LimitVerdict)
        ],
        "budgets": [_budget(one, at_s) for one in explanation.budgets],
        "refused_by_budget": None if over_budget is None else over_budget.account.budget.id,
        "passed_over_budgets": [
            one.account.budget.id for one in passed_over if isinstance(one, BudgetVerdict)
        ],
    }


def _budget(verdict: BudgetVerdict, at_s: float) -> Mapping[str, Any]:
    budget, period = verdict.account.budget, verdict.account.period
    return {
        "id": budget.id,
        "name": budget.name,
        "action": budget.action.value,
        "counts_for": list(verdict.account.subjects),
        "period": budget.period.value,
        "is_rolling": budget.is_rolling,
        "ends_at": None
        if budget.is_rolling
        else datetime.fromtimestamp(period.ends_s, UTC).isoformat(),
        "amount_nanousd": str(amount_at(budget, at_s)),
        "left_nanousd": str(verdict.left),
        "reserves_nanousd": None if verdict.stake is None else str(verdict.stake.take),
        "is_short": verdict.is_short,
    }


def _cost(plan: Plan | None) -> str | None:
    return None if plan is None else _money(plan.cost_max_nanousd)


def _money(nanousd: int | None) -> str | None:
    return None if nanousd is None else str(nanousd)


def _refusal(refusal: Refusal) -> Mapping[str, Any]:
    return {
        "code": refusal.code.value,
        "message": refusal.words,
        "switch_id": None if refusal.switch is None else refusal.switch.id,
        "rule_id": refusal.rule_id,
    }


def _rule(verdict: RuleVerdict) -> Mapping[str, Any]:
    return {
        "id": verdict.rule.id,
        "name": verdict.rule.name,
        "state": verdict.state.value,
        "mismatches": [
            {
                "field": one.field,
                "wanted": [str(value) for value in one.wanted],
                "found": [str(value) for value in one.found],
            }
            for one in verdict.mismatches
        ],
    }


def _assignment(one: Assignment) -> Mapping[str, Any]:
    experiment, variant = one.experiment, one.variant
    return {
        "id": experiment.id,
        "name": experiment.name,
        "phase": experiment.phase,
        "unit": experiment.unit.value,
        "unit_id": one.unit_id,
        "place": one.place,
        "draw": one.draw,
        "variant_id": None if variant is None else variant.id,
        "variant": None if variant is None else variant.name,
        "share_bp": None if variant is None else variant.share_bp,
        "parameters": {} if variant is None else dict(variant.parameters),
        "why_not": None if one.why_not is None else one.why_not.value,
        "variants": [
            {"id": each.id, "name": each.name, "share_bp": each.share_bp}
            for each in experiment.variants
        ],
    }


def _variant_of(target_id: str, assignments: Sequence[Assignment]) -> str | None:
    """The variant whose own target it is; None is the route's or a rule's."""
    for one in assignments:
        for variant in one.experiment.variants:
            if any(target.id == target_id for target in variant.targets):
                return variant.id
    return None


def _target(
    verdict: TargetVerdict, snapshot: ConfigSnapshot, *, is_load_known: bool
) -> Mapping[str, Any]:
    pool = snapshot.pools.get(verdict.target.pool_id)
    model = None if pool is None else snapshot.models.get(pool.model_id)
    left_out = verdict.left_out
    switch = None if left_out is None else left_out.switch
    return {
        "id": verdict.target.id,
        "pool_id": verdict.target.pool_id,
        "pool": None if pool is None else pool.name,
        "model_id": None if pool is None else pool.model_id,
        "model": None if model is None else model.name,
        "weight": verdict.target.weight,
        "tier": verdict.target.tier,
        "place": verdict.place,
        "left_out": None if left_out is None else left_out.reason.value,
        "switch_id": None if switch is None else switch.id,
        "stands_in": verdict.stands_in,
        "bridge": None if verdict.bridge is None else verdict.bridge.value,
        "share": round(verdict.share, _DIGITS),
        "cost_max_nanousd": _money(verdict.cost_max_nanousd),
        "max_context_tokens": verdict.max_context_tokens,
        "workers": [_worker(one, is_load_known=is_load_known) for one in verdict.workers],
    }


def _worker(verdict: WorkerVerdict, *, is_load_known: bool) -> Mapping[str, Any]:
    worker, score = verdict.worker, verdict.score
    return {
        "id": worker.id,
        "state": worker.state.value,
        "standby": None if verdict.standby is None else verdict.standby.value,
        "breaker": worker.breaker.state.value,
        "inflight": worker.inflight if is_load_known else None,
        "peers_inflight": worker.peers_inflight if is_load_known else None,
        "slots": worker.slots,
        "concurrency": worker.concurrency,
        "kv_used": worker.kv_used,
        "wait": round(score.wait, _DIGITS),
        "wait_prefill": round(score.prefill, _DIGITS),
        "wait_requests": round(score.requests, _DIGITS),
        "wait_kv": round(score.kv, _DIGITS),
        "share": round(verdict.share, _DIGITS),
        "is_chosen": verdict.is_chosen,
    }


def _choice(explanation: Explanation) -> Mapping[str, Any] | None:
    choice = explanation.choice
    if choice is None:
        return None
    return {
        "target": choice.room.target.id,
        "pool": choice.room.target.pool_id,
        "worker": choice.worker.id,
        "candidates": choice.candidates,
        "is_panic": choice.room.is_panic,
    }


def _limit(verdict: LimitVerdict) -> Mapping[str, Any]:
    limit, stake = verdict.bearing.limit, verdict.stake
    return {
        "id": limit.id,
        "name": limit.name,
        "subject": limit.subject.value,
        "counted_for": verdict.bearing.subject,
        "unit": limit.unit.value,
        "window": None if limit.window is None else limit.window.value,
        "amount": limit.amount,
        "enforcement": limit.enforcement.value,
        "must_be_left": stake.floor,
        "is_taken": stake.take,
        "is_short": verdict.is_short,
    }
