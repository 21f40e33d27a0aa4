"""The sampler's tick: what every process says of itself now, into the tables of live figures.

It holds nothing between ticks. Records carry their last buckets whole and rows are whole values, so
a tick that fails, comes late or is done twice loses and changes nothing.
"""

from dataclasses import dataclass
from datetime import datetime

from controlplane.bridge.vitals import read_reports
from controlplane.decisions.propagation import Propagation
from controlplane.services.live import Census, record_sample


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """What a tick found: whether the state store answered, and how many gateways live and exist."""

    is_store_up: bool
    live: int = 0
    seen: int = 0


def sample(now: datetime) -> SampleOutcome:
    """Read all vitals and write them; a store that doesn't answer is an outcome, not an error.

    Raises what the database raises; then nothing of this tick is written, and the next one does it.
    """
    reports = read_reports()
    if reports is None:
        return SampleOutcome(is_store_up=False)
    found = reports.propagation
    record_sample(reports.vitals, _census_of(found), now=now)
    return SampleOutcome(is_store_up=True, live=found.live, seen=found.seen)


def _census_of(found: Propagation) -> Census:
    partly = {one.name: one for one in found.partly}
    return Census(found.live, found.seen, [partly.get(name, name) for name in found.missing])
