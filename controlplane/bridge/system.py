"""The whole installation at one moment, for those who run it: every part, judged and measured.

Each part is asked on its own and for a moment only: one that doesn't answer says so, and the others
are told all the same. Nothing here is a secret: no address, no user, no key.
"""

import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import django
import structlog
from django.conf import settings
from django.db import Error
from pydantic import SecretStr
from redis import Redis
from redis.exceptions import RedisError

from controlplane import __version__
from controlplane.bridge.books import books_part
from controlplane.bridge.epochs import read_newer
from controlplane.bridge.parts import (
    HEARTBEAT_KEY,
    JOBS_STALE_S,
    NO_STORE,
    Part,
    advice_about,
    facts_about,
    gateways_part,
    iso,
    jobs_part,
    pools_part,
    stream_part,
)
from controlplane.bridge.publisher import published_position
from controlplane.bridge.store import STORE_TIMEOUT_S, open_store
from controlplane.bridge.stream import read_stream
from controlplane.bridge.vitals import Fleet, read_fleet, read_propagation
from controlplane.decisions.alert_kinds import DeliveryState
from controlplane.selectors.alerts import count_dead_channels, get_oldest_waiting
from controlplane.selectors.budgets import count_budgets, get_corrected, get_upkeep
from controlplane.selectors.deliveries import count_deliveries
from controlplane.selectors.system import (
    get_coverage,
    get_database_facts,
    get_latest_version,
    get_ledger_facts,
)
from inference.contract.kinds import ProcessRole

OUTBOX_LATE_S = 60.0
"""The jobs send what is due every 5 s; so long it waits only where they don't keep up."""

FEED_STALE_S = 10.0

DISK_LOW_SHARE = 0.05
DISK_LOW_BYTES = 1 << 30

log = structlog.get_logger(__name__)


def read_system(now: datetime) -> Sequence[Part]:
    """Every part of the installation, in the order in which a person looks."""
    fleet = read_fleet()
    return [
        software_part(),
        _asked("database", database_part),
        _asked("state", lambda: store_part("state", settings.HEADWORKS.state_url)),
        *_cache_parts(),
        *_fleet_parts(fleet),
        _asked("jobs", lambda: _jobs(now)),
        _asked("recorder", recorder_part),
        _asked("books", lambda: books_part(now)),
        _asked("budgets", lambda: budgets_part(now)),
        _asked("feed", lambda: feed_part(now)),
        _asked("outbox", lambda: outbox_part(now)),
        _asked("snapshots", snapshots_part),
        disk_part(),
    ]


def _asked(name: str, ask: Callable[[], Part]) -> Part:
    """What a part says, or that it doesn't answer; only the kind of a failure is told."""
    began = time.monotonic()
    try:
        part = ask()
    except (RedisError, Error, OSError) as error:
        log.warning("a part is not answering", part=name, error=type(error).__name__)
        return Part(name, "down", type(error).__name__)
    took_ms = round((time.monotonic() - began) * 1_000, 1)
    return Part(part.name, part.state, part.detail, took_ms, part.age_s, part.facts)


def software_part() -> Part:
    """What runs this very page."""
    facts = {
        "version": __version__,
        "django": django.get_version(),
        "python": platform.python_version(),
    }
    return Part("headworks", "ok", facts=facts)


def database_part() -> Part:
    """PostgreSQL: degraded while a migration of this release is missing."""
    found = get_database_facts()
    facts = {
        "version": found.version,
        "size_bytes": found.size_bytes,
        "migration": found.migration,
        "pending_migrations": list(found.pending),
    }
    missing = f"{len(found.pending)} migrations are not applied" if found.pending else ""
    return Part("database", "degraded" if found.pending else "ok", missing, facts=facts)


def _cache_parts() -> Sequence[Part]:
    cache_url = settings.HEADWORKS.cache_url
    if cache_url is None:
        return ()
    return (_asked("cache", lambda: store_part("cache", cache_url)),)


def store_part(name: str, url: SecretStr) -> Part:
    """One store: its version, memory and clients."""
    with Redis.from_url(
        url.get_secret_value(),
        socket_timeout=STORE_TIMEOUT_S,
        socket_connect_timeout=STORE_TIMEOUT_S,
    ) as store:
        told: Mapping[str, object] = store.info()
    facts = {
        "version": told.get("valkey_version") or told.get("redis_version"),
        "memory_bytes": told.get("used_memory"),
        "memory_limit_bytes": told.get("maxmemory") or None,
        "clients": told.get("connected_clients"),
        "up_for_s": told.get("uptime_in_seconds"),
    }
    return Part(name, "ok", facts=facts)


def _fleet_parts(fleet: Fleet | None) -> Sequence[Part]:
    if fleet is None:
        return Part("gateways", "unknown", NO_STORE), Part("pools", "unknown", NO_STORE)
    pools = pools_part(fleet)
    leaders = [
        one.process for one in fleet.vitals if one.role is ProcessRole.POOLS and one.is_leader
    ]
    facts = {**pools.facts, "supervisor": leaders[0] if leaders else None}
    return _gateways(fleet), Part(pools.name, pools.state, pools.detail, facts=facts)


def _gateways(fleet: Fleet) -> Part:
    """The gateways by name, those among them that fell silent."""
    part = gateways_part(fleet)
    propagation = read_propagation()
    if propagation is None:
        return part
    by_name = [
        {
            "name": one.name,
            "version": one.version,
            "children_live": one.children_live,
            "children_seen": one.children_seen,
        }
        for one in propagation.gateways
    ]
    missing = list(propagation.missing)
    facts = {
        "version": propagation.version,
        "seen": propagation.seen,
        "applied": propagation.applied,
        "by_name": by_name,
        "missing": missing,
        **{name: one for name, one in part.facts.items() if name not in ("versions", "processes")},
    }
    if not missing:
        return Part(part.name, part.state, part.detail, facts=facts)
    partly = {one.name: one.words for one in propagation.partly}
    silent = [name for name in missing if name not in partly]
    told = f"missing: {', '.join(silent)}" if silent else ""
    words = "; ".join(word for word in (part.detail, told, *partly.values()) if word)
    return Part(part.name, "degraded", words, facts=facts)


def _jobs(now: datetime) -> Part:
    with open_store() as store:
        return jobs_part(store.get(HEARTBEAT_KEY), now.timestamp())


def outbox_part(now: datetime) -> Part:
    """Messages about alerts: stale while one that is due waits for longer than the jobs take."""
    age_s = get_oldest_waiting(now)
    is_late = age_s is not None and age_s > OUTBOX_LATE_S
    facts = outbox_facts(now)
    troubles = {
        "messages about alerts wait": is_late,
        f"{facts['dead_channels']:,} channels are dead": facts["dead_channels"] > 0,
    }
    told = "; ".join(words for words, is_so in troubles.items() if is_so)
    state = "stale" if is_late else "degraded" if told else "ok"
    return Part("outbox", state, told, age_s=round(age_s or 0.0, 1), facts=facts)


def outbox_facts(now: datetime) -> dict[str, Any]:
    """What became of the messages of a day, by state and kind of channel."""
    counted = count_deliveries(now - timedelta(days=1))
    states: Counter[str] = Counter()
    not_sent: Counter[str] = Counter()
    for (kind, state), number in counted.items():
        states[state] += number
        if state in (DeliveryState.FAILED, DeliveryState.UNKNOWN):
            not_sent[kind] += number
    return {
        "messages_of_24_h": dict(sorted(states.items())),
        "not_delivered_by_kind": dict(sorted(not_sent.items())),
        "dead_channels": sum(count_dead_channels(None).values()),
    }


def recorder_part() -> Part:
    """How far the ledger is behind the stream, and what was set aside."""
    ledger, stream = get_ledger_facts(), read_stream()
    poison = f"{ledger.poison_records:,} records could not be recorded"
    part = stream_part(
        stream, ledger.last_mark_at, more_troubles={poison: ledger.poison_records > 0}
    )
    facts = {
        **part.facts,
        "journals": ledger.journals,
        "missing_events": ledger.missing_events,
        "poison_records": ledger.poison_records,
        "last_poison_at": iso(ledger.last_poison_at),
    }
    if not ledger.missing_events:
        return replace(part, facts=facts)
    # nothing can be done about it, so it is told and is no trouble
    missing = f"{ledger.missing_events:,} events that a former ledger had are in this one no more"
    detail = "; ".join(word for word in (part.detail, missing) if word)
    return replace(part, detail=detail, facts=facts)


def budgets_part(now: datetime) -> Part:
    """Whether the counters of budgets know of the ledger, and what was corrected in them."""
    found = get_upkeep()
    blocking = count_budgets(is_blocking=True)
    corrected = get_corrected(now - timedelta(days=1))
    looked_at = None if found is None else found.looked_at
    age_s = None if looked_at is None else max(0.0, (now - looked_at).total_seconds())
    is_seeded = found is not None and found.is_seeded
    waits_for = "" if found is None else found.waits_for
    why = f": {waits_for}" if waits_for else ""
    troubles = {
        f"gateways refuse what blocking budgets bear on{why}": bool(blocking) and not is_seeded,
    }
    told = [trouble for trouble, is_so in troubles.items() if is_so]
    facts = {
        "budgets": count_budgets(),
        "of_them_blocking": blocking,
        "counters_know_the_ledger": is_seeded,
        "counters_corrected_24h": corrected.corrections,
        "added_24h_nanousd": corrected.added_nanousd,
        "taken_back_24h_nanousd": corrected.taken_nanousd,
        "last_corrected_at": iso(corrected.last_at),
    }
    is_stale = age_s is None or age_s > JOBS_STALE_S
    state = "degraded" if told else "stale" if is_stale and facts["budgets"] else "ok"
    rounded = None if age_s is None else round(age_s, 1)
    return Part("budgets", state, "; ".join(told), age_s=rounded, facts=facts)


def feed_part(now: datetime) -> Part:
    """The sampler of live pages, by the age of its newest sample."""
    found = get_coverage(now)
    if found.as_of is None:
        return Part("feed", "unknown", "nothing was sampled yet")
    age_s = max(0.0, (now - found.as_of).total_seconds())
    facts = {"gateways_live": found.live, "gateways_seen": found.seen}
    state = "stale" if age_s > FEED_STALE_S else "ok"
    return Part(
        "feed", state, age_s=round(age_s, 1), facts={**facts, "missing": list(found.missing)}
    )


def snapshots_part() -> Part:
    """The newest version of the database against the one the store holds."""
    with open_store() as store:
        published = published_position(store)
    newer = read_newer()
    latest = get_latest_version()
    facts = {
        "database_lineage": latest[0] if latest else None,
        "database_version": latest[1] if latest else None,
        "published_lineage": published[0] if published else None,
        "published_version": published[1] if published else None,
    }
    if newer is not None:
        told = {**facts, **facts_about(newer)}
        return Part("snapshots", "degraded", advice_about(newer), facts=told)
    if latest == published:
        return Part("snapshots", "ok", facts=facts)
    return Part("snapshots", "degraded", "the store is behind the database", facts=facts)


def disk_part() -> Part:
    """The disk of the data folder, as this host sees it."""
    try:
        usage = shutil.disk_usage(settings.HEADWORKS.var)
    except OSError as error:
        return Part("disk", "unknown", type(error).__name__)
    is_low = usage.free < DISK_LOW_BYTES or usage.free < usage.total * DISK_LOW_SHARE
    facts = {"total_bytes": usage.total, "free_bytes": usage.free}
    return Part(
        "disk", "degraded" if is_low else "ok", "little room" if is_low else "", facts=facts
    )
