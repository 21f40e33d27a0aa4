"""Every field the API says can be written is taken when a row is made."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.serializers import Serializer

from controlplane.api.serializers.users import MemberSerializer
from controlplane.api.urls import router
from controlplane.services.actors import Actor
from controlplane.services.users import create_user
from tests.controlplane.conftest import POOL, ROUTE, Caller

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

_TOMORROW = (timezone.now() + timedelta(days=1)).isoformat().replace("+00:00", "Z")
PRICE = {"model": "gpt-x", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
GPU_PRICE = {"gpu_type": "H100", "capacity_class": "spot", "hour_nanousd": "1"}
LIMIT = {"name": "new", "subject": "key", "unit": "requests", "window": "minute", "amount": 1}
BUDGET = {"name": "new", "scopes": [{"subject": "key"}], "amount_nanousd": "1", "period": "day"}
SCHEDULE = {"name": "new", "group_by": "team", "cadence": "daily"}
LEAST: Mapping[str, Mapping[str, Any]] = {
    "organisations": {"name": "New"},
    "teams": {"name": "New"},
    "projects": {"name": "New", "team": "Default"},
    "models": {"name": "new"},
    "prices": PRICE,
    "pools": {**POOL, "name": "new"},
    "gpu-prices": GPU_PRICE,
    "routes": {**ROUTE, "name": "new"},
    "keys": {"name": "New"},
    "limits": LIMIT,
    "caches": {"name": "new"},
    "purges": {"kind": "tag", "value": "docs"},
    "budgets": BUDGET,
    "switches": {"subject": "organisation"},
    "alert-rules": {"name": "new", "kind": "pool_down", "scope": "pool"},
    "silences": {"reason": "works", "ends_at": _TOMORROW},
    "channels": {"name": "new", "kind": "email", "recipients": ["a@example.com"]},
    "deliveries": {"channel": "ops"},
    "report-schedules": {**SCHEDULE, "channel": "ops"},
    "users": {"username": "new", "role": "viewer"},
    "bindings": {"user": "ann", "role": "viewer"},
    "service-accounts": {"name": "new"},
    "tokens": {"service_account": "ci"},
}
VALUES: Mapping[str, Mapping[str, Any]] = {
    "organisations": {"name": "Another", "time_zone": "Europe/Berlin", "is_enabled": False},
    "teams": {"name": "Another"},
    "projects": {"name": "Another", "team": "Default"},
    "models": {"name": "another", "task": "embed", "max_context_tokens": 8_192},
    "prices": {
        **PRICE,
        "pool": "mine",
        "cached_input_nanousd_per_mtok": "1",
        "reasoning_output_nanousd_per_mtok": "3",
        "embedding_input_nanousd_per_mtok": "4",
        "request_nanousd": "5",
        "customer_input_nanousd_per_mtok": "6",
        "customer_output_nanousd_per_mtok": "7",
        "effective_from": "2020-01-01T00:00:00Z",
        "is_confirmed": True,
    },
    "gpu-prices": {
        **GPU_PRICE,
        "effective_from": "2020-01-01T00:00:00Z",
        "is_confirmed": True,
    },
    "pools": {
        "name": "another",
        "model": "gpt-x",
        "provisioner": "static",
        "backend": "openai",
        "served_model_name": "other",
        "power": "stopped",
        "replicas": 2,
        "addresses": ["http://127.0.0.1:9001/v1"],
        "credential": "secret-of-upstream",
        "model_source": "gpt-x",
        "engine_arguments": {"seed": 7},
        "port_base": 20_000,
        "restart_generation": 1,
        "start_timeout_s": 60,
        "drain_timeout_s": 0,
        "cordoned": [0],
        "worker_restarts": {"0": 1},
        "worker_concurrency": 4,
        "gpu_type": "H100",
        "capacity_class": "spot",
        "gpus_per_worker": 8,
        "breaker_failure_percent": 1,
        "breaker_min_requests": 1,
        "breaker_open_ms": 100,
        "panic_percent": 0,
        "endpoints": ["chat", "embeddings"],
    },
    "routes": {
        "name": "another",
        "targets": [{"pool": "mine", "weight": 2}],
        "strategy": "weighted",
        "is_enabled": False,
        "accounting": "strict",
        "default_max_output_tokens": 100,
        "max_attempts": 1,
        "connect_timeout_ms": 1,
        "first_byte_timeout_ms": 1,
        "idle_timeout_ms": 1,
        "total_timeout_ms": 1,
        "retry_budget_percent": 0,
        "max_wait_penalty": 0.25,
        "keep_alive_ms": 1_000,
        "max_queue_wait_ms": 0,
        "max_queued": 0,
        "hedge_after_ms": 10,
        "aliases": ["gpt-4o", "team/best"],
        "rules": [{"name": "all", "targets": [{"pool": "mine", "weight": 1}]}],
        "default_task": "code",
        "degradation": ["shed_batch", "trim_batch"],
        "cache_policy": "answers",
        "similarity_min": 0.95,
        "objective_availability_percent": 99.5,
        "objective_first_token_p50_ms": 150,
        "objective_first_token_p99_ms": 3_000,
    },
    "keys": {
        "name": "Another",
        "project": "Default",
        "scopes": ["inference", "debug"],
        "routes": ["chat"],
        "is_enabled": False,
        "expires_at": "2099-01-01T00:00:00Z",
        "tags": ["gold", "team=search"],
        "priority": "batch",
        "default_task": "code",
    },
    "budgets": {
        "name": "another",
        "scopes": [
            {"subject": "tag", "subject_id": "eval"},
            {"subject": "model", "subject_id": None},
        ],
        "amount_nanousd": str(10**18),
        "period": "quarter",
        "action": "notify",
        "unknown_price": "allow",
        "grace_percent": 100,
        "grace_nanousd": "7",
        "thresholds_percent": [1, 1_000],
        "is_enabled": False,
        "is_rolling": True,
        "too_long": "lower",
        "acts_at_percent": 80,
        "throttle_per_minute": 1,
        "cheaper_model": "gpt-x",
        "owner": "Finance, fin@example.org",
    },
    "caches": {
        "name": "another",
        "tiers": ["local", "semantic"],
        "scope": "organisation",
        "ttl_s": {"default": 1, "code": 2, "factual": 3, "extraction": 4, "creative": 5},
        "stores_sampled": True,
        "stores_tool_calls": True,
        "serves_out_of_budget": False,
        "similarity_min": 0.8,
        "check_percent": 10.0,
        "false_hits_max_percent": 2.5,
        "stale_s": 60,
        "bypass": [{"tags": ["fresh"]}],
        "max_entry_bytes": 2_048,
        "memory_percent": 50,
        "edge_s": 30,
        "is_enabled": False,
    },
    "purges": {"kind": "entry", "value": "e_1", "reason": "wrong"},
    "limits": {
        "name": "another",
        "subject": "model",
        "subject_id": "somebody",
        "unit": "parallel",
        "window": "hour",
        "amount": 10**15,
        "enforcement": "strict",
        "is_enabled": False,
    },
    "switches": {
        "subject": "organisation",
        "subject_id": "chat",
        "reason": "It harms people.",
        "expires_at": "2099-01-01T00:00:00Z",
    },
    "alert-rules": {
        "name": "another",
        "kind": "pool_down",
        "scope": "pool",
        "scope_id": "mine",
        "threshold": 50.0,
        "window_s": 120,
        "for_s": 30,
        "severity": "critical",
        "channels": ["ops"],
        "tells_resolved": False,
        "clears_at": 40.0,
        "critical_at": 80.0,
        "on_no_data": "alert",
        "reminds_every_s": 3_600,
        "escalation": ["ops"],
        "escalates_after_s": 900,
        "runbook": "https://wiki.example.com/down",
        "is_enabled": False,
    },
    "silences": {
        "rule": "down",
        "subject_id": "pool_x",
        "reason": "works",
        "ends_at": _TOMORROW,
        "weekdays": [5, 6],
        "from_time": "22:00:00",
        "until_time": "06:00:00",
    },
    "channels": {
        "name": "another",
        "kind": "email",
        "recipients": ["b@example.com"],
        "url": "https://hooks.example.com/x",
        "secret": "a-secret-of-16-characters",
        "conversation": "C0123456789",
        "signing_secret": "a-signing-secret-of-slack",
        "tells_switches": True,
        "digest_s": 300,
        "quiet_from": "22:00:00",
        "quiet_until": "07:30:00",
        "critical_passes": False,
        "is_enabled": False,
    },
    "deliveries": {"channel": "ops"},
    "report-schedules": {
        "name": "another",
        "group_by": "end_user",
        "cadence": "monthly",
        "hour": 23,
        "channel": "ops",
        "is_enabled": False,
    },
    "users": {
        "username": "another",
        "email": "another@example.com",
        "first_name": "An",
        "last_name": "Other",
        "role": "operator",
        "team": "Default",
        "project": "Default",
    },
    "bindings": {
        "user": "ann",
        "service_account": "ci",
        "role": "operator",
        "team": "Default",
        "project": "Default",
    },
    "service-accounts": {"name": "another", "is_enabled": False},
    "tokens": {"service_account": "ci", "expires_at": "2099-01-01T00:00:00Z"},
}
_OF_PROCESSES = {"provisioner": "process", "model_source": "x", "addresses": []}
_AT_NIGHT = {"weekdays": [0], "from_time": "22:00:00", "until_time": "06:00:00"}
_BOT = {
    "kind": "slack_bot",
    "recipients": [],
    "secret": "xoxb-of-16-characters",
    "conversation": "C0123456789",
}
WITH = {
    # beyond what it fires at
    ("alert-rules", "critical_at"): {"threshold": 50.0},
    ("pools", "restart_generation"): _OF_PROCESSES,
    ("pools", "worker_restarts"): _OF_PROCESSES,
    ("limits", "subject_id"): {"subject": "end_user"},
    ("limits", "unit"): {"window": None},
    ("switches", "subject_id"): {"subject": "route"},
    ("alert-rules", "window_s"): {"kind": "error_rate"},
    ("alert-rules", "escalation"): {"escalates_after_s": 900},
    ("silences", "weekdays"): _AT_NIGHT,
    ("silences", "from_time"): _AT_NIGHT,
    ("silences", "until_time"): _AT_NIGHT,
    ("channels", "conversation"): _BOT,
    ("channels", "signing_secret"): _BOT,
    ("channels", "quiet_from"): {"quiet_until": "06:00:00"},
    ("channels", "quiet_until"): {"quiet_from": "22:00:00"},
    ("channels", "url"): {"kind": "slack", "recipients": []},
    ("channels", "secret"): {
        "kind": "webhook",
        "recipients": [],
        "url": "https://hooks.example.com/x",
    },
}
"""What a field that isn't every row's needs besides."""
INSTEAD = {("bindings", "service_account"): "user"}
"""Of two fields that exclude each other, the one to leave out."""
SHAPES: Mapping[str, type[Serializer[Any]]] = {"users": MemberSerializer}
"""How a row is made where that isn't how it is shown."""
NOT_TOLD = {
    *("organisation", "credential", "targets", "rules", "is_confirmed"),
    *(("switches", "subject_id"), ("alert-rules", "scope_id"), ("budgets", "cheaper_model")),
    ("caches", "bypass"),
    *(("channels", "url"), ("channels", "secret"), ("channels", "signing_secret")),
}
AFTERWARDS = {("deliveries", "state"), ("alerts", "state"), ("alerts", "snoozed_until")}
"""What is written later only."""
TOLD_BELOW = {"users": ("bindings", {"role", "team", "project"})}
"""Fields that are shown otherwise than they were given, or not at all."""


QUESTIONS = frozenset(
    {"explain", "replays", "repricings", "corrections", "statements", "report-exports"}
)
"""What makes no row of the configuration; each has a test of its own answers."""


def written_fields() -> list[tuple[str, str]]:
    makers = [
        (noun, view)
        for noun, view, _ in router.registry
        if hasattr(view, "create") and noun not in QUESTIONS
    ]
    return [
        (noun, name)
        for noun, view in makers
        for name, field in SHAPES.get(noun, view.serializer_class)().fields.items()
        if not field.read_only and (noun, name) not in AFTERWARDS
    ]


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    """An administrator with a pool and a route."""
    admin = make_standing_caller("admin")
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    admin.made("/caches/", {"name": "answers"})
    channel = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
    admin.made("/channels/", channel)
    admin.made("/alert-rules/", {"name": "down", "kind": "pool_down", "scope": "pool"})
    return admin


@pytest.mark.parametrize(("noun", "field"), written_fields())
def test_a_row_is_made_with_each_field_that_can_be_written(
    noun: str, field: str, admin: Caller, actor: Actor
) -> None:
    value = admin.organisation.name if field == "organisation" else VALUES[noun][field]
    document = {**LEAST[noun], **WITH.get((noun, field), {}), field: value}
    document.pop(INSTEAD.get((noun, field), ""), None)
    if noun in ("bindings", "tokens"):
        admin.made("/users/", {"username": "ann", "role": "viewer"})
        admin.made("/service-accounts/", {"name": "ci"})
    if noun == "organisations":
        root = create_user(actor, username="root", password="a long pass 1", is_platform_admin=True)
        client = Client()
        client.force_login(root)
        response = client.post("/api/v1/organisations/", document, "application/json")
    else:
        response = admin.post(f"/{noun}/", document)
    assert response.status_code == 201, response.content
    told = response.json()
    below, fields = TOLD_BELOW.get(noun, ("", set()))
    told = told[below][0] if field in fields else told
    if NOT_TOLD.isdisjoint((field, (noun, field))):
        assert told[field] == value
