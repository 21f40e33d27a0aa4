"""Cache policies and purges to records of the contract."""

from collections.abc import Iterable
from typing import Any

import msgspec

from controlplane.models import CachePolicy, Purge
from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass
from inference.contract.snapshot import CachePolicyRecord, MatchRecord, PurgeRecord


def cache_policies() -> Iterable[CachePolicyRecord]:
    """Every policy, whether a route has it or not."""
    return map(_policy_record, CachePolicy.objects.all())


def matches_of(stored: object) -> tuple[MatchRecord, ...]:
    """Conditions as they are stored, or msgspec.ValidationError."""
    return msgspec.convert(stored, tuple[MatchRecord, ...])


def stored_matches(matches: Iterable[MatchRecord]) -> list[Any]:
    """Conditions as a row stores them: plain JSON."""
    stored: list[Any] = msgspec.json.decode(msgspec.json.encode(tuple(matches)))
    return stored


def _policy_record(row: CachePolicy) -> CachePolicyRecord:
    return CachePolicyRecord(
        id=row.pk,
        organisation_id=row.organisation_id,
        name=row.name,
        tiers=tuple(CacheTier(one) for one in row.tiers),
        scope=CacheScope(row.scope),
        ttl_s={TaskClass(task): seconds for task, seconds in row.ttl_s.items()},
        stores_sampled=row.stores_sampled,
        stores_tool_calls=row.stores_tool_calls,
        serves_out_of_budget=row.serves_out_of_budget,
        similarity_min=row.similarity_min,
        check_percent=row.check_percent,
        stale_s=row.stale_s,
        bypass=matches_of(row.bypass),
        max_entry_bytes=row.max_entry_bytes,
        memory_percent=row.memory_percent,
        edge_s=row.edge_s,
        is_enabled=row.is_enabled,
    )


def live_purges() -> Iterable[PurgeRecord]:
    """Of those about the very same the last, for the greatest epoch is all that counts."""
    rows = Purge.objects.order_by("organisation_id", "kind", "value", "-epoch")
    for row in rows.distinct("organisation_id", "kind", "value"):
        yield PurgeRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            kind=PurgeKind(row.kind),
            value=row.value,
            epoch=row.epoch,
        )
