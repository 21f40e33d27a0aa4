"""What is wrong with limits, budgets and kill switches."""

from collections.abc import Iterator

from inference.contract.kinds import BudgetSubject, LimitSubject, LimitUnit, SwitchSubject
from inference.contract.params import BUDGET_BOUNDS, LIMIT_BOUNDS, MAX_BUDGET_SCOPES
from inference.contract.snapshot import (
    BudgetRecord,
    BudgetScope,
    ConfigSnapshot,
    LimitRecord,
    SwitchRecord,
)
from inference.decisions.problems import (
    Finding,
    Host,
    Problem,
    is_label,
    named,
    organisation_findings,
    out_of_bounds,
)


def limit_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all limits."""
    for limit in snapshot.limits.values():
        yield from named(name, limit.id, _findings_in_limit(snapshot, limit))


def budget_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all budgets."""
    for budget in snapshot.budgets.values():
        yield from named(name, budget.id, _findings_in_budget(snapshot, budget))


def switch_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all kill switches."""
    for switch in snapshot.switches.values():
        yield from named(name, switch.id, _findings_in_switch(snapshot, switch))


def _findings_in_limit(snapshot: ConfigSnapshot, limit: LimitRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, limit.organisation_id)
    if not is_label(limit.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    if limit.unit is LimitUnit.PARALLEL and limit.window is not None:
        yield "window", "invalid", "Parallel requests are counted at any moment, in no window."
    if limit.unit is not LimitUnit.PARALLEL and limit.window is None:
        yield "window", "required", "It needs a window."
    if limit.subject is LimitSubject.ORGANISATION and limit.subject_id is not None:
        yield "subject_id", "invalid", "A limit of the organisation names nothing further."
    if limit.subject_id is not None and not is_label(limit.subject_id):
        yield "subject_id", "invalid", "It is 1 to 255 printable characters."
    yield from out_of_bounds(limit, LIMIT_BOUNDS)


def _findings_in_budget(snapshot: ConfigSnapshot, budget: BudgetRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, budget.organisation_id)
    if not is_label(budget.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    if not 0 < len(budget.scopes) <= MAX_BUDGET_SCOPES:
        yield "scopes", "invalid", f"It is about 1 to {MAX_BUDGET_SCOPES} things."
    if len({one.subject for one in budget.scopes}) < len(budget.scopes):
        yield "scopes", "duplicate", "Each kind of thing can be named once."
    for scope in budget.scopes:
        yield from _findings_in_scope(scope)
    if (budget.raised_to_nanousd is None) is not (budget.raised_until is None):
        yield "raised_until", "invalid", "A raise has an amount and an end."
    yield from out_of_bounds(budget, BUDGET_BOUNDS)


def _findings_in_scope(scope: BudgetScope) -> Iterator[Finding]:
    if scope.subject is BudgetSubject.ORGANISATION and scope.subject_id is not None:
        yield "scopes", "invalid", "The organisation needs no name."
    if scope.subject_id is not None and not is_label(scope.subject_id):
        yield "scopes", "invalid", "A name is 1 to 255 printable characters."


def _findings_in_switch(snapshot: ConfigSnapshot, switch: SwitchRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, switch.organisation_id)
    is_whole = switch.subject is SwitchSubject.ORGANISATION
    if is_whole and switch.subject_id is not None:
        yield "subject_id", "invalid", "A switch of the organisation names nothing further."
    if not is_whole and not is_label(switch.subject_id or ""):
        yield "subject_id", "required", "It needs what it switches off."
    if switch.reason and not is_label(switch.reason):
        yield "reason", "invalid", "It has at most 255 printable characters."
