"""`/-/status`: what is down, asked by whoever can't sign in because of it.

It needs no login, no session and no row. 200 when everything answers, 503 when database, state or
cache doesn't; the body names it either way. `jobs` tells how old the last beat of the background
jobs is, `gateways` and `pools` what their processes say of themselves: they are reported, and don't
turn the answer red, because pages and API work without them. Nobody has signed in, so no address,
no name and no message that may hold one is told.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import psycopg
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from controlplane.bridge.vitals import Fleet, read_fleet
from controlplane.error_responses import bare_page
from controlplane.tasks.heartbeat import HEARTBEAT_KEY
from inference.contract.kinds import WorkerState

PROBE_TIMEOUT_S = 1.0
JOBS_STALE_S = 60.0

Probe = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing the console stands on. `state` is ok, down, stale, degraded or unknown."""

    name: str
    state: str
    detail: str = ""
    took_ms: float | None = None
    age_s: float | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


async def probe_database() -> None:
    """Return if the database answers a query."""
    connection = await psycopg.AsyncConnection.connect(
        settings.HEADWORKS.database_url.get_secret_value(), connect_timeout=2, autocommit=True
    )
    async with connection:
        await connection.execute("SELECT 1")


def _store(url: str) -> Redis:
    return Redis.from_url(
        url,
        socket_timeout=PROBE_TIMEOUT_S,
        socket_connect_timeout=PROBE_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


async def probe_store(url: str) -> None:
    """Return if a store answers a ping."""
    async with _store(url) as store:
        await store.ping()


async def probe(name: str, ask: Probe) -> Part:
    """Ask one part, for a second at most."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await ask()
    except TimeoutError:
        return Part(name, "down", "no answer in time")
    except (OSError, psycopg.Error, RedisError) as error:
        # only the kind: the message may name hosts and users
        return Part(name, "down", type(error).__name__)
    return Part(name, "ok", took_ms=round((time.monotonic() - began) * 1_000, 1))


async def probe_jobs() -> Part:
    """Tell how long ago the background jobs last beat."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            async with _store(settings.HEADWORKS.state_url.get_secret_value()) as store:
                beat = await store.get(HEARTBEAT_KEY)
    except (TimeoutError, OSError, RedisError):
        return Part("jobs", "unknown", "the state store is not answering")
    if beat is None:
        return Part("jobs", "unknown", "no beat seen yet")
    age_s = max(0.0, time.time() - float(beat))
    return Part("jobs", "stale" if age_s > JOBS_STALE_S else "ok", age_s=round(age_s, 1))


async def probe_fleet() -> tuple[Part, Part]:
    """Tell how gateways and pools are, by what their processes last said."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            fleet = await asyncio.to_thread(read_fleet)
    except TimeoutError:
        fleet = None
    if fleet is None:
        why = "the state store is not answering"
        return Part("gateways", "unknown", why), Part("pools", "unknown", why)
    return gateways_part(fleet), pools_part(fleet)


def gateways_part(fleet: Fleet) -> Part:
    """The processes that serve: degraded without any, or if one refused or lost something."""
    gateways = fleet.gateways
    versions = Counter(one.applied.version for one in gateways)
    refusals = {
        (one.applied.refused_version, _place_of(one.applied.refused_why))
        for one in gateways
        if one.applied.refused_why is not None
    }
    lost = sum(one.events_lost_total for one in gateways)
    troubles = {
        "no gateway is running": not gateways,
        "a version was refused": bool(refusals),
        "events were lost": lost > 0,
    }
    facts = {
        "processes": len(gateways),
        "versions": [
            {"version": version, "processes": count}
            for version, count in sorted(versions.items(), key=lambda one: one[0] or 0)
        ],
        "refused": [
            {"version": version, "why": why}
            for version, why in sorted(refusals, key=lambda one: (one[0] or 0, one[1]))
        ],
        "events_lost": lost,
        "journal_backlog": sum(one.journal_backlog for one in gateways),
    }
    return _reported("gateways", troubles, facts)


def pools_part(fleet: Fleet) -> Part:
    """Who starts the workers, and which aren't ready: degraded without a leader or by failures."""
    failing = (WorkerState.FAILED, WorkerState.BACKING_OFF)
    troubles = {
        "no supervisor leads": not fleet.has_leader,
        "the directory can't be read": fleet.workers is None,
        "workers fail": any(worker.state in failing for worker in fleet.workers or ()),
    }
    facts: dict[str, object] = {"leader": fleet.has_leader}
    if fleet.workers is not None:
        counts = Counter(worker.state.value for worker in fleet.workers)
        facts["workers"] = dict(sorted(counts.items()))
        facts["not_ready"] = [
            {"id": worker.id, "state": worker.state.value}
            for worker in fleet.workers
            if worker.state is not WorkerState.READY
        ]
    return _reported("pools", troubles, facts)


def _place_of(why: str | None) -> str:
    """Where a refused version is at fault; what's wrong there may name things, and stays out."""
    return (why or "").partition(": ")[0]


def _reported(name: str, troubles: Mapping[str, bool], facts: Mapping[str, object]) -> Part:
    told = [trouble for trouble, is_so in troubles.items() if is_so]
    return Part(name, "degraded" if told else "ok", "; ".join(told), facts=facts)


async def gather_parts() -> Sequence[Part]:
    """Ask everything at once, so that the answer takes as long as the slowest part."""
    settings_of_process = settings.HEADWORKS
    state_url = settings_of_process.state_url.get_secret_value()
    asked = [
        probe("database", probe_database),
        probe("state", lambda: probe_store(state_url)),
    ]
    if settings_of_process.cache_url is not None:
        cache_url = settings_of_process.cache_url.get_secret_value()
        asked.append(probe("cache", lambda: probe_store(cache_url)))
    answers, jobs, fleet = await asyncio.gather(asyncio.gather(*asked), probe_jobs(), probe_fleet())
    return [*answers, jobs, *fleet]


def _said(part: Part) -> dict[str, object]:
    told = asdict(part)
    facts = told.pop("facts")
    return {name: value for name, value in told.items() if value not in ("", None)} | facts


@require_safe
async def status(request: HttpRequest) -> HttpResponse:
    """Name what is down, as JSON or, for a browser, as a small page."""
    parts = await gather_parts()
    down = [part.name for part in parts if part.state == "down"]
    code = 503 if down else 200
    if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
        told = {"parts": parts, "down": down}
        return bare_page(request, "status.html", told, status=code)
    body = {"status": "down" if down else "ok", "down": down, "parts": [_said(p) for p in parts]}
    return JsonResponse(body, status=code)
