"""What is left of the budgets that would bear on a request, as the state store has it now."""

from collections.abc import Mapping

from controlplane.bridge.budgets import read_reserved
from controlplane.selectors.budget_windows import spent_since
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.contract.values import changed
from inference.decisions.admission import Requester
from inference.decisions.budgets import (
    ROLLING,
    Account,
    accounts_of,
    amount_at,
    index_budgets,
)
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.plan import find_route
from inference.decisions.rules import zone_of


def read_budgets_left(
    snapshot: ConfigSnapshot, identity: KeyRecord, facts: RequestFacts, *, at_s: float
) -> Mapping[str, int] | None:
    """What may still be spent of each account, by its key; None if the store doesn't answer.

    What is held for requests under way counts as left: it may come back.
    """
    accounts = _accounts(snapshot, identity, facts, at_s)
    counters = read_reserved([one.key for one in accounts]) if accounts else {}
    if counters is None:
        return None
    spent = {key: one.settled for key, one in counters.items()}
    # a counter that rolls is looked at only when somebody spends, so the ledger knows better
    for one in accounts:
        if one.budget.is_rolling:
            since_s = ROLLING[one.budget.period].window(at_s).starts_s
            spent[one.key] = sum(spent_since([one.key], since_s)[one.key].values())
    return {
        one.key: max(amount_at(one.budget, at_s) - spent.get(one.key, 0), 0) for one in accounts
    }


def _accounts(
    snapshot: ConfigSnapshot, identity: KeyRecord, facts: RequestFacts, at_s: float
) -> tuple[Account, ...]:
    """All that a request may be counted on, whichever model serves it."""
    owner = identity.organisation_id
    budgets = index_budgets(snapshot.budgets).get(owner, ())
    route = find_route(snapshot, identity, facts.model)
    if not budgets or route is None:
        return ()
    tags = standing_of(facts, identity, route).tags
    who = Requester(
        owner,
        identity.team_id,
        identity.project_id,
        identity.id,
        end_user=facts.end_user,
        route_id=route.id,
    )
    zone = zone_of(snapshot.organisations[owner].time_zone)
    found = {
        one.key: one
        for model_id in (None, *_models(snapshot, route))
        for one in accounts_of(budgets, changed(who, model_id=model_id), tags, zone=zone, at_s=at_s)
    }
    return tuple(found.values())


def _models(snapshot: ConfigSnapshot, route: RouteRecord) -> set[str]:
    targets = (*route.targets, *(one for rule in route.rules for one in rule.targets))
    pools = (snapshot.pools.get(one.pool_id) for one in targets)
    return {one.model_id for one in pools if one is not None}
