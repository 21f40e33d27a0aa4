"""Facts that may be lost: one whole record a process, once a second, living five seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.contract.kinds import BreakerState, CacheTier, ProcessRole

VITALS_PERIOD_S = 1.0
VITALS_LIFE_S = 5.0

TRAFFIC_BUCKET_S = 5
"""Whole seconds: buckets begin at multiples of it since the epoch, alike in every process."""

TRAFFIC_BUCKETS_KEPT = 4
"""A record carries this many buckets whole, so a reader that misses some records loses nothing."""

GATEWAY_SEEN_S = 600.0
"""For so long a gateway that fell silent without signing off is missed."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The configuration a process runs on, or why it refused a newer one."""

    lineage: str | None = None
    version: int | None = None
    refused_version: int | None = None
    refused_why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What ended in one bucket at one process, for one organisation, route and pool ("" is none).

    `at` is the bucket's first second. `failures` counts by error code what the roll-ups count as
    errors. Histograms are `decisions.histograms`': milliseconds from arrival to first content, and
    milliseconds for each output token after the first. Money is what was booked, in nano-USD; the
    requests without a price, or without a count of tokens, are counted instead. `shed` counts by
    class the requests that were sent away for want of room, `refused` by reason all that were
    turned away before any pool saw them.
    """

    at: int
    organisation_id: str
    route_id: str = ""
    pool_id: str = ""
    requests: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanousd: int = 0
    unknown_usage: int = 0
    unknown_cost: int = 0
    first_token_ms: Mapping[int, int] = field(default_factory=dict)
    output_token_ms: Mapping[int, int] = field(default_factory=dict)
    shed: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGauges:
    """One worker as its supervisor last measured it; None is not known, never 0.

    `running`, `waiting` and `kv_used` (0 to 1) are the engine's own. `utilisation` is in per cent:
    of its GPUs where there are any (`is_gpu`), else of all of the host's CPUs, by the worker's
    process group. `memory_bytes` is likewise of its GPUs or resident (RSS) in its process group,
    where memory that its processes share counts once each.
    """

    worker_id: str
    pool_id: str
    at: float
    running: int | None = None
    waiting: int | None = None
    kv_used: float | None = None
    utilisation: float | None = None
    memory_bytes: int | None = None
    is_gpu: bool = False


TOP_ENTRIES_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TierGauge:
    """One tier as this process sees it; None is not known, never 0.

    `entries`, `bytes` and `bytes_max` are of what the tier holds: of a tier that processes share
    all tell the same. Totals count up from the process's start, but for `evictions_total` of a tier
    that is shared, which is its store's. `is_down` says that it can't be asked just now.
    """

    tier: CacheTier
    entries: int | None = None
    bytes: int | None = None
    bytes_max: int | None = None
    evictions_total: int | None = None
    errors_total: int = 0
    is_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopEntry:
    """One of the entries that saved most: who it is without what it says.

    `hits` and `saved_nanousd` are of this process since it holds the entry; the money is None where
    a price isn't known.
    """

    entry_id: str
    policy_id: str
    route_id: str
    tier: CacheTier
    hits: int
    bytes: int
    stored_at: float
    saved_nanousd: int | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """`gateway` names the parent, `process` this process. In-flight counts are by worker id.

    `traffic` is a gateway's, `workers` the leading supervisor's. A gateway process also tells, by
    worker id, the prompt tokens it has sent that are not prefilled yet and not cached there, and
    the breakers that are not closed; which restart generation it was started for; and whether it
    says on `/ready` that it wants no more; and how many requests it has under way, those too that
    are at no worker yet or no more; how many of them wait for a worker, by pool, and the longest of
    those waits in milliseconds; and by route how many steps of its degradation are taken, if any;
    its tiers of caches, and the entries it holds that saved most, TOP_ENTRIES_TOLD at most.

    A directory is named by its generation together with the fencing token it was written with.
    """

    role: ProcessRole
    gateway: str
    process: str
    pid: int
    started_at: float
    written_at: float
    applied: Applied
    directory_generation: int | None = None
    inflight: Mapping[str, int] = field(default_factory=dict)
    arrivals_total: int = 0
    events_lost_total: int = 0
    events_lost_at: float | None = None
    """By the writer's clock, as `written_at` is; None if none was, or by an older release."""
    journal_backlog: int = 0
    is_leader: bool = False
    traffic: tuple[Traffic, ...] = ()
    workers: tuple[WorkerGauges, ...] = ()
    prefill_tokens: Mapping[str, int] = field(default_factory=dict)
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    restart_generation: int = 0
    is_draining: bool = False
    directory_token: int | None = None
    requests: int = 0
    queued: Mapping[str, int] = field(default_factory=dict)
    oldest_wait_ms: Mapping[str, float] = field(default_factory=dict)
    degraded: Mapping[str, int] = field(default_factory=dict)
    tiers: tuple[TierGauge, ...] = ()
    top_entries: tuple[TopEntry, ...] = ()
