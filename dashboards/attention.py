"""What needs a person now: facts that are there, the gravest first, and nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from dashboards import words
from dashboards.base import PoolLine, Scene
from dashboards.kinds import NeedKind
from dashboards.ladders import step_words

MANY_FAILURES, MOST_FAILURES = 0.05, 0.5
"""One in twenty is more than a retry hides; at one in two the service is down for its callers."""

_PARTLY_SILENT = "Its other processes serve; it does not count as live until all of them report."

_TROUBLED = {"down": "crit", "degraded": "warn", "unknown": "idle"}
_SEVERITIES = {"critical": "crit", "warning": "warn", "notice": "idle"}
_ICONS = {"crit": "crit", "warn": "warn", "idle": "nodata"}


@dataclass(frozen=True, slots=True)
class Need:
    """One thing: how grave (crit, warn or idle), what, and in a sentence why.

    `pool_id`, `alert_id` and `budget_id` link.
    """

    kind: NeedKind
    tone: str
    title: str
    detail: str
    pool_id: str = ""
    alert_id: str = ""
    budget_id: str = ""

    @property
    def icon(self) -> str:
        return _ICONS[self.tone]


def needs_of(scene: Scene) -> Sequence[Need]:
    """All of them."""
    found = [
        *_alerts(scene),
        *_store(scene),
        *_gateways(scene),
        *_failures(scene),
        *_pools(scene.pools),
    ]
    found += [*_ladders(scene), *_budgets(scene), *_costs(scene)]
    return sorted(found, key=lambda one: list(_ICONS).index(one.tone))


def _alerts(scene: Scene) -> Iterator[Need]:
    for one in scene.alerts:
        tone = _SEVERITIES[one.severity]
        yield Need(NeedKind.ALERT, tone, one.title, one.detail, alert_id=one.id)


def _store(scene: Scene) -> Iterator[Need]:
    if not scene.has_store:
        detail = "Gateways serve on; figures stop."
        yield Need(NeedKind.STORE, "crit", "The state store is not answering", detail)


def _gateways(scene: Scene) -> Iterator[Need]:
    coverage = scene.view.coverage
    if scene.has_store and coverage.seen == 0:
        detail = "None has said anything within the last 10 minutes."
        yield Need(NeedKind.NO_GATEWAY, "crit", "No gateway reports", detail)
    if coverage.silent:
        title = _silent(coverage.silent)
        yield Need(NeedKind.SILENT_GATEWAY, "crit", title, coverage_sentence(scene))
    for one in coverage.partly:
        yield Need(NeedKind.SILENT_GATEWAY, "warn", one.words, _PARTLY_SILENT)
    for one in scene.refusals:
        version = "a version" if one.version is None else f"version {one.version}"
        title, detail = f"{one.gateway} refused {version}", one.why or "It runs the one before."
        yield Need(NeedKind.REFUSED_VERSION, "warn", title, detail)


def _pools(pools: Sequence[PoolLine]) -> Iterator[Need]:
    for pool in pools:
        tone = _TROUBLED.get(pool.state)
        if tone is None:
            continue
        ready = "" if pool.ready is None else f"{pool.ready} of {pool.wanted} ready"
        detail = ": ".join(part for part in (ready, pool.reason) if part)
        title = {"down": "has no ready worker", "degraded": "is degraded"}.get(
            pool.state, "can't be judged"
        )
        yield Need(NeedKind.POOL, tone, f"{pool.name} {title}", detail, pool.id)


def _ladders(scene: Scene) -> Iterator[Need]:
    for one in scene.view.ladders:
        if one.now:
            title = f"{one.label} serves less well"
            yield Need(NeedKind.DEGRADED, "warn", title, f"{step_words(one, scene)}.")


def _failures(scene: Scene) -> Iterator[Need]:
    share = scene.view.summary.failure_share
    if share is not None and share >= MANY_FAILURES:
        tone = "crit" if share >= MOST_FAILURES else "warn"
        title = f"{words.per_cent(share)} of requests failed"
        yield Need(NeedKind.FAILURES, tone, title, "In the last minute, by us or a worker.")


def _budgets(scene: Scene) -> Iterator[Need]:
    for one in scene.refusing:
        many = words.count(one.requests, "request")
        detail = f"{many} within the hour. {one.owner}".strip()
        title = f"The budget {one.name} refuses requests"
        yield Need(NeedKind.BUDGET, "warn", title, detail, budget_id=one.id)


def _costs(scene: Scene) -> Iterator[Need]:
    if scene.view.summary.has_unknown_cost:
        detail = "Their model lacks one; costs leave them out."
        yield Need(NeedKind.NO_PRICE, "warn", "Some requests have no price", detail)


def gap_needs_of(scene: Scene) -> Sequence[Need]:
    """Buckets nobody told anything of, while there are gateways; only a whole window knows.

    What lies before the first covered bucket is no gap: nothing ran yet, or nothing was kept. Nor
    is the bucket that has just begun.
    """
    view = scene.view
    ended = view.covered[:-1] if scene.is_partial else view.covered
    begun = list(dropwhile(lambda share: share == 0, ended))
    blank = sum(share == 0 for share in begun)
    if not blank or not scene.has_store or not view.coverage.seen:
        return ()
    buckets = words.count(len(view.covered), "bucket")
    verb = "has" if blank == 1 else "have"
    detail = "No gateway reported then; it is shown as a gap, not as 0."
    return (Need(NeedKind.NO_DATA, "idle", f"{blank} of {buckets} {verb} no data", detail),)


def coverage_sentence(scene: Scene) -> str:
    """Which gateways the figures come from: `1 of 2 gateways report: gw-b is silent`."""
    coverage = scene.view.coverage
    if coverage.seen == 0:
        return "No gateway reports"
    noun = "gateway" if coverage.seen == 1 else "gateways"
    verb = "reports" if coverage.seen == 1 else "report"
    told = f"{coverage.live} of {coverage.seen} {noun} {verb}"
    if not coverage.missing:
        return told
    silent = [_silent(coverage.silent)] if coverage.silent else []
    if not coverage.partly:
        return f"{told}: {silent[0]}"
    partly = [one.words for one in coverage.partly]
    return "; ".join((f"{told} in full", *silent, *partly))


def _silent(names: Sequence[str]) -> str:
    return f"{words.named(names)} {'is' if len(names) == 1 else 'are'} silent"
