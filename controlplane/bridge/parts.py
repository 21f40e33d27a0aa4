"""How each part of the installation is, judged once for `/-/status` and the System page alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from controlplane.bridge.stream import StreamFacts, stream_troubles
from controlplane.bridge.vitals import Fleet, place_of_refusal
from controlplane.decisions.epochs import Newer
from controlplane.decisions.propagation import Propagation
from inference.contract.kinds import CacheTier, WorkerState
from inference.contract.vitals import Vitals

HEARTBEAT_KEY = "hw:jobs:beat"
"""Where the background jobs leave the time of their last beat."""

JOBS_STALE_S = 60.0

LOSS_TOLD_S = 3_600.0
"""So long after the last loss a gateway needs a look; the count stays for as long as it runs."""

NEWER_KEY = "hw:configuration:newer"
"""Where the sweep leaves word that somebody has a newer configuration than the database."""

NEWER_LIFE_S = 60
"""Some sweeps: the word goes when nobody repeats it."""

ADOPT = (
    ".venv/bin/python -m controlplane.local manage adopt_configuration "
    "(on several machines: manage.py adopt_configuration)"
)
"""What makes a database that was put back the one truth again, to be pasted."""

NO_TROUBLES: Mapping[str, bool] = {}

NO_STORE = "the state store is not answering"


@dataclass(frozen=True, slots=True)
class Part:
    """One thing the console stands on. `state` is ok, down, stale, degraded or unknown."""

    name: str
    state: str
    detail: str = ""
    took_ms: float | None = None
    age_s: float | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


def jobs_part(beat: bytes | None, now: float) -> Part:
    """The background jobs, by the age of their last beat."""
    if beat is None:
        return Part("jobs", "unknown", "no beat seen yet")
    age_s = max(0.0, now - float(beat))
    return Part("jobs", "stale" if age_s > JOBS_STALE_S else "ok", age_s=round(age_s, 1))


def stream_part(
    stream: StreamFacts,
    committed_at: datetime | None,
    *,
    more_troubles: Mapping[str, bool] = NO_TROUBLES,
) -> Part:
    """The recorder: degraded if nobody reads the stream or too much of it waits.

    `committed_at` is when it last moved a journal's mark, None if it never did or nobody can tell.
    """
    facts = {
        "stream_entries": stream.length,
        "waiting_entries": stream.waiting,
        "last_mark_at": iso(committed_at),
    }
    part = _reported("recorder", {**stream_troubles(stream), **more_troubles}, facts)
    age_s = None if stream.silent_s is None else round(stream.silent_s, 1)
    return replace(part, age_s=age_s)


def iso(at: datetime | None) -> str | None:
    """A time to the second, in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds")


def gateways_part(fleet: Fleet) -> Part:
    """The processes that serve: degraded without any, or if one refused or lost something."""
    gateways = fleet.gateways
    versions = Counter(one.applied.version for one in gateways)
    refusals = {
        (one.applied.refused_version, place_of_refusal(one.applied))
        for one in gateways
        if one.applied.refused_why is not None
    }
    lost = sum(one.events_lost_total for one in gateways)
    lost_at = _told(max((one.events_lost_at or 0.0 for one in gateways), default=0.0))
    loss = f"events were lost, the last at {lost_at}" if lost_at else "events were lost"
    troubles = {
        "no gateway is running": not gateways,
        "a version was refused": bool(refusals),
        loss: any(_has_lost_lately(one) for one in gateways),
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
        "events_lost_at": lost_at,
        "journal_backlog": sum(one.journal_backlog for one in gateways),
        "semantic_cache": _semantic_cache(gateways),
    }
    return _reported("gateways", troubles, facts)


def _semantic_cache(gateways: Sequence[Vitals]) -> str:
    """Whether the helper answers; an installation may do without, so it is no trouble."""
    told = [tier for one in gateways for tier in one.tiers if tier.tier is CacheTier.SEMANTIC]
    without = sum(tier.is_down for tier in told)
    if without or not told:
        return f"off: no helper answers {without or len(gateways)} of {len(gateways)} processes"
    return f"on: {max(tier.entries or 0 for tier in told):,} questions"


def with_silent(part: Part, propagation: Propagation | None) -> Part:
    """The gateways as a part, degraded if processes of theirs fell silent; none is named."""
    gateways = () if propagation is None else propagation.gateways
    seen = sum(one.children_seen for one in gateways)
    silent = seen - sum(one.children_live for one in gateways)
    if not silent:
        return part
    told = f"{silent:,} of {seen:,} processes {'is' if silent == 1 else 'are'} silent"
    detail = "; ".join(word for word in (part.detail, told) if word)
    return replace(part, state="degraded", detail=detail)


def _has_lost_lately(one: Vitals) -> bool:
    """Whether something was lost within the hour, by its own clock; of an older release, ever."""
    if one.events_lost_at is None:
        return one.events_lost_total > 0
    return one.written_at - one.events_lost_at < LOSS_TOLD_S


def _told(at: float) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else None


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


def words_about(newer: Newer) -> str:
    """Who is ahead of the database, and what to do; constant but for who it is."""
    return f"{newer.holder} a newer configuration than the database"


def configuration_part(word: bytes | None) -> Part:
    """Whether the database's configuration is the newest there is, by the word of the sweep."""
    newer = newer_told(word)
    if newer is None:
        return Part("configuration", "ok")
    return Part("configuration", "degraded", advice_about(newer), facts=facts_about(newer))


def newer_told(word: bytes | None) -> Newer | None:
    """Who is ahead of the database, by the word of the sweep; None without one."""
    return None if word is None else msgspec.json.decode(word, type=_Word).newer


def advice_about(newer: Newer) -> str:
    """What is wrong and the command that mends it."""
    return f"{words_about(newer)}; if it was restored from a back-up, run {ADOPT}"


def facts_about(newer: Newer) -> dict[str, object]:
    """The newer one's place in history."""
    return {"newer_lineage": newer.lineage, "newer_version": newer.version}


class _Word(msgspec.Struct):
    newer: Newer
    at: float


def _reported(name: str, troubles: Mapping[str, bool], facts: Mapping[str, object]) -> Part:
    told = [trouble for trouble, is_so in troubles.items() if is_so]
    return Part(name, "degraded" if told else "ok", "; ".join(told), facts=facts)
