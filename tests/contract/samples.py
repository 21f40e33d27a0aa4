"""One value of every shared document, with every field set to something of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.contract import codec
from inference.contract.events import (
    CacheUse,
    Charge,
    End,
    Exposure,
    Feedback,
    Opening,
    Origin,
    PriceUsed,
    Usage,
)
from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import (
    BreakerState,
    CacheOutcome,
    CacheTier,
    ChargeKind,
    Endpoint,
    ExperimentUnit,
    Outcome,
    PriorityClass,
    ProcessRole,
    TaskClass,
    WorkerState,
)
from inference.contract.vitals import Applied, TierGauge, TopEntry, Traffic, Vitals, WorkerGauges
from tests.contract.configuration import (
    BUDGETS,
    CACHE_POLICIES,
    EXPERIMENTS,
    GATEWAYS,
    KEYS,
    LIMITS,
    MANIFEST,
    MODELS,
    ORGANISATIONS,
    POOLS,
    PRICES,
    PURGES,
    ROUTES,
    SWITCHES,
)

PRICE_USED = PriceUsed("prc_a", 1_000_000, 2_000_000, 100_000)
ORIGIN = Origin(
    organisation_id="org_a",
    team_id="team_a",
    project_id="proj_a",
    key_id="0123456789abcdefghjkmnpqrs",
    endpoint=Endpoint.CHAT,
    requested_model="chat/default",
    is_stream=True,
    gateway="gw-1",
    lineage="01KB7",
    version=7,
    route_id="rt_a",
    route_name="chat/default",
    end_user="customer 7",
    tags=("app=search",),
    priority=PriorityClass.BATCH,
    task=TaskClass.CODE,
    rule_id="rule_1",
)
OPENING = Opening(
    event_id="req_01kb7",
    at_ms=1_764_500_000_123,
    origin=ORIGIN,
    target_id="tgt_1",
    pool_id="pool_p",
    model_id="mdl_a",
    worker_id="pool_p-0",
    prompt_tokens_max=900,
    output_tokens_max=1024,
    price=PRICE_USED,
    cost_max_nanousd=2948,
    attempt=2,
    client_request_id="client-1",
    exposures=(Exposure("exp_b", 1, "var_c", ExperimentUnit.USER, "fedcba9876543210", 1.0),),
)
END = End(
    event_id="req_01kb7",
    at_ms=1_764_500_002_000,
    received_at_ms=1_764_500_000_100,
    origin=ORIGIN,
    outcome=Outcome.OK,
    http_status=200,
    charges=(
        Charge(
            attempt=1,
            target_id="tgt_1",
            pool_id="pool_p",
            model_id="mdl_a",
            worker_id="pool_p-0",
            kind=ChargeKind.ESTIMATED,
            usage=Usage(),
            started_at_ms=1_764_500_000_123,
            duration_ms=12.5,
            http_status=503,
            error_code="upstream_saturated",
        ),
        Charge(
            attempt=2,
            target_id="tgt_2",
            pool_id="pool_s",
            model_id="mdl_a",
            worker_id="pool_s-0",
            kind=ChargeKind.FINAL,
            usage=Usage(10, 5, 0, 2),
            started_at_ms=1_764_500_000_140,
            duration_ms=1860.25,
            first_token_ms=80.5,
            http_status=200,
            price=PRICE_USED,
            cost_nanousd=20,
            cost_max_nanousd=20,
        ),
    ),
    total_ms=1900.0,
    error_code=None,
    queued_ms=0.0,
    first_token_ms=97.5,
    output_tokens_max=1024,
    client_request_id="client-1",
    decision={"strategy": "weighted", "u": 0.25},
    journal="jnl_00",
    seq=42,
    cache=CacheUse("cch_a", CacheOutcome.MISS, similarity=0.93, refused_by="numbers"),
    exposures=(
        Exposure(
            experiment_id="exp_a",
            phase=2,
            variant_id="var_b",
            unit=ExperimentUnit.REQUEST,
            unit_id="0123456789abcdef",
            probability=0.1,
            served_variant_id="var_a",
        ),
        Exposure("exp_b", 1, "var_c", ExperimentUnit.USER, "fedcba9876543210", 1.0),
    ),
)
CACHED_END = End(
    event_id="req_01kb9",
    at_ms=1_764_500_004_002,
    received_at_ms=1_764_500_004_000,
    origin=ORIGIN,
    outcome=Outcome.OK,
    http_status=200,
    charges=(),
    total_ms=2.0,
    cache=CacheUse(
        policy_id="cch_a",
        outcome=CacheOutcome.STALE,
        tier=CacheTier.SEMANTIC,
        entry_id="ce_00",
        age_ms=1_000,
        similarity=0.96875,
        refused_by="names",
        agreed=False,
        saved_prompt_tokens=10,
        saved_completion_tokens=0,
        saved_nanousd=2_000,
        saved_ms=1_900.5,
        inputs=3,
        inputs_hit=2,
    ),
)
REFUSED_END = End(
    event_id="req_01kb8",
    at_ms=1_764_500_003_000,
    received_at_ms=1_764_500_003_000,
    origin=ORIGIN,
    outcome=Outcome.REFUSED,
    http_status=404,
    charges=(),
    total_ms=0.5,
    error_code="model_not_found",
)
FEEDBACK = Feedback(
    event_id="fbk_00",
    at_ms=1_764_500_009_000,
    organisation_id="org_a",
    project_id="proj_a",
    key_id="0123456789abcdefghjkmnpqrs",
    gateway="gw-1",
    request_id="req_01kb7",
    rater="customer 7",
    score=-0.5,
    label="wrong",
    comment="It is not so.",
    is_completed=False,
    journal="jnl_00",
    seq=43,
)
DIRECTORY = Directory(
    fencing_token=4,
    generation=19,
    written_at=1_764_500_000.5,
    workers=(
        WorkerEntry(
            id="pool_p-0",
            pool_id="pool_p",
            base_url="http://127.0.0.1:9100/v1",
            state=WorkerState.READY,
            changed_at=1_764_499_000.0,
            uses_derived_key=True,
            restarts=1,
        ),
        WorkerEntry(
            id="pool_p-1",
            pool_id="pool_p",
            base_url="http://127.0.0.1:9101/v1",
            state=WorkerState.BACKING_OFF,
            changed_at=1_764_499_900.0,
            detail="exited with code 1",
        ),
    ),
)
VITALS = Vitals(
    role=ProcessRole.GATEWAY,
    gateway="gw-1",
    process="gw-1:0",
    pid=4711,
    started_at=1_764_490_000.0,
    written_at=1_764_500_000.75,
    applied=Applied("01KB7", 7, 8, "routes rt_a targets: empty"),
    directory_generation=19,
    inflight={"pool_p-0": 3},
    arrivals_total=1000,
    events_lost_total=2,
    journal_backlog=5,
    is_leader=False,
    traffic=(
        Traffic(
            at=1_764_499_995,
            organisation_id="org_a",
            route_id="rt_a",
            pool_id="pool_p",
            requests=5,
            failures={"upstream_saturated": 1},
            prompt_tokens=50,
            completion_tokens=25,
            cost_nanousd=2**60,
            unknown_usage=1,
            unknown_cost=2,
            first_token_ms={93: 3, 94: 1},
            output_token_ms={-3: 2, 60: 1},
            shed={"batch": 1},
        ),
    ),
    workers=(
        WorkerGauges(
            worker_id="pool_p-0",
            pool_id="pool_p",
            at=1_764_500_000.5,
            running=3,
            waiting=0,
            kv_used=0.25,
            utilisation=87.5,
            memory_bytes=3_000_000_000,
            is_gpu=True,
        ),
        WorkerGauges(worker_id="pool_p-1", pool_id="pool_p", at=1_764_500_000.5),
    ),
    prefill_tokens={"pool_p-0": 512},
    breakers={"pool_p-1": BreakerState.HALF_OPEN},
    restart_generation=2,
    is_draining=True,
    directory_token=4,
    requests=6,
    queued={"pool_p": 4},
    oldest_wait_ms={"pool_p": 1_250.5},
    degraded={"rt_a": 1},
    tiers=(
        TierGauge(
            tier=CacheTier.LOCAL,
            entries=3,
            bytes=4_096,
            bytes_max=64 * 1_048_576,
            evictions_total=2,
            errors_total=1,
        ),
        TierGauge(tier=CacheTier.SHARED, is_down=True),
    ),
    top_entries=(
        TopEntry(
            entry_id="ce_00",
            policy_id="cch_a",
            route_id="rt_a",
            tier=CacheTier.LOCAL,
            hits=12,
            bytes=1_024,
            stored_at=1_764_500_000.5,
            saved_nanousd=24_000,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A kind of document: its golden file, its value and how it travels."""

    file: str
    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _section(name: str, records: tuple[Any, ...]) -> Document:
    decode = partial(codec.decode_section, name)
    return Document(f"section-{codec.noun_of(name)}", records, codec.encode_section, decode)


DOCUMENTS = (
    Document("manifest", MANIFEST, codec.encode_manifest, codec.decode_manifest),
    _section("organisations", ORGANISATIONS),
    _section("models", MODELS),
    _section("prices", PRICES),
    _section("pools", POOLS),
    _section("routes", ROUTES),
    _section("keys/7f", KEYS),
    _section("gateways", GATEWAYS),
    _section("limits", LIMITS),
    _section("budgets", BUDGETS),
    _section("switches", SWITCHES),
    _section("caches", CACHE_POLICIES),
    _section("purges", PURGES),
    _section("experiments", EXPERIMENTS),
    Document("opening", OPENING, codec.encode_event, codec.decode_opening),
    Document("end", END, codec.encode_event, codec.decode_end),
    Document("end-cached", CACHED_END, codec.encode_event, codec.decode_end),
    Document("end-refused", REFUSED_END, codec.encode_event, codec.decode_end),
    Document("feedback", FEEDBACK, codec.encode_event, codec.decode_numbered),
    Document("directory", DIRECTORY, codec.encode_directory, codec.decode_directory),
    Document("vitals", VITALS, codec.encode_vitals, codec.decode_vitals),
)
