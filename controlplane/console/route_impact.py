"""What a change of a route moves, from the roll-ups of its last hour and last day."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.console.formats import count
from controlplane.console.nouns import ROUTES
from controlplane.console.reviews import Check, Impact, Part, Reach, Split, checks_of
from controlplane.console.rule_impact import rule_checks, rule_reach, waiting_reach
from controlplane.console.scope import Scope
from controlplane.console.targets import as_listed, measured_of, moved, shares_of, told
from controlplane.models import Pool, Route
from controlplane.selectors.impact import Traffic, get_traffic, list_attempts_by_pool
from controlplane.selectors.pools import list_pools
from controlplane.services.drafts import Draft
from inference.contract.kinds import PoolPower, Strategy

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_SLOTS = 7

Shares = Mapping[str, float]


def impact_of_edit(scope: Scope, route: Route, changes: Mapping[str, Any], draft: Draft) -> Impact:
    """Splits before and after, the share of traffic that moves, and who sends it."""
    now = timezone.now()
    traffic = get_traffic(scope.access, scope.organisation, since=now - _DAY, route_id=route.pk)
    old = as_listed(route.targets.all())
    new = changes.get("targets", old)
    before, after = shares_of(old), shares_of(new)
    aims = [*new, *(one for rule in changes.get("rules") or () for one in rule["targets"])]
    named = {*before, *(one["pool"] for one in aims)}
    pools = {pool.pk: pool for pool in list_pools(scope.access).filter(pk__in=named)}
    checks = (
        *_checks(changes, aims, pools, traffic),
        *rule_checks(route, changes),
        *checks_of(draft, ROUTES.key),
    )
    strategy = str(changes.get("strategy", route.strategy))
    moves = () if "targets" not in changes else _moves(before, after, strategy)
    reach = [
        *moves,
        *rule_reach(scope, route, changes),
        *_strategy_words(changes),
        *waiting_reach(changes),
        *_silence_words(changes),
        *_callers(traffic),
    ]
    if "targets" not in changes:
        return Impact(reach=reach, checks=checks)
    found = list_attempts_by_pool(
        scope.access, scope.organisation, since=now - _HOUR, route_ids=[route.pk]
    )
    measured = measured_of(found.get(route.pk, {}))
    slots = {pool: min(place + 1, _SLOTS) for place, pool in enumerate({**before, **after})}
    splits = [_split("Now, by weight", before, slots), _split("After, by weight", after, slots)]
    if measured:
        made = sum(found[route.pk].values())
        label = f"Now, measured over {count(made)} attempts of the last hour"
        splits.insert(0, _split(label, measured, slots))
    legend = [
        (slot, f"{_name(pools, pool)} {told(before.get(pool, 0))} to {told(after.get(pool, 0))}")
        for pool, slot in slots.items()
    ]
    return Impact(reach=reach, checks=checks, splits=splits, legend=legend)


def impact_of_removal(scope: Scope, route: Route, draft: Draft) -> Impact:
    """Who asks for it still."""
    since = timezone.now() - _DAY
    traffic = get_traffic(scope.access, scope.organisation, since=since, route_id=route.pk)
    told_first = Check("warn", f"Requests for {route.name} will be refused from then on.")
    return Impact(reach=_callers(traffic), checks=(told_first, *checks_of(draft, ROUTES.key)))


def _name(pools: Mapping[str, Pool], pool_id: str) -> str:
    return pools[pool_id].name if pool_id in pools else pool_id


def _split(label: str, shares: Shares, slots: Mapping[str, int]) -> Split:
    parts, start = [], 0.0
    for pool, slot in slots.items():
        share = 100 * shares.get(pool, 0.0)
        parts.append(Part(pool, share, start, slot))
        start += share
    return Split(label, parts)


def _moves(before: Shares, after: Shares, strategy: str) -> Sequence[Reach]:
    share = told(moved(before, after))
    if strategy not in (Strategy.WEIGHTED, Strategy.SESSION_AFFINITY):
        words = f"~{share} of what comes while workers are equally free; under load, waits decide"
        return (Reach("Traffic moved", words),)
    return (Reach("Traffic moved", f"~{share} of this route's traffic"),)


STRATEGY_WORDS: Mapping[str, str] = {
    Strategy.LEAST_WORK: (
        "Each request goes to the worker with the shortest wait, whichever target it is of, and "
        "sooner to one that has the prompt cached. Weights decide among equally free workers "
        "only; a target of weight 0 still gets nothing."
    ),
    Strategy.WEIGHTED: (
        "Requests divide between targets by weight, however busy each is; inside a pool the "
        "worker with the shortest wait is picked."
    ),
    Strategy.SESSION_AFFINITY: (
        "Requests of one session (else end user, else key) go to one worker, and divide between "
        "targets by weight. A worker with a quarter more than its share leaves them to the next."
    ),
    Strategy.PREFIX_AFFINITY: (
        "Each request goes to the worker that has most of its prompt cached, unless that one has a "
        "quarter more than its share; prompts that nobody has go to the shortest wait."
    ),
    Strategy.LOWEST_LATENCY: (
        "Each request goes to the worker whose streams began soonest of late, its wait included; "
        "one in twenty goes to any other, to see how that one does."
    ),
    Strategy.CHEAPEST: (
        "Each request goes to the target where it costs least at most, then to the shortest wait. "
        "A target whose price is not known comes last."
    ),
}


def _strategy_words(changes: Mapping[str, Any]) -> Sequence[Reach]:
    if "strategy" not in changes:
        return ()
    return (Reach("Where requests go", STRATEGY_WORDS[changes["strategy"]]),)


def _silence_words(changes: Mapping[str, Any]) -> Sequence[Reach]:
    if "keep_alive_ms" not in changes:
        return ()
    silence_ms = changes["keep_alive_ms"]
    words = "Before the answer has begun, nothing is sent, so that another target can be tried."
    if silence_ms is not None:
        words = (
            f"After {count(silence_ms)} ms without a word from the worker the answer begins with a "
            "comment: from then on no other target is tried, and an error is told in the stream."
        )
    return (Reach("Silent streams", words),)


def _callers(traffic: Traffic) -> Sequence[Reach]:
    return (
        Reach("Requests", f"{count(traffic.requests)} in the last 24 h"),
        Reach("Projects", ", ".join(traffic.projects) or "none called it in the last 24 h"),
    )


def _checks(
    changes: Mapping[str, Any],
    targets: Sequence[Mapping[str, Any]],
    pools: Mapping[str, Pool],
    traffic: Traffic,
) -> Sequence[Check]:
    found = []
    if changes.get("is_enabled") is False:
        found.append(Check("warn", "Off: every request for it will be refused."))
    if "name" in changes:
        words = f"Callers must write {changes['name']} from then on; the old name is refused."
        found.append(Check("warn" if traffic.requests else "info", words))
    chosen = [pools[pk] for pk in dict.fromkeys(one["pool"] for one in targets) if pk in pools]
    for pool in chosen:
        if pool.power != PoolPower.RUNNING.value or (pool.replicas == 0 and not pool.addresses):
            how = "drained" if pool.power == PoolPower.DRAINED else "stopped"
            found.append(Check("warn", f"{pool.name} is {how}: its share goes to the others."))
    models = sorted({pool.model.name for pool in chosen})
    if len(models) > 1:
        found.append(Check("info", f"Its targets serve different models: {', '.join(models)}."))
    return found
