"""How a request comes to have to do with caches: policy, body, and its caller's wishes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from inference.contract.kinds import CacheScope, CacheTier, Endpoint, PurgeKind
from inference.contract.snapshot import CachePolicyRecord, ConfigSnapshot
from inference.decisions.arms import cache_part_of, cache_policy_of, parameters_of
from inference.decisions.caching import (
    Obstacle,
    Place,
    Said,
    identity_of,
    is_sampled,
    obstacle_to,
    read_said,
    shelf_of,
    tenant_of,
)
from inference.decisions.plan import Plan
from inference.decisions.rules import Circumstances, fits
from inference.gateway.cache_wishes import cache_wishes
from inference.gateway.cached import Caching
from inference.gateway.members import raw_members
from inference.gateway.schemas import InferenceRequest

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_NO_PURGES: Mapping[tuple[PurgeKind, str], int] = {}


def begin_caching(exchange: "Exchange", plan: Plan, request: InferenceRequest) -> Caching | None:
    """What caches may do for a request of a route with a policy; None if that does nothing.

    Raises InvalidRequest if its caller's wishes can't be read.
    """
    caches, snapshot, identity = exchange.services.caches, exchange.snapshot, exchange.identity
    if caches is None or snapshot is None or identity is None:
        return None
    policy_id = cache_policy_of(plan.route, plan.assignments)
    policy = snapshot.cache_policies.get(policy_id or "")
    if policy is None or not policy.is_enabled:
        return None
    wishes = cache_wishes(exchange.downstream.headers)
    endpoint, task = exchange.endpoint, plan.standing.task
    try:
        said = read_said(request.members, request.replaced)
        sent = _as_sent(plan, request) or said
    except (msgspec.DecodeError, RecursionError):
        return None  # it is the engine's to say what is wrong with it
    obstacle = obstacle_to(policy, endpoint, task, is_sampled=is_sampled(endpoint, sent))
    if obstacle is None and policy.bypass and _is_passed_by(exchange, snapshot, policy, plan):
        obstacle = Obstacle.RULE
    place = Place(
        endpoint,
        tenant_of(policy, identity),
        shelf_of(policy, plan.route.id),
        "" if policy.scope is CacheScope.SHARED else request.model,
        (*identity_of(plan.targets[0]), cache_part_of(plan.assignments)),
        wishes.context_version,
        wishes.namespace,
    )
    exchange.caching = caching = Caching(
        caches,
        policy,
        plan,
        request,
        wishes=wishes,
        place=place,
        said=said,
        obstacle=obstacle,
        purges=snapshot.purged.get(identity.organisation_id, _NO_PURGES),
    )
    return caching


def _as_sent(plan: Plan, request: InferenceRequest) -> Said | None:
    """What the request says with what its variants set, None if they set nothing; it may raise."""
    given = parameters_of(plan.assignments, is_stood_in=False)
    if not given:
        return None
    set_to = raw_members({name: text.encode() for name, text in given.items()})
    return read_said({**request.members, **set_to}, request.replaced)


def _is_passed_by(
    exchange: "Exchange", snapshot: ConfigSnapshot, policy: CachePolicyRecord, plan: Plan
) -> bool:
    """Whether a rule keeps the request from the caches."""
    assert exchange.identity is not None
    owner = snapshot.organisations.get(policy.organisation_id)
    zone = "UTC" if owner is None else owner.time_zone
    case = Circumstances(plan.facts, plan.standing, exchange.identity, plan.at, zone)
    return any(fits(when, case) for when in policy.bypass)


def wants_vectors(caching: Caching) -> bool:
    """Whether the inputs of the request are kept one by one; of no input the engine says what."""
    is_embedding = caching.place.endpoint is Endpoint.EMBEDDINGS and caching.said.get("input")
    return bool(is_embedding) and CacheTier.EMBEDDING in caching.policy.tiers
