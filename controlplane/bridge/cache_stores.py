"""What gateways say now of the tiers they keep answers in, and of the entries that saved most."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.bridge.vitals import Fleet
from inference.contract.kinds import CacheTier
from inference.contract.vitals import TierGauge, TopEntry

SHARED_TIERS = frozenset({CacheTier.SHARED, CacheTier.SEMANTIC})
"""Tiers of which all processes tell the same."""

MOST_ENTRIES = 20


@dataclass(frozen=True, slots=True)
class TierState:
    """A tier over all living processes; None is not known. `down` of `processes` can't ask it."""

    tier: CacheTier
    entries: int | None
    bytes: int | None
    bytes_max: int | None
    evictions: int | None
    errors: int
    processes: int
    down: int


def tiers_of(fleet: Fleet) -> Sequence[TierState]:
    """Each tier any process tells of: of local ones the sums, of shared ones what the most say."""
    gauges: dict[CacheTier, list[TierGauge]] = {}
    for process in fleet.gateways:
        for gauge in process.tiers:
            gauges.setdefault(gauge.tier, []).append(gauge)
    return [_state(tier, gauges[tier]) for tier in CacheTier if tier in gauges]


def _state(tier: CacheTier, gauges: Sequence[TierGauge]) -> TierState:
    join = _most if tier in SHARED_TIERS else _sum
    return TierState(
        tier=tier,
        entries=join(one.entries for one in gauges),
        bytes=join(one.bytes for one in gauges),
        bytes_max=join(one.bytes_max for one in gauges),
        evictions=join(one.evictions_total for one in gauges),
        errors=sum(one.errors_total for one in gauges),
        processes=len(gauges),
        down=sum(one.is_down for one in gauges),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def top_entries(fleet: Fleet, policies: Mapping[str, str]) -> Sequence[TopEntry]:
    """The entries of these policies that were hit most, over all processes.

    `policies` are those of one organisation: what others keep is nobody's business here.
    """
    found: dict[str, TopEntry] = {}
    for process in fleet.gateways:
        for entry in process.top_entries:
            if entry.policy_id in policies:
                known = found.get(entry.entry_id)
                found[entry.entry_id] = entry if known is None else _joined(known, entry)
    return sorted(found.values(), key=lambda one: (-one.hits, one.entry_id))[:MOST_ENTRIES]


def _joined(one: TopEntry, other: TopEntry) -> TopEntry:
    """The same entry at two processes: hits and savings add up, an unknown saving stays one."""
    saved = None
    if one.saved_nanousd is not None and other.saved_nanousd is not None:
        saved = one.saved_nanousd + other.saved_nanousd
    return TopEntry(
        entry_id=one.entry_id,
        policy_id=one.policy_id,
        route_id=one.route_id,
        tier=one.tier,
        hits=one.hits + other.hits,
        bytes=max(one.bytes, other.bytes),
        stored_at=max(one.stored_at, other.stored_at),
        saved_nanousd=saved,
    )
