"""The strategies there are, by kind."""

from collections.abc import Mapping

from inference.contract.kinds import Strategy
from inference.decisions.routing.base import RoutingStrategy
from inference.decisions.routing.strategies import (
    cheapest,
    least_work,
    lowest_latency,
    prefix_affinity,
    session_affinity,
    weighted,
)

REGISTRY: Mapping[Strategy, RoutingStrategy] = {
    Strategy.WEIGHTED: weighted.STRATEGY,
    Strategy.LEAST_WORK: least_work.STRATEGY,
    Strategy.SESSION_AFFINITY: session_affinity.STRATEGY,
    Strategy.PREFIX_AFFINITY: prefix_affinity.STRATEGY,
    Strategy.LOWEST_LATENCY: lowest_latency.STRATEGY,
    Strategy.CHEAPEST: cheapest.STRATEGY,
}
