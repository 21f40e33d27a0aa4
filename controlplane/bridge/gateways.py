"""Gateways: what is wanted of each beside what it says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.bridge.vitals import read_propagation
from controlplane.decisions.propagation import DrainState, GatewayFacts, Propagation
from controlplane.errors import Conflict, NotFound
from controlplane.models import GatewaySetting
from controlplane.selectors.gateways import list_gateway_settings


@dataclass(frozen=True, slots=True)
class GatewayNow:
    """One gateway. `facts` is None if it wasn't seen lately, `version` 0 if nothing was set yet."""

    name: str
    is_drained: bool
    restart_generation: int
    version: int
    facts: GatewayFacts | None
    setting_id: str = ""

    @property
    def state(self) -> DrainState:
        """Whether it serves, as it says itself."""
        if self.facts is None:
            return DrainState.UNKNOWN
        return self.facts.drain_state(is_wanted=self.is_drained)

    @property
    def is_restarting(self) -> bool:
        """Whether a process of it runs that is to be replaced yet."""
        reached = None if self.facts is None else self.facts.restart_generation
        return reached is not None and reached < self.restart_generation


@dataclass(frozen=True, slots=True)
class GatewaysNow:
    """All gateways by name: those seen lately and those something is wanted of.

    `propagation` is None, and nothing is known of the former, if the state store doesn't answer.
    """

    propagation: Propagation | None
    gateways: Sequence[GatewayNow]

    def named(self, name: str) -> GatewayNow:
        """The gateway of this name; raises NotFound, or Conflict if nobody can tell now."""
        found = next((one for one in self.gateways if one.name == name), None)
        if found is None and self.propagation is None:
            raise Conflict(
                "The state store isn't answering, so nobody can tell which gateways there are."
            )
        if found is None:
            raise NotFound("No gateway of this name was seen lately.")
        return found


def read_gateways() -> GatewaysNow:
    """Read rows and vitals, and put them together."""
    propagation = read_propagation()
    facts = {} if propagation is None else {one.name: one for one in propagation.gateways}
    rows = list_gateway_settings()
    names = sorted({*facts, *rows})
    return GatewaysNow(
        propagation, [_gateway(name, rows.get(name), facts.get(name)) for name in names]
    )


def _gateway(name: str, row: GatewaySetting | None, facts: GatewayFacts | None) -> GatewayNow:
    if row is None:
        return GatewayNow(name, False, 0, 0, facts)
    return GatewayNow(name, row.is_drained, row.restart_generation, row.version, facts, row.pk)
