"""Which rules a replay could not judge: they look at headers that were not written down."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.decisions.header_rules import LookedAt, known_headers, unjudged_rules
from controlplane.selectors.snapshots import list_headers_looked_at
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.facts import standing_of
from inference.decisions.plan import find_route
from inference.decisions.replay import Recorded
from inference.decisions.rules import Circumstances, headers_of

Row = Mapping[str, Any]


def count_unjudged(
    sides: Mapping[str, ConfigSnapshot],
    route_id: str,
    requests: Sequence[Recorded],
    rows: Sequence[Row],
) -> list[dict[str, object]]:
    """By side and rule of the route, how many of these requests it may have taken or not.

    `rows` are the requests' own, in their order. Rules that could be judged are left out.
    """
    routes = {side: _route_in(snapshot, route_id) for side, snapshot in sides.items()}
    looking = {side: one for side, one in routes.items() if one is not None and headers_of(one)}
    if not looking:
        return []
    looked_at = list_headers_looked_at({(row["lineage"], row["version"]) for row in rows})
    found: list[dict[str, object]] = []
    for side, route in looking.items():
        counts = _counts(sides[side], route, requests, rows, looked_at)
        found += [
            {
                "side": side,
                "rule_id": rule.id,
                "rule": rule.name,
                "headers": sorted({name for name, _ in rule.when.headers}),
                "requests": counts[rule.id],
            }
            for rule in route.rules
            if counts[rule.id]
        ]
    return found


def _route_in(snapshot: ConfigSnapshot, route_id: str) -> RouteRecord | None:
    return next((one for one in snapshot.routes.values() if one.id == route_id), None)


def _counts(
    snapshot: ConfigSnapshot,
    route: RouteRecord,
    requests: Sequence[Recorded],
    rows: Sequence[Row],
    looked_at: LookedAt,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    keys = {one.id: one for bucket in snapshot.keys.values() for one in bucket.values()}
    owner = snapshot.organisations.get(route.organisation_id)
    zone = "UTC" if owner is None else owner.time_zone
    for request, row in zip(requests, rows, strict=True):
        key = keys[request.key_id]
        if find_route(snapshot, key, request.facts.model) is not route:
            continue
        known = known_headers(
            looked_at, lineage=row["lineage"], version=row["version"], route_id=row["route_id"]
        )
        case = _case(request, key, route, zone)
        counts.update(one.id for one in unjudged_rules(route, case, known))
    return counts


def _case(request: Recorded, key: KeyRecord, route: RouteRecord, zone: str) -> Circumstances:
    standing = standing_of(request.facts, key, route)
    return Circumstances(request.facts, standing, key, request.arrived_s, zone)
