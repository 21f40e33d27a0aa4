"""What is left of a plan once kill switches were thrown after it was made."""

from dataclasses import replace

from inference.contract.snapshot import ConfigSnapshot, KeyRecord
from inference.decisions.plan import Plan, Refusal, RefusalCode
from inference.decisions.switches import switch_on_caller, switch_on_pool, switch_on_route


def left_of_plan(
    snapshot: ConfigSnapshot, identity: KeyRecord, plan: Plan, *, now: float
) -> Plan | Refusal:
    """The plan without targets that are off by now, or the refusal a new plan would have been.

    Nothing but switches is looked at; `now` is seconds since the epoch.
    """
    if not snapshot.thrown:
        return plan
    route = plan.route
    switch = switch_on_caller(snapshot, identity, now=now)
    switch = switch or switch_on_route(snapshot, route, now=now)
    if switch is not None:
        return Refusal(RefusalCode.SWITCHED_OFF, route, switch=switch, rule_id=plan.rule_id)
    switches = [switch_on_pool(snapshot, one.pool, now=now) for one in plan.targets]
    if not any(switches):
        return plan
    pairs = zip(plan.targets, switches, strict=True)
    targets = tuple(planned for planned, found in pairs if found is None)
    if targets:
        return replace(plan, targets=targets)
    code = RefusalCode.TARGETS_SWITCHED_OFF
    return Refusal(code, route, switch=switches[0], rule_id=plan.rule_id)
