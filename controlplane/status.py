"""`/-/status`: what is down, asked by whoever can't sign in because of it.

It needs no login and no session, and of rows only when usage was last committed, which is null
without a database. 200 when everything answers, 503 when database, state or cache doesn't; the body
names it either way. `jobs` tells how old the last beat of the background jobs is, `recorder` how
much usage waits and whether anybody reads it, `configuration` whether the database was put back
behind the others, `gateways` and `pools` what their processes say of themselves. They make the
status "degraded" and not the answer a 503, because pages and API work without them. Nobody has
signed in, so no address, no name and no message that may hold one is told.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime

import psycopg
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from controlplane.bridge.parts import (
    HEARTBEAT_KEY,
    NEWER_KEY,
    NO_STORE,
    Part,
    configuration_part,
    gateways_part,
    jobs_part,
    pools_part,
    stream_part,
    with_silent,
)
from controlplane.bridge.stream import read_stream
from controlplane.bridge.vitals import read_fleet, read_propagation
from controlplane.error_responses import bare_page

PROBE_TIMEOUT_S = 1.0
_LAST_COMMIT = "SELECT max(updated_at) FROM controlplane_journalmark"
_UNWELL = ("degraded", "stale", "unknown")

Probe = Callable[[], Awaitable[None]]


async def probe_database() -> None:
    """Return if the database answers a query."""
    async with await _connection() as connection:
        await connection.execute("SELECT 1")


async def _connection() -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(
        settings.HEADWORKS.database_url.get_secret_value(), connect_timeout=2, autocommit=True
    )


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
        return Part("jobs", "unknown", NO_STORE)
    return jobs_part(beat, time.time())


async def probe_recorder() -> Part:
    """Tell how far the recorder is behind, whether it asks, and when it last committed."""
    committing = asyncio.create_task(_last_commit())
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            stream = await asyncio.to_thread(read_stream)
    except (TimeoutError, OSError, RedisError):
        await committing
        return Part("recorder", "unknown", NO_STORE)
    return stream_part(stream, await committing)


async def _last_commit() -> datetime | None:
    """When a journal's mark last moved; None if none ever did, or while the database is away."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S), await _connection() as connection:
            found = await connection.execute(_LAST_COMMIT)
            row = await found.fetchone()
    except (TimeoutError, OSError, psycopg.Error):
        # the part of the database says so
        return None
    return None if row is None else row[0]


async def probe_configuration() -> Part:
    """Tell whether somebody has a newer configuration than the database, by the sweep's word."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            async with _store(settings.HEADWORKS.state_url.get_secret_value()) as store:
                word = await store.get(NEWER_KEY)
    except (TimeoutError, OSError, RedisError):
        return Part("configuration", "unknown", NO_STORE)
    return configuration_part(word)


async def probe_fleet() -> tuple[Part, Part]:
    """Tell how gateways and pools are, by what their processes last said."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            fleet, propagation = await asyncio.gather(
                asyncio.to_thread(read_fleet), asyncio.to_thread(read_propagation)
            )
    except TimeoutError:
        fleet = propagation = None
    if fleet is None:
        return Part("gateways", "unknown", NO_STORE), Part("pools", "unknown", NO_STORE)
    return with_silent(gateways_part(fleet), propagation), pools_part(fleet)


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
    answers, jobs, recorder, configuration, fleet = await asyncio.gather(
        asyncio.gather(*asked), probe_jobs(), probe_recorder(), probe_configuration(), probe_fleet()
    )
    return [*answers, jobs, recorder, configuration, *fleet]


def _said(part: Part) -> dict[str, object]:
    told = asdict(part)
    facts = told.pop("facts")
    return {name: value for name, value in told.items() if value not in ("", None)} | facts


@require_safe
async def status(request: HttpRequest) -> HttpResponse:
    """Name what is down, as JSON or, for a browser, as a small page."""
    parts = await gather_parts()
    down = [part.name for part in parts if part.state == "down"]
    unwell = [part.name for part in parts if part.state in _UNWELL]
    code = 503 if down else 200
    if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
        told = {"parts": parts, "down": down, "unwell": unwell}
        return bare_page(request, "status.html", told, status=code)
    worst = "down" if down else "degraded" if unwell else "ok"
    body = {"status": worst, "down": down, "parts": [_said(p) for p in parts]}
    return JsonResponse(body, status=code)
