"""A budget put to the test: does what it is about count, add up in the store, warn, and act?

What recorder, job, alerts and gateways decide with is asked about made-up requests; the store is
really written to, at a counter of the test's own; and channels really get a message. Nothing of it
counts on the budget.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from redis.exceptions import RedisError

from controlplane.bridge.budget_counters import add_to_counters, drop_counter, read_counters
from controlplane.bridge.configurations import live_configuration
from controlplane.bridge.store import open_store
from controlplane.compiler import budget_record
from controlplane.decisions.budget_sums import spending_of
from controlplane.decisions.budgets import balance_of
from controlplane.errors import Conflict
from controlplane.models import Budget
from controlplane.selectors.alerts import list_channels_about_budget
from controlplane.services.actors import Actor
from controlplane.services.budgets import note_test
from controlplane.services.deliveries import send_test
from inference.contract.events import Charge, End, Origin, Usage
from inference.contract.kinds import (
    BudgetAction,
    BudgetSubject,
    ChargeKind,
    Endpoint,
    Outcome,
    UnknownPrice,
)
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import (
    Account,
    acts_from,
    amount_at,
    dollars,
    refusal_words,
    stake_of,
)
from inference.decisions.limiting import BudgetVerdict
from inference.decisions.rules import zone_of

_NOBODY = "proof"
"""Stands for each one of a kind that a budget counts apart."""


class ProofState(StrEnum):
    """What came of one step."""

    OK = "ok"
    WARN = "warn"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of the test, and what was found, in a sentence."""

    name: str
    state: ProofState
    words: str


def prove_budget(actor: Actor, budget: Budget, now: datetime) -> Sequence[ProofStep]:
    """Put a budget to the test, step by step; written down in the audit trail."""
    record, now_s = budget_record(budget), now.timestamp()
    zone = budget.organisation.time_zone
    # a budget of nothing adds up as any other
    cost = max(amount_at(record, now_s) // 4, 1)
    account, counts = _counts(record, zone, cost, now_s)
    steps = [_published(budget, record), counts]
    if account is not None:
        steps += [_accrues(account, cost), _acts(account, cost, now_s)]
    steps += [_thresholds(budget, record, now_s), _tells(actor, budget)]
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


def _counts(
    record: BudgetRecord, zone: str, cost: int, now_s: float
) -> tuple[Account | None, ProofStep]:
    """Book a made-up request that is of all its scopes, as the recorder would."""
    own = {one.subject: one.subject_id or _NOBODY for one in record.scopes}
    end = _made_end(record.organisation_id, own, cost, now_s)
    home = record.organisation_id
    found = spending_of([end], {home: [record]}, {home: zone_of(zone)})
    if len(found) != 1 or found[0].spent_nanousd != cost:
        words = "A request that is of all its scopes isn't counted on it."
        return None, ProofStep("counts", ProofState.FAILED, words)
    words = f"A request of {dollars(cost)} that is of all its scopes is booked on it, once."
    return found[0].account, ProofStep("counts", ProofState.OK, words)


def _made_end(home: str, own: dict[BudgetSubject, str], cost: int, now_s: float) -> End:
    at_ms = int(now_s * 1_000)
    model_id = own.get(BudgetSubject.MODEL, _NOBODY)
    tag = own.get(BudgetSubject.TAG)
    return End(
        event_id=_NOBODY,
        at_ms=at_ms,
        received_at_ms=at_ms,
        origin=Origin(
            organisation_id=home,
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


def _accrues(account: Account, cost: int) -> ProofStep:
    """Tell a counter of the test's own in the store of two costs, and read them back."""
    # a part by chance: two tests of one budget at once don't count on each other's
    made_id = f"{account.budget.id}:{_NOBODY}:{secrets.token_hex(8)}"
    budget = replace(account.budget, id=made_id, is_rolling=False)
    scratch = Account(budget, account.subjects, account.period)
    try:
        with open_store() as store:
            try:
                for _ in range(2):
                    ends_ms = account.period.ends_s * 1_000
                    add_to_counters(store, [(scratch.key, cost, ends_ms)])
                told = read_counters(store, [scratch.key])[scratch.key].settled
            finally:
                drop_counter(store, scratch.key)
    except (RedisError, OSError):
        words = "The state store does not answer, so nothing can be counted."
        return ProofStep("accrues", ProofState.FAILED, words)
    if told != 2 * cost:
        words = f"Two costs of {dollars(cost)} read back from the store as {dollars(told)}."
        return ProofStep("accrues", ProofState.FAILED, words)
    words = f"Two costs of {dollars(cost)} add up to {dollars(told)} in the store."
    return ProofStep("accrues", ProofState.OK, words)


def _acts(account: Account, cost: int, now_s: float) -> ProofStep:
    """Ask what gateways would do with a request that may cost so much, when little is left."""
    record = account.budget
    stake, begins = stake_of(record, cost), acts_from(record, now_s)
    if record.action is BudgetAction.BLOCK:
        is_let_in = not BudgetVerdict(account, stake, cost).is_short
        is_refused = BudgetVerdict(account, stake, cost - 1).is_short
        is_strict = record.unknown_price is UnknownPrice.REFUSE
        is_known = (stake_of(record, None) is None) is is_strict
        if not (is_let_in and is_refused and is_known):
            words = "Gateways would let in what isn't left for, or refuse what is."
            return ProofStep("blocks", ProofState.FAILED, words)
        return ProofStep("blocks", ProofState.OK, refusal_words(account, cost, now_s=now_s))
    refuses = BudgetVerdict(account, stake, 0).is_short
    if refuses or (record.action is not BudgetAction.NOTIFY and begins is None):
        words = "Gateways would not do what it says."
        return ProofStep("acts", ProofState.FAILED, words)
    if begins is None:
        return ProofStep("acts", ProofState.OK, "Nobody is refused; people are told.")
    does = {
        BudgetAction.THROTTLE: f"let in {record.throttle_per_minute} requests a minute",
        BudgetAction.CHEAPER: "send requests to the cheaper model",
    }[record.action]
    words = f"Once {dollars(begins)} are spent, gateways {does}."
    return ProofStep("acts", ProofState.OK, words)


def _thresholds(budget: Budget, record: BudgetRecord, now_s: float) -> ProofStep:
    """Whether each threshold is passed where it is reached, and not before."""
    if not budget.thresholds_percent:
        return ProofStep("warns", ProofState.WARN, "It has no threshold, so nothing ever warns.")
    amount, wrong = record.amount_nanousd, []
    for percent in budget.thresholds_percent:
        least = -(-amount * percent // 100)
        passed = [
            balance_of(
                replace(record, raised_to_nanousd=None, raised_until=None),
                [percent],
                spent_nanousd=spent,
                reserved_nanousd=0,
                now_s=now_s,
            ).threshold_percent
            for spent in (least - 1, max(least, 1))
        ]
        if passed != [None, percent]:
            wrong.append(percent)
    if wrong:
        told = ", ".join(f"{one} %" for one in wrong)
        return ProofStep("warns", ProofState.FAILED, f"Not passed where it should be: {told}.")
    told = ", ".join(f"{one} %" for one in budget.thresholds_percent)
    return ProofStep("warns", ProofState.OK, f"Each is passed where it is reached: {told}.")


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
