"""The strategies there are, by kind."""

from collections.abc import Mapping

from inference.contract.kinds import Strategy
from inference.decisions.routing.base import OrderTargets
from inference.decisions.routing.strategies import weighted

REGISTRY: Mapping[Strategy, OrderTargets] = {
    Strategy.WEIGHTED: weighted.order_targets,
}
