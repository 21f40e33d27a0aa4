"""A budget put to the test: does what it is about count, warn, add up, act, and tell people?

The recorder's booking and the alert evaluation are asked about a copy of it that is taken back, the
state store and the gateways about copies of their own; channels really get a message. Nothing of it
counts on the budget.
"""

from collections.abc import Sequence
from datetime import datetime

from redis.exceptions import RedisError

from controlplane.alerting.base import Facts
from controlplane.alerting.evaluation import look
from controlplane.bridge.budget_trial import ask_gateways, claim_turn, try_store
from controlplane.bridge.configurations import live_configuration
from controlplane.bridge.store import open_store
from controlplane.compiler import budget_record
from controlplane.decisions.budget_proofs import ProofState, ProofStep
from controlplane.errors import Conflict
from controlplane.models import Budget
from controlplane.selectors.alerts import list_channels_about_budget
from controlplane.services.actors import Actor
from controlplane.services.budget_trials import AMOUNT, Trial, after, on_trial
from controlplane.services.budgets import note_test
from controlplane.services.deliveries import send_test
from inference.contract.events import Charge, End, Origin, Usage
from inference.contract.kinds import BudgetSubject, ChargeKind, Endpoint, Outcome
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import dollars

_NOBODY = "proof"
"""Stands for each one of a kind that a budget counts apart."""


def prove_budget(actor: Actor, budget: Budget, now: datetime) -> Sequence[ProofStep]:
    """Put a budget to the test, step by step; written down in the audit trail.

    Raises Conflict if that was done to one of the organisation a moment ago.
    """
    record = budget_record(budget)
    steps: list[ProofStep] = []
    try:
        with open_store() as store:
            claim_turn(store, budget.organisation_id)
            steps += [_published(budget, record), *_counts_and_warns(budget, record, now)]
            steps += [*try_store(store, record), ask_gateways(store, record)]
            steps.append(_tells(actor, budget))
    except (RedisError, OSError):
        words = "The state store does not answer, so nothing can be counted, and nobody was told."
        steps.append(ProofStep("accrues", ProofState.FAILED, words))
    note_test(actor, budget_id=budget.pk, result={one.name: one.state.value for one in steps})
    return steps


def _published(budget: Budget, record: BudgetRecord) -> ProofStep:
    """Whether gateways are given it as it is here."""
    try:
        published = live_configuration().budgets.get(budget.pk)
    except Conflict as error:
        return ProofStep("published", ProofState.FAILED, error.detail)
    if published != record:
        words = "The configuration that is published has it otherwise; it is on its way."
        return ProofStep("published", ProofState.FAILED, words)
    if not record.is_enabled:
        words = "Gateways know it, and that it is off: it does nothing."
        return ProofStep("published", ProofState.WARN, words)
    return ProofStep("published", ProofState.OK, "Gateways are given it as it is here.")


def _counts_and_warns(budget: Budget, record: BudgetRecord, now: datetime) -> Sequence[ProofStep]:
    with on_trial(budget, now) as trial:
        counts = _counts(trial, record, now)
        if counts.state is ProofState.FAILED:
            return (counts,)
        return (counts, _warns(trial, record, now))


def _counts(trial: Trial, record: BudgetRecord, now: datetime) -> ProofStep:
    """Book a request that is of all its scopes, and costs next to nothing, as the recorder does."""
    accounts = trial.book(_made_end(record, 1, now), now)
    if (accounts, trial.spent_nanousd) != (1, 1):
        words = "A request that is of all its scopes isn't booked on it, once."
        return ProofStep("counts", ProofState.FAILED, words)
    words = f"A request of {dollars(1)} that is of all its scopes is booked on it, once."
    return ProofStep("counts", ProofState.OK, words)


def _warns(trial: Trial, record: BudgetRecord, now: datetime) -> ProofStep:
    """Spend up to just below each threshold, and to it: an alert rule must fire there alone."""
    thresholds = sorted(set(trial.budget.thresholds_percent))
    if not thresholds:
        return ProofStep("warns", ProofState.WARN, "It has no threshold, so nothing ever warns.")
    looks, spent, wrong = 0, 1, []
    for percent in thresholds:
        found = []
        for wanted in (AMOUNT * percent // 100 - 1, AMOUNT * percent // 100):
            if wanted > spent:
                trial.book(_made_end(record, wanted - spent, now), now)
                spent = wanted
            looks += 1
            look(trial.rule, Facts(), after(now, looks))
            found.append(percent in trial.alerts_at)
        if found != [False, True]:
            wrong.append(percent)
    told = ", ".join(f"{one} %" for one in wrong or thresholds)
    if wrong:
        words = f"An alert rule doesn't fire where it should: {told}."
        return ProofStep("warns", ProofState.FAILED, words)
    words = f"An alert rule on a copy fires where each is reached, and not before: {told}."
    return ProofStep("warns", ProofState.OK, words)


def _made_end(record: BudgetRecord, cost: int, now: datetime) -> End:
    own = {one.subject: one.subject_id or _NOBODY for one in record.scopes}
    at_ms = int(now.timestamp() * 1_000)
    model_id = own.get(BudgetSubject.MODEL, _NOBODY)
    tag = own.get(BudgetSubject.TAG)
    return End(
        event_id=_NOBODY,
        at_ms=at_ms,
        received_at_ms=at_ms,
        origin=Origin(
            organisation_id=record.organisation_id,
            team_id=own.get(BudgetSubject.TEAM, _NOBODY),
            project_id=own.get(BudgetSubject.PROJECT, _NOBODY),
            key_id=own.get(BudgetSubject.KEY, _NOBODY),
            endpoint=Endpoint.CHAT,
            requested_model=_NOBODY,
            is_stream=False,
            gateway=_NOBODY,
            lineage=_NOBODY,
            version=0,
            route_id=own.get(BudgetSubject.ROUTE, _NOBODY),
            route_name=_NOBODY,
            end_user=own.get(BudgetSubject.END_USER),
            tags=() if tag is None else (tag,),
        ),
        outcome=Outcome.OK,
        http_status=200,
        charges=(
            Charge(
                attempt=1,
                target_id=_NOBODY,
                pool_id=_NOBODY,
                model_id=model_id,
                worker_id=_NOBODY,
                kind=ChargeKind.FINAL,
                usage=Usage(1, 1),
                started_at_ms=at_ms,
                duration_ms=1.0,
                cost_nanousd=cost,
                cost_max_nanousd=cost,
            ),
        ),
        total_ms=1.0,
    )


def _tells(actor: Actor, budget: Budget) -> ProofStep:
    """Have each channel of the rules that watch it send a test message."""
    watching, channels = list_channels_about_budget(budget)
    if not watching:
        words = "No alert rule watches it: thresholds show on its page, and nobody is told."
        return ProofStep("tells", ProofState.WARN, words)
    sent, off = [], []
    for channel in channels:
        try:
            send_test(actor, channel_id=channel.pk)
            sent.append(channel.name)
        except Conflict:
            off.append(channel.name)
    if off or not sent:
        words = f"Switched off: {', '.join(off)}." if off else "Its rules tell no channel."
        return ProofStep("tells", ProofState.WARN, words)
    words = f"A test message is on its way by {', '.join(sent)}; see Alerts, Deliveries."
    return ProofStep("tells", ProofState.OK, words)
