"""The strategies there are, by kind."""

from collections.abc import Mapping

from inference.contract.kinds import Strategy
from inference.decisions.routing.base import RoutingStrategy
from inference.decisions.routing.strategies import least_work, weighted

REGISTRY: Mapping[Strategy, RoutingStrategy] = {
    Strategy.WEIGHTED: weighted.STRATEGY,
    Strategy.LEAST_WORK: least_work.STRATEGY,
}
