"""What a serving process says of itself."""

import time
from collections.abc import Callable

from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Vitals
from inference.fleet.peers import Identity
from inference.gateway.services import Services
from inference.gateway.wishes import Wishes
from inference.journal import Journal
from inference.settings import Settings
from inference.snapshots.holder import SnapshotHolder


def vitals_of(
    settings: Settings,
    services: Services,
    holder: SnapshotHolder,
    journal: Journal,
    wishes: Wishes,
    identity: Identity,
) -> Callable[[], Vitals]:
    """What a serving process says of itself."""
    pid, started_at = identity

    def record() -> Vitals:
        return Vitals(
            role=ProcessRole.GATEWAY,
            gateway=settings.gateway_id,
            process=services.gateway,
            pid=pid,
            started_at=started_at,
            written_at=time.time(),
            applied=holder.applied,
            directory_generation=services.fleet.directory_generation,
            directory_token=services.fleet.directory_token,
            inflight=services.fleet.tell_inflight(services.stopwatch()),
            arrivals_total=services.metrics.arrivals_total,
            events_lost_total=journal.events_lost_total,
            events_lost_at=journal.events_lost_at,
            journal_backlog=journal.backlog,
            traffic=services.traffic.records(mono_s=services.stopwatch()),
            prefill_tokens=services.fleet.prefill_tokens(),
            breakers=services.fleet.breakers(services.stopwatch()),
            restart_generation=wishes.restart_generation,
            is_draining=services.is_draining,
            requests=services.metrics.requests,
            queued=services.waiting.depths(),
            oldest_wait_ms=services.waiting.oldest_waits_ms(),
            degraded=services.ladders.taken(),
            tiers=() if services.caches is None else services.caches.gauges(),
            top_entries=() if services.caches is None else services.caches.top_entries(),
        )

    return record
