"""One value of every section of a configuration, with every field set to something of its own."""

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
    Scope,
    Strategy,
    SwitchSubject,
    Task,
    TaskClass,
    UnknownPrice,
    Weekday,
)
from inference.contract.snapshot import (
    BudgetRecord,
    BudgetScope,
    GatewayRecord,
    KeyDigest,
    KeyRecord,
    LimitRecord,
    Manifest,
    MatchRecord,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    RuleRecord,
    ScheduleRecord,
    SwitchRecord,
    TargetRecord,
)

ORGANISATIONS = (
    OrganisationRecord("org_a", "Water & Söhne", is_enabled=True, time_zone="Europe/Berlin"),
    OrganisationRecord("org_b", "Other", is_enabled=False),
)
MODELS = (
    ModelRecord("mdl_a", "org_a", "llama-3-8b", Task.GENERATE, 8192),
    ModelRecord("mdl_e", "org_a", "minilm", Task.EMBED, None),
)
PRICES = (
    PriceRecord("prc_a", "org_a", "mdl_a", 1_000_000, 2_000_000, 100_000),
    PriceRecord("prc_e", "org_a", "mdl_e", 0, 0, None),
)
POOLS = (
    PoolRecord(
        id="pool_p",
        organisation_id="org_a",
        name="llama",
        model_id="mdl_a",
        provisioner=Provisioner.PROCESS,
        backend=Backend.VLLM,
        served_model_name="llama-3-8b",
        power=PoolPower.STOPPED,
        replicas=2,
        model_source="llama-3-8b",
        engine_arguments={
            "dtype": "bfloat16",
            "enforce_eager": True,
            "gpu_memory_utilization": 0.85,
            "max_model_len": 4096,
        },
        port_base=9100,
        restart_generation=3,
        start_timeout_s=900,
        drain_timeout_s=60,
        cordoned=(1,),
        worker_restarts={"0": 2},
        worker_concurrency=32,
        breaker_failure_percent=40,
        breaker_min_requests=6,
        breaker_open_ms=2_000,
        panic_percent=30,
    ),
    PoolRecord(
        id="pool_s",
        organisation_id="org_a",
        name="provider",
        model_id="mdl_a",
        provisioner=Provisioner.STATIC,
        backend=Backend.OPENAI,
        served_model_name="gpt",
        addresses=("https://api.example.com/v1", "http://10.0.0.7:8000/v1"),
        credential="c2VhbGVk",
        endpoints=(Endpoint.CHAT, Endpoint.EMBEDDINGS),
    ),
)
ROUTES = (
    RouteRecord(
        id="rt_a",
        organisation_id="org_a",
        name="chat/default",
        targets=(
            TargetRecord("tgt_1", "pool_p", 80, 500, 10_000, 5_000, 300_000),
            TargetRecord("tgt_2", "pool_s", 20, tier=1),
        ),
        strategy=Strategy.LEAST_WORK,
        is_enabled=True,
        accounting=Accounting.STRICT,
        default_max_output_tokens=1024,
        max_attempts=3,
        connect_timeout_ms=1_000,
        first_byte_timeout_ms=30_000,
        idle_timeout_ms=20_000,
        total_timeout_ms=600_000,
        retry_budget_percent=10,
        max_wait_penalty=0.25,
        keep_alive_ms=20_000,
        aliases=("chat/latest",),
        rules=(
            RuleRecord(
                id="rule_1",
                name="nights",
                when=MatchRecord(
                    key_ids=("0123456789abcdefghjkmnpqrs",),
                    team_ids=("team_a",),
                    project_ids=("proj_a",),
                    tags=("app=search",),
                    headers=(("x-region", "eu"),),
                    aliases=("chat/latest",),
                    tasks=(TaskClass.CODE,),
                    priorities=(PriorityClass.BATCH,),
                    prompt_tokens_min=0,
                    prompt_tokens_max=4_000,
                    schedule=ScheduleRecord((Weekday.MONDAY,), 1_320, 360),
                ),
                targets=(TargetRecord("tgt_3", "pool_s", 1),),
                is_enabled=False,
            ),
        ),
        default_task=TaskClass.FACTUAL,
        max_queue_wait_ms=5_000,
        max_queued=50,
        hedge_after_ms=900,
        degradation=(DegradationStep.TRIM_BATCH, DegradationStep.SHED_BATCH),
    ),
)
KEYS = (
    KeyRecord(
        id="0123456789abcdefghjkmnpqrs",
        organisation_id="org_a",
        team_id="team_a",
        project_id="proj_a",
        digests=(KeyDigest(2, "ab" * 32, None), KeyDigest(1, "cd" * 32, 1_800_000_000.5)),
        scopes=(Scope.INFERENCE, Scope.DEBUG),
        route_names=("chat/default",),
        expires_at=1_900_000_000.0,
        is_enabled=True,
        tags=("app=search",),
        priority=PriorityClass.INTERACTIVE,
        default_task=TaskClass.CODE,
    ),
)
LIMITS = (
    LimitRecord(
        id="lim_a",
        organisation_id="org_a",
        name="a key's requests",
        subject=LimitSubject.KEY,
        unit=LimitUnit.REQUESTS,
        amount=600,
        subject_id="0123456789abcdefghjkmnpqrs",
        window=LimitWindow.MINUTE,
        enforcement=Enforcement.STRICT,
        is_enabled=False,
    ),
    LimitRecord("lim_b", "org_a", "at once", LimitSubject.END_USER, LimitUnit.PARALLEL, 0),
)
BUDGETS = (
    BudgetRecord(
        id="bud_a",
        organisation_id="org_a",
        name="support, by end user",
        scopes=(
            BudgetScope(BudgetSubject.TEAM, "team_a"),
            BudgetScope(BudgetSubject.END_USER),
        ),
        amount_nanousd=9_000_000_000_000,
        period=BudgetPeriod.MONTH,
        action=BudgetAction.NOTIFY,
        unknown_price=UnknownPrice.ALLOW,
        grace_percent=5,
        raised_to_nanousd=12_000_000_000_000,
        raised_until=1_764_500_900.5,
        is_enabled=False,
    ),
    BudgetRecord(
        "bud_b", "org_a", "all", (BudgetScope(BudgetSubject.ORGANISATION),), 0, BudgetPeriod.DAY
    ),
)
SWITCHES = (
    SwitchRecord("sw_a", "org_a", SwitchSubject.ROUTE, "rt_a", "maintenance", 1_764_500_900.5),
    SwitchRecord("sw_b", "org_a", SwitchSubject.ORGANISATION),
)
GATEWAYS = (GatewayRecord("gw-1", 2, is_drained=True),)
MANIFEST = Manifest(
    lineage="01KB7",
    version=7,
    sections={"models": "11" * 32, "organisations": "22" * 32},
    created_at=1_764_500_000.25,
)
