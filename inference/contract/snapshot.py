"""The configuration as the data plane reads it: one manifest, content-addressed sections.

Ids are opaque strings made by the control plane (`pool_…`); names are what people and callers
write. Money is integer nano-USD, prices are nano-USD for a million tokens, times are seconds since
the epoch (UTC).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.contract.caching import CachePolicyRecord as CachePolicyRecord
from inference.contract.caching import PurgeRecord as PurgeRecord
from inference.contract.experiments import ExperimentRecord as ExperimentRecord
from inference.contract.experiments import VariantRecord as VariantRecord
from inference.contract.kinds import (
    Accounting,
    Backend,
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    DegradationStep,
    Endpoint,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    PoolPower,
    PriorityClass,
    Provisioner,
    PurgeKind,
    Scope,
    Strategy,
    SwitchSubject,
    Task,
    TaskClass,
    TooLong,
    UnknownPrice,
)
from inference.contract.matching import MatchRecord as MatchRecord
from inference.contract.matching import ScheduleRecord as ScheduleRecord
from inference.contract.prompts import PromptMessage as PromptMessage
from inference.contract.prompts import PromptRecord as PromptRecord
from inference.contract.targets import TargetRecord as TargetRecord


@dataclass(frozen=True, slots=True)
class OrganisationRecord:
    """A tenant; schedules are read in its `time_zone`, a name of the IANA database."""

    id: str
    name: str
    is_enabled: bool = True
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model of the catalogue. `max_context_tokens` is prompt plus output; None is unknown."""

    id: str
    organisation_id: str
    name: str
    task: Task = Task.GENERATE
    max_context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """One version of the list price of a model, or of a model in one pool.

    It is in force from `effective_from` until the next of the same model and pool. Absent means
    unknown, which is never zero; zero is free. One without input and output ends the price: what
    comes then is unknown, or in a pool what the model's says. Cached input costs what input does,
    reasoning what output does and embeddings what input does, unless they have prices of their own.
    `request_nanousd` is for each attempt that was answered.
    """

    id: str
    organisation_id: str
    model_id: str
    input_nanousd_per_mtok: int | None
    output_nanousd_per_mtok: int | None
    cached_input_nanousd_per_mtok: int | None = None
    pool_id: str | None = None
    effective_from: float = 0.0
    reasoning_output_nanousd_per_mtok: int | None = None
    embedding_input_nanousd_per_mtok: int | None = None
    request_nanousd: int | None = None


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """Desired state of a pool of like workers serving one model.

    `addresses` are base URLs of a static pool, one worker each, ending before `/chat/completions`
    (usually in `/v1`). `credential` is sealed by `sealing.encrypt`; None means no credential for
    static pools, and the worker's derived key for pools whose workers we start. `engine_arguments`
    maps allow-listed names of `params.ENGINE_ARGUMENTS` to values.

    `cordoned` are ordinals of workers that are to be drained and kept so; `worker_restarts` counts
    up, by ordinal as text, to have one worker restarted. `worker_concurrency` is how many requests
    one worker runs at once; None is the engine's `max_num_seqs`, or not known.

    A gateway process stops sending to a worker for `breaker_open_ms` (doubling while it stays bad)
    once `breaker_failure_percent` of at least `breaker_min_requests` recent attempts failed. If
    less than `panic_percent` of the ready workers would be left, it sends to all of them again.

    `endpoints` are those that its workers have, of what their backend can have; none is all.
    """

    id: str
    organisation_id: str
    name: str
    model_id: str
    provisioner: Provisioner
    backend: Backend
    served_model_name: str
    power: PoolPower = PoolPower.RUNNING
    replicas: int = 1
    addresses: tuple[str, ...] = ()
    credential: str | None = None
    model_source: str | None = None
    engine_arguments: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    port_base: int | None = None
    restart_generation: int = 0
    start_timeout_s: int = 600
    drain_timeout_s: int = 30
    cordoned: tuple[int, ...] = ()
    worker_restarts: Mapping[str, int] = field(default_factory=dict)
    worker_concurrency: int | None = None
    breaker_failure_percent: int = 50
    breaker_min_requests: int = 5
    breaker_open_ms: int = 5_000
    panic_percent: int = 50
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """Other targets for the requests that match; the first enabled rule that does decides."""

    id: str
    name: str
    when: MatchRecord
    targets: tuple[TargetRecord, ...]
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """What callers name in `model`. Time-outs are milliseconds; `total_timeout_ms` None is no end.

    `default_max_output_tokens` bounds the reservation of a request that names no maximum.
    `retry_budget_percent` bounds further attempts to this share of recent requests (and a few).
    `max_wait_penalty` is how much longer a wait (1 is one second of prefill or one full batch)
    `least_work` accepts at a worker that has most of the prompt cached. `keep_alive_ms` has a
    caller sent a comment whenever a stream is silent so long, before its first content too, after
    which no other target is tried; None is never before the answer has begun.

    `aliases` are further names for it. `targets` serve what no rule matches. A request waits for a
    free worker for `max_queue_wait_ms` at most (0 is not at all) together with at most `max_queued`
    others a gateway process. `hedge_after_ms` without a first byte a second worker is asked too;
    None is never. `degradation` names the steps it takes when its pools are saturated.

    Its answers are kept by `cache_policy_id`, None is not at all. `similarity_min` is the least
    calibrated for this route; None is the policy's.
    """

    id: str
    organisation_id: str
    name: str
    targets: tuple[TargetRecord, ...]
    strategy: Strategy = Strategy.WEIGHTED
    is_enabled: bool = True
    accounting: Accounting = Accounting.LENIENT
    default_max_output_tokens: int = 4096
    max_attempts: int = 2
    connect_timeout_ms: int = 2_000
    first_byte_timeout_ms: int = 120_000
    idle_timeout_ms: int = 60_000
    total_timeout_ms: int | None = None
    retry_budget_percent: int = 20
    max_wait_penalty: float = 0.5
    keep_alive_ms: int | None = None
    aliases: tuple[str, ...] = ()
    rules: tuple[RuleRecord, ...] = ()
    default_task: TaskClass = TaskClass.DEFAULT
    max_queue_wait_ms: int = 30_000
    max_queued: int = 1_000
    hedge_after_ms: int | None = None
    degradation: tuple[DegradationStep, ...] = ()
    cache_policy_id: str | None = None
    similarity_min: float | None = None


@dataclass(frozen=True, slots=True)
class GatewayRecord:
    """Desired state of one gateway, by the name it goes by (`HEADWORKS_GATEWAY_ID`).

    A higher `restart_generation` has its processes replaced one after another. A drained gateway
    goes on serving what reaches it but says on `/ready` that it wants no more.
    """

    id: str
    restart_generation: int = 0
    is_drained: bool = False


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """At most `amount` of `unit` in each `window` (None for `parallel`) for one subject.

    `subject_id` names the team, project, key, model or route, or an end user as callers write them;
    None has every one of the organisation counted apart. Keys are named without their prefix.
    """

    id: str
    organisation_id: str
    name: str
    subject: LimitSubject
    unit: LimitUnit
    amount: int
    subject_id: str | None = None
    window: LimitWindow | None = None
    enforcement: Enforcement = Enforcement.LENIENT
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """One of the things a budget is about.

    `subject_id` names the team, project, key, model or route, or an end user or tag as callers
    write them; None has every one of the organisation counted apart.
    """

    subject: BudgetSubject
    subject_id: str | None = None


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """At most `amount_nanousd` in each `period` for requests that are of all its `scopes`.

    Periods are of the calendar, unless `is_rolling`. One that blocks lets `grace_percent` and
    `grace_nanousd` more through. `raised_to_nanousd` takes the amount's place until `raised_until`.
    One that throttles or takes the cheaper does so from `acts_at_percent` of the amount on: it lets
    `throttle_per_minute` requests in, or sends them to `cheaper_model_id`, None being the cheapest
    model of their route. Keys are named without their prefix.
    """

    id: str
    organisation_id: str
    name: str
    scopes: tuple[BudgetScope, ...]
    amount_nanousd: int
    period: BudgetPeriod
    action: BudgetAction = BudgetAction.BLOCK
    unknown_price: UnknownPrice = UnknownPrice.REFUSE
    grace_percent: int = 0
    raised_to_nanousd: int | None = None
    raised_until: float | None = None
    is_enabled: bool = True
    is_rolling: bool = False
    grace_nanousd: int = 0
    too_long: TooLong = TooLong.REFUSE
    acts_at_percent: int = 100
    throttle_per_minute: int = 60
    cheaper_model_id: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchRecord:
    """A kill switch that is thrown: what it names is refused until it is taken away or expires.

    `subject_id` is None for the whole organisation. `reason` is told to callers. `expires_at` is
    seconds since the epoch, None is never.
    """

    id: str
    organisation_id: str
    subject: SwitchSubject
    subject_id: str | None = None
    reason: str = ""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """One accepted secret of a key: HMAC-SHA256 in hex under the pepper of that version.

    `accepted_until` ends the overlap of a rotation; None is for as long as the key lives.
    """

    pepper_version: int
    digest: str
    accepted_until: float | None = None


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key of the gateway. `route_names` None is every route of the organisation, () none.

    `priority` is the most urgent class its requests can have and the one they have unless they ask
    for a lower one. `default_task` None is the route's.
    """

    id: str
    organisation_id: str
    team_id: str
    project_id: str
    digests: tuple[KeyDigest, ...]
    scopes: tuple[Scope, ...] = (Scope.INFERENCE,)
    route_names: tuple[str, ...] | None = None
    expires_at: float | None = None
    is_enabled: bool = True
    tags: tuple[str, ...] = ()
    priority: PriorityClass = PriorityClass.DEFAULT
    default_task: TaskClass | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which sections make up a version. A greater lineage is newer whatever its version."""

    lineage: str
    version: int
    sections: Mapping[str, str]
    created_at: float


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The whole configuration, indexed for reading. Never changed: a new version is a new value.

    `models`, `prices`, `pools`, `limits`, `budgets` and `switches` are by id, `routes`
    by (organisation id, name) and by each alias in its place in `aliases`,
    `keys` by bucket and then by key id, so that one key's change replaces one small mapping.
    `thrown` are the switches again by what they turn off: organisation, subject and its id.
    `cache_policies` and `purges` are by id; `purged` has of each organisation by kind and value the
    newest epoch. `experiments` are by id; `tested` has those that run by the route they are on, in
    the order of their ids. `prompts` are the versions of all prompts, by id; `filed` has them by
    organisation and prompt (by its id and by its name), then by version, None being the current.
    `gateways` is by name; one that nobody ever drained or restarted has no record.
    """

    lineage: str
    version: int
    organisations: Mapping[str, OrganisationRecord]
    models: Mapping[str, ModelRecord]
    prices: Mapping[str, PriceRecord]
    pools: Mapping[str, PoolRecord]
    routes: Mapping[tuple[str, str], RouteRecord]
    keys: Mapping[str, Mapping[str, KeyRecord]]
    gateways: Mapping[str, GatewayRecord] = field(default_factory=dict)
    aliases: Mapping[tuple[str, str], RouteRecord] = field(default_factory=dict)
    limits: Mapping[str, LimitRecord] = field(default_factory=dict)
    budgets: Mapping[str, BudgetRecord] = field(default_factory=dict)
    switches: Mapping[str, SwitchRecord] = field(default_factory=dict)
    thrown: Mapping[tuple[str, SwitchSubject, str | None], SwitchRecord] = field(
        default_factory=dict
    )
    cache_policies: Mapping[str, CachePolicyRecord] = field(default_factory=dict)
    purges: Mapping[str, PurgeRecord] = field(default_factory=dict)
    purged: Mapping[str, Mapping[tuple[PurgeKind, str], int]] = field(default_factory=dict)
    experiments: Mapping[str, ExperimentRecord] = field(default_factory=dict)
    tested: Mapping[str, tuple[ExperimentRecord, ...]] = field(default_factory=dict)
    prompts: Mapping[str, PromptRecord] = field(default_factory=dict)
    filed: Mapping[tuple[str, str], Mapping[int | None, PromptRecord]] = field(default_factory=dict)
