"""What plans under one snapshot have in common: worked out when first asked for, then looked up.

It holds nothing that a plan's other inputs could change, so a plan is the same with it and without.
"""

from collections.abc import Sequence
from math import inf

from inference.contract.events import Origin, PriceUsed
from inference.contract.kinds import Endpoint, PoolPower
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    KeyRecord,
    MatchRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    RuleRecord,
    TargetRecord,
)
from inference.contract.values import changed, frozen
from inference.decisions.arms import Arm
from inference.decisions.cost import price_used
from inference.decisions.endpoints import Offers, asked_as, fitting_targets
from inference.decisions.facts import Standing, standing_of_nothing
from inference.decisions.routing.draws import order_targets
from inference.decisions.rules import headers_of

MOST_WAYS = 10_000
"""Names that keys have used: beyond that all are looked up anew."""


@frozen
class Way:
    """Where a key comes by a name: the route, and what a request counts as that says no more.

    `experiments` are those that run on the route, `looked_at` the headers that its rules, they and
    the cache policies of it and of their variants look at. `line_ups` are the route's own, by
    endpoint, which a request comes to that neither rule nor experiment nor its caller's wish has
    chosen for. `origins` are of requests by it that say no more, by endpoint and whether they are
    streams: kept here by whoever writes them down.
    """

    route: RouteRecord
    standing: Standing
    looked_at: frozenset[str]
    line_ups: dict[Endpoint, "LineUp"]
    origins: dict[tuple[Endpoint, bool], Origin]
    experiments: tuple[ExperimentRecord, ...]


@frozen
class Seat:
    """A target with all that an attempt on it needs of the snapshot; `pool` None: it isn't there.

    It `runs` if the configuration has its pool run. `max_context_tokens` is what its pool says or
    else its model; None is not known. `fallbacks` is how many tiers of the chosen targets come
    before its own. `bridge` is the endpoint in whose words its workers are asked, if they don't
    have the one asked for. One that `stands_in` is an experiment's control's, for a variant's.
    """

    target: TargetRecord
    pool: PoolRecord | None
    price: PriceUsed | None
    max_context_tokens: int | None
    fallbacks: int
    runs: bool
    bridge: Endpoint | None
    stands_in: bool = False


@frozen
class LineUp:
    """The targets that serve an endpoint, of those a route or one of its rules names.

    `misfits` have a weight and don't answer the endpoint, `unreached` neither since the request
    can't be said in other words. `order` is that of the fitting ones, if there is but one of a
    weight in each tier: then no chance is in it. `sole` is the one and only, if that is all there
    is to say of who is asked: it runs, and nobody was left out.
    """

    chosen: tuple[TargetRecord, ...]
    fitting: tuple[TargetRecord, ...]
    misfits: tuple[str, ...]
    unreached: tuple[str, ...]
    seats: dict[str, Seat]
    order: tuple[Seat, ...] | None
    sole: Seat | None

    def drawn(self, u: float) -> Sequence[Seat]:
        """Lower tiers first, inside one those without a bridge, and these in an order drawn."""
        seats = [self.seats[target.id] for target in order_targets(self.fitting, u=u)]
        if any(seat.bridge is not None for seat in seats):
            seats.sort(key=lambda one: (one.target.tier, one.bridge is not None))
        return seats


class Groundwork:
    """The common part of all plans for these backends' `offers`, as long as prices stay the same.

    It is of the time from `since` until `until` (seconds since the epoch, the end excluded):
    between two moments at which the snapshot has another price come into force.
    """

    __slots__ = ("_line_ups", "_offers", "_prices", "_snapshot", "_ways", "since", "until")

    def __init__(self, snapshot: ConfigSnapshot, offers: Offers, at: float) -> None:
        self._snapshot = snapshot
        self._offers = offers
        moments = {one.effective_from for one in snapshot.prices.values()}
        self.since = max((one for one in moments if one <= at), default=-inf)
        self.until = min((one for one in moments if one > at), default=inf)
        self._prices: dict[tuple[str, str | None], PriceRecord] = {}
        for price in snapshot.prices.values():
            place = (price.model_id, price.pool_id)
            found = self._prices.get(place)
            if price.effective_from <= at and (
                found is None or price.effective_from > found.effective_from
            ):
                self._prices[place] = price
        self._ways: dict[tuple[str, str], Way] = {}
        self._line_ups: dict[tuple[str, str, Endpoint, bool, str | None, str | None], LineUp] = {}

    def way(self, identity: KeyRecord, name: str) -> Way | None:
        """The way by this name or alias, None if there is none that this key may use."""
        way = self._ways.get((identity.id, name))
        if way is None:
            route = find_route(self._snapshot, identity, name)
            if route is None:
                return None
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            tested = self._snapshot.tested.get(route.id, ())
            looked_at = headers_of(route, tested, self._bypass_of(route, tested))
            standing = standing_of_nothing(identity, route)
            way = Way(route, standing, looked_at, {}, {}, tested)
            self._ways[identity.id, name] = way
        return way

    def _bypass_of(
        self, route: RouteRecord, tested: Sequence[ExperimentRecord]
    ) -> list[MatchRecord]:
        """What passes caches by, under any policy that a request of the route may come to have."""
        variants = (variant for one in tested for variant in one.variants)
        named = {route.cache_policy_id, *(variant.cache_policy_id for variant in variants)}
        policies = (self._snapshot.cache_policies.get(one or "") for one in named)
        return [when for policy in policies if policy is not None for when in policy.bypass]

    def line_up(
        self,
        route: RouteRecord,
        rule: RuleRecord | None,
        endpoint: Endpoint,
        *,
        may_bridge: bool,
        arm: Arm | None = None,
    ) -> LineUp:
        """The targets of a rule, or else of the route itself; or an experiment's in their place."""
        rule_id = None if rule is None else rule.id
        variant_id = None if arm is None else arm.variant.id
        named = (route.organisation_id, route.id, endpoint, may_bridge, rule_id, variant_id)
        found = self._line_ups.get(named)
        if found is None:
            usual = route.targets if rule is None else rule.targets
            chosen = usual if arm is None else arm.chosen_of(usual)
            found = self.line_up_of(chosen, endpoint, may_bridge=may_bridge)
            if arm is not None:
                found = _with_stand_ins(found, arm, usual)
            self._line_ups[named] = found
        return found

    def line_up_by(self, way: Way, endpoint: Endpoint) -> LineUp:
        """The same of a way's route itself, and of a request that may be said in other words."""
        found = way.line_ups[endpoint] = self.line_up(way.route, None, endpoint, may_bridge=True)
        return found

    def line_up_of(
        self, chosen: tuple[TargetRecord, ...], endpoint: Endpoint, *, may_bridge: bool
    ) -> LineUp:
        """The same of these targets."""
        snapshot, offers = self._snapshot, self._offers
        answering = fitting_targets(snapshot, chosen, endpoint, offers=offers)
        fitting = answering
        if not may_bridge:
            fitting = fitting_targets(snapshot, chosen, endpoint, offers=offers, may_bridge=False)
        kept = {target.id for target in fitting}
        might = {target.id for target in answering}
        tiers = sorted({target.tier for target in fitting if target.weight > 0})
        seats = {target.id: self._seat(target, endpoint, tiers) for target in fitting}
        is_drawn = sum(target.weight > 0 for target in fitting) > len(tiers)
        misfits = tuple(one.id for one in chosen if one.weight > 0 and one.id not in might)
        unreached = tuple(one.id for one in chosen if one.weight > 0 and one.id in might - kept)
        order = None
        if not is_drawn:
            order = tuple(seats[one.id] for one in order_targets(fitting, u=0.0))
        sole = None
        if order and len(order) == 1 and order[0].runs and not (misfits or unreached):
            sole = order[0]
        return LineUp(chosen, fitting, misfits, unreached, seats, order, sole)

    def price_of(self, pool: PoolRecord, endpoint: Endpoint) -> PriceUsed | None:
        """What a request of an endpoint costs in a pool: its own price, else its model's."""
        own = price_used(self._prices.get((pool.model_id, pool.id)), endpoint)
        return own or price_used(self._prices.get((pool.model_id, None)), endpoint)

    def _seat(self, target: TargetRecord, endpoint: Endpoint, tiers: Sequence[int]) -> Seat:
        snapshot = self._snapshot
        fallbacks = sum(tier < target.tier for tier in tiers)
        pool = snapshot.pools.get(target.pool_id)
        if pool is None:
            return Seat(target, None, None, None, fallbacks, runs=False, bridge=None)
        asked = asked_as(pool, endpoint, offers=self._offers)
        return Seat(
            target,
            pool,
            self.price_of(pool, endpoint),
            _context_of(snapshot, pool),
            fallbacks,
            runs=pool.power is PoolPower.RUNNING,
            bridge=None if asked is endpoint else asked,
        )


def _with_stand_ins(line_up: LineUp, arm: Arm, usual: tuple[TargetRecord, ...]) -> LineUp:
    """The line-up with a note at those that are there for the control alone."""

    def noted(seat: Seat) -> Seat:
        return changed(seat, stands_in=arm.stands_in(seat.target.id, usual))

    order, sole = line_up.order, line_up.sole
    return changed(
        line_up,
        seats={target_id: noted(seat) for target_id, seat in line_up.seats.items()},
        order=None if order is None else tuple(noted(seat) for seat in order),
        sole=None if sole is None else noted(sole),
    )


def find_route(snapshot: ConfigSnapshot, identity: KeyRecord, name: str) -> RouteRecord | None:
    """The enabled route of that name or alias, or None if there is none that this key may use."""
    called = (identity.organisation_id, name)
    route = snapshot.routes.get(called) or snapshot.aliases.get(called)
    if route is None or not is_visible(route, identity):
        return None
    return route


def is_visible(route: RouteRecord, identity: KeyRecord) -> bool:
    """Whether the key may name this route; no list is every route of its organisation."""
    if not route.is_enabled or route.organisation_id != identity.organisation_id:
        return False
    return identity.route_names is None or route.name in identity.route_names


def _context_of(snapshot: ConfigSnapshot, pool: PoolRecord) -> int | None:
    """How long a prompt and its output may be: an engine can be started with less than it could."""
    stated = pool.engine_arguments.get("max_model_len")
    if isinstance(stated, int):
        return stated
    model = snapshot.models.get(pool.model_id)
    return None if model is None else model.max_context_tokens
