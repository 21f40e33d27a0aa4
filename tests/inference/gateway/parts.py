"""Parts of a gateway that a test can read and set: its books and its configuration."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from inference.contract.events import Charge, End, Opening
from inference.contract.snapshot import ConfigSnapshot
from inference.journal import JournalUnavailable


@dataclass
class MemoryBooks:
    """Books in memory. While `is_full`, nothing can be written; `wrote` is called after each."""

    openings: list[Opening] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    is_full: bool = False
    wrote: Callable[[Opening | End], None] | None = None

    async def open(self, opening: Opening) -> None:
        await asyncio.sleep(0)
        self._check()
        self.openings.append(opening)
        if self.wrote is not None:
            self.wrote(opening)

    async def close(self, end: End) -> int:
        await asyncio.sleep(0)
        self._check()
        numbered = replace(end, journal="jnl_test", seq=len(self.ends) + 1)
        self.ends.append(numbered)
        if self.wrote is not None:
            self.wrote(numbered)
        return numbered.seq

    def _check(self) -> None:
        if self.is_full:
            raise JournalUnavailable("full")

    @property
    def end(self) -> End:
        """The only end there is."""
        assert len(self.ends) == 1, self.ends
        return self.ends[0]

    @property
    def charge(self) -> Charge:
        """The only charge of the only end."""
        assert len(self.end.charges) == 1, self.end.charges
        return self.end.charges[0]


@dataclass
class Holder:
    """Where the gateway finds its configuration."""

    current: ConfigSnapshot | None


@dataclass
class StateStore:
    """What the gateway knows of the state store."""

    is_up: bool = True
