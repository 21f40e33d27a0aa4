"""What the configuration wants of this gateway itself, as one of its processes reads it."""

from collections.abc import Callable

from inference.contract.snapshot import ConfigSnapshot, GatewayRecord
from inference.gateway.control import Wanted


class Wishes:
    """Tells the parent what is wanted, at the first snapshot and whenever it changes.

    `restart_generation` is the restart this process is the result of: the one it was started for,
    or, of a gateway that was just started, the one in the first snapshot.
    """

    def __init__(
        self, gateway: str, *, generation: int | None, tell: Callable[[Wanted], None]
    ) -> None:
        self._gateway = gateway
        self._generation = generation
        self._tell = tell
        self._told: Wanted | None = None

    @property
    def restart_generation(self) -> int:
        return self._generation or 0

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Read a new configuration; a listener, so it may not fail."""
        record = snapshot.gateways.get(self._gateway) or GatewayRecord(self._gateway)
        if self._generation is None:
            self._generation = record.restart_generation
        wanted = Wanted(record.restart_generation, record.is_drained)
        if wanted != self._told:
            self._told = wanted
            self._tell(wanted)
