"""What caches saved, how alike hits were, and which were false: from roll-ups alone.

Everybody's traffic is in them, so they are for roles of the whole organisation.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet, Sum
from django.db.models.functions import Trunc

from controlplane.decisions.cache_calibration import Rate, Steps, rate_of
from controlplane.decisions.cache_rollups import ASKED, SERVED, Verdict
from controlplane.decisions.rollups import hour_of
from controlplane.models import CacheHour, CacheSimilarity, FalseHit, Organisation, Route, UsageHour
from controlplane.selectors.access import Access
from inference.contract.kinds import CacheOutcome, CacheTier

MOST_FALSE_HITS = 100


class CacheRange(StrEnum):
    """How far back a page looks."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"


_SPANS: Mapping[CacheRange, timedelta] = {
    CacheRange.DAY: timedelta(days=1),
    CacheRange.WEEK: timedelta(days=7),
    CacheRange.MONTH: timedelta(days=30),
}
_SERVED = frozenset(one.value for one in SERVED)
_ASKED = frozenset(one.value for one in ASKED)

_SUMS = (
    *("requests", "prompt_tokens", "completion_tokens", "saved_nanousd", "unknown_saved"),
    *("saved_ms", "inputs", "inputs_hit"),
)


@dataclass(slots=True)
class Savings:
    """What was served from caches and what that saved; `unknown_saved` of it have no price.

    Batches of embeddings of which a part was kept saved that part and are none of the `requests`.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    nanousd: int = 0
    unknown_saved: int = 0
    ms: float = 0.0

    @property
    def saved_nanousd(self) -> int | None:
        """What is known of it: 0 where nothing was saved, None where nothing of it has a price."""
        if self.nanousd or not self.unknown_saved:
            return self.nanousd
        return None if self.unknown_saved >= self.requests else 0

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was served, not even a part."""
        return not (self.requests or self.prompt_tokens or self.nanousd or self.unknown_saved)

    def add(self, row: Mapping[str, object]) -> None:
        """Take in a row of sums: of outcomes that are none of SERVED, what parts saved."""
        if row["outcome"] in _SERVED:
            self.requests += _whole(row["requests"])
        self.prompt_tokens += _whole(row["prompt_tokens"])
        self.completion_tokens += _whole(row["completion_tokens"])
        self.nanousd += _whole(row["saved_nanousd"])
        self.unknown_saved += _whole(row["unknown_saved"])
        self.ms += float(str(row["saved_ms"]))


@dataclass(slots=True)
class Part:
    """Of one bucket, tier or route: for how many a cache was looked into, and what it served."""

    asked: int = 0
    served: Savings = field(default_factory=Savings)

    @property
    def hit_rate(self) -> float | None:
        """The share that was served, None where nothing was asked."""
        return self.served.requests / self.asked if self.asked else None


@dataclass(frozen=True, slots=True)
class RoutePart:
    """A route's part. `threshold` is what its hits by meaning are held to now."""

    route_id: str
    name: str
    part: Part
    threshold: float | None
    false_hits: Rate


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What caches did in a range, in buckets of the organisation's clock.

    `engine_hit_rate` is the share of prompt tokens that engines had in their own prefix caches;
    None where none told of any.
    """

    since: datetime
    until: datetime
    is_hourly: bool
    zone: ZoneInfo
    total: Part
    outcomes: Mapping[str, int]
    tiers: Mapping[str, Savings]
    buckets: Mapping[datetime, Mapping[str, Part]]
    routes: Sequence[RoutePart]
    engine_hit_rate: float | None
    inputs: int
    inputs_hit: int


def get_cache_report(
    access: Access,
    organisation: Organisation,
    asked: CacheRange,
    now: datetime,
    *,
    route_id: str | None = None,
) -> CacheReport:
    """The report of a range that ends now; of one route alone if it is named."""
    zone = ZoneInfo(organisation.time_zone)
    since = hour_of(now, zone) + timedelta(hours=1) - _SPANS[asked]
    is_hourly = asked is CacheRange.DAY
    if not is_hourly:
        since = since.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = _hours(access, organisation, since, route_id)
    bucket = Trunc("hour", "hour" if is_hourly else "day", tzinfo=zone)
    grouped = rows.annotate(bucket=bucket).values("bucket", "route_id", "outcome", "tier")
    told = _summed(grouped)
    return CacheReport(
        since=since,
        until=now,
        is_hourly=is_hourly,
        zone=zone,
        total=_part(told),
        outcomes=_outcomes(told),
        tiers=_by_tier(told),
        buckets=_buckets(told),
        routes=_routes(access, organisation, told, since),
        engine_hit_rate=_engine_hit_rate(access, organisation, since, route_id),
        inputs=sum(row["inputs"] for row in told),
        inputs_hit=sum(row["inputs_hit"] for row in told),
    )


def get_similarities(
    access: Access, organisation: Organisation, since: datetime, *, route_id: str | None = None
) -> Steps:
    """How many of the nearest were so alike, by step and verdict."""
    rows = access.visible_organisation_wide(
        CacheSimilarity.objects.filter(organisation_id=organisation.pk, hour__gte=since)
    )
    if route_id is not None:
        rows = rows.filter(route_id=route_id)
    found = rows.values_list("step", "verdict").annotate(total=Sum("requests"))
    return {(step, verdict): total for step, verdict, total in found}


def get_saved_since(access: Access, organisation: Organisation, since: datetime) -> int | None:
    """What caches saved since then: 0 if nothing, None where nothing of it has a price.

    None too for a role that doesn't reach the whole organisation.
    """
    if not access.reads_organisation(organisation.pk):
        return None
    saved = Savings()
    for row in _summed(_hours(access, organisation, since, None).values("outcome")):
        saved.add(row)
    return saved.saved_nanousd


def list_false_hits(access: Access, organisation: Organisation) -> QuerySet[FalseHit]:
    """False hits of the organisation, the newest first."""
    rows = FalseHit.objects.filter(organisation_id=organisation.pk)
    return access.visible_organisation_wide(rows).order_by("-at", "event_id")


def list_checks_by_route(organisation_id: str, since: datetime) -> Mapping[str, Steps]:
    """Checks of an organisation's routes, by step and verdict. For services."""
    return _checks(CacheSimilarity.objects.filter(organisation_id=organisation_id), since)


def list_checks_of_routes(route_ids: Sequence[str], since: datetime) -> Mapping[str, Steps]:
    """Checks of these routes, by step and verdict. For alerts."""
    return _checks(CacheSimilarity.objects.filter(route_id__in=list(route_ids)), since)


def _checks(asked: QuerySet[CacheSimilarity], since: datetime) -> Mapping[str, Steps]:
    verdicts = (Verdict.AGREED.value, Verdict.DIFFERED.value)
    rows = asked.filter(hour__gte=since, verdict__in=verdicts)
    found: dict[str, dict[tuple[int, str], int]] = defaultdict(dict)
    for row in rows.values("route_id", "step", "verdict").annotate(total=Sum("requests")):
        found[row["route_id"]][row["step"], row["verdict"]] = row["total"]
    return found


def _hours(
    access: Access, organisation: Organisation, since: datetime, route_id: str | None
) -> QuerySet[CacheHour]:
    rows = CacheHour.objects.filter(organisation_id=organisation.pk, hour__gte=since)
    rows = access.visible_organisation_wide(rows)
    return rows if route_id is None else rows.filter(route_id=route_id)


def _summed(grouped: QuerySet[CacheHour, dict[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The sums of each group, by the names of their columns."""
    sums = grouped.annotate(**{f"sum_{name}": Sum(name) for name in _SUMS})
    return [{**row, **{name: row[f"sum_{name}"] for name in _SUMS}} for row in sums]


def _part(rows: Sequence[Mapping[str, object]]) -> Part:
    part = Part()
    for row in rows:
        _take(part, row)
    return part


def _take(part: Part, row: Mapping[str, object]) -> None:
    if row["outcome"] in _ASKED:
        part.asked += _whole(row["requests"])
    part.served.add(row)


def _outcomes(rows: Sequence[Mapping[str, object]]) -> Mapping[str, int]:
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        found[str(row["outcome"])] += _whole(row["requests"])
    return {one.value: found[one.value] for one in CacheOutcome if one.value in found}


def _by_tier(rows: Sequence[Mapping[str, object]]) -> Mapping[str, Savings]:
    found: dict[str, Savings] = defaultdict(Savings)
    for row in rows:
        found[str(row["tier"])].add(row)
    found = {tier: one for tier, one in found.items() if not one.is_nothing}
    order = ["", *(one.value for one in CacheTier)]
    return {tier: found[tier] for tier in sorted(found, key=order.index)}


def _buckets(rows: Sequence[Mapping[str, object]]) -> Mapping[datetime, Mapping[str, Part]]:
    """By bucket and tier; `all` is every tier's."""
    found: dict[datetime, dict[str, Part]] = defaultdict(lambda: defaultdict(Part))
    for row in rows:
        at = row["bucket"]
        assert isinstance(at, datetime)
        for name in ("all", str(row["tier"])):
            _take(found[at][name], row)
    return {at: dict(found[at]) for at in sorted(found)}


def _routes(
    access: Access,
    organisation: Organisation,
    rows: Sequence[Mapping[str, object]],
    since: datetime,
) -> Sequence[RoutePart]:
    parts: dict[str, Part] = defaultdict(Part)
    for row in rows:
        _take(parts[str(row["route_id"])], row)
    there = access.visible(Route.objects.filter(pk__in=list(parts)).select_related("cache_policy"))
    routes = {route.pk: route for route in there}
    checks = list_checks_by_route(organisation.pk, since)
    found = []
    for pk, part in parts.items():
        route = routes.get(pk)
        steps = checks.get(pk, {})
        false_hits = sum(n for (_, verdict), n in steps.items() if verdict == Verdict.DIFFERED)
        name = pk if route is None else route.name
        rate = rate_of(false_hits, sum(steps.values()))
        found.append(RoutePart(pk, name, part, threshold_of(route), rate))
    return sorted(found, key=lambda one: (-one.part.served.nanousd, one.name))


def threshold_of(route: Route | None) -> float | None:
    """What a route's hits by meaning are held to: its own threshold, or its policy's."""
    if route is None or route.cache_policy is None:
        return None
    own = route.similarity_min
    return route.cache_policy.similarity_min if own is None else own


def _engine_hit_rate(
    access: Access, organisation: Organisation, since: datetime, route_id: str | None
) -> float | None:
    rows = UsageHour.objects.filter(
        organisation_id=organisation.pk, hour__gte=since, dimension="route"
    )
    if route_id is not None:
        rows = rows.filter(value=route_id)
    sums = access.visible_organisation_wide(rows).aggregate(
        read=Sum("prompt_tokens"), kept=Sum("cached_tokens")
    )
    # sums don't tell zero from never told; engines that tell of their caches hit them at times
    return sums["kept"] / sums["read"] if sums["kept"] else None


def _whole(value: object) -> int:
    return int(str(value))
