"""PATCH with null clears the field or is refused at it; it is never passed over."""

from typing import Any

import pytest
from rest_framework.serializers import BaseSerializer

from controlplane.api.urls import router
from controlplane.decisions.prices import AMOUNTS
from controlplane.decisions.service_levels import OBJECTIVE_BOUNDS
from tests.controlplane.conftest import Caller

PRICE = {"model": "gpt-x", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
CREDENTIAL = "sk-CANARY-of-the-pool"


def _fields(noun: str) -> dict[str, Any]:
    view = next(view for prefix, view, _ in router.registry if prefix == noun)
    serializer: BaseSerializer[Any] = view.serializer_class()
    return dict(serializer.fields)  # type: ignore[attr-defined]


NOUNS = (
    *("organisations", "teams", "projects", "models", "prices", "pools", "routes", "keys"),
    *("limits", "budgets", "switches", "alert-rules", "caches"),
)
CASES = [(noun, field) for noun in NOUNS for field in _fields(noun)]


USE = {"last_used_on", "requests_30d", "errors_30d"}
NOW = {"workers", "condition", "breakers", "panic_at", "last_resort_at"}
GPU = {"gpu_type", "capacity_class"}
OPTIONAL_AMOUNTS = set(AMOUNTS) - {"input_nanousd_per_mtok", "output_nanousd_per_mtok"}
MEASURED = {*NOW, *USE, "duplicates", "firing", "routes"}
"""What nobody sets: it is passed over in what is sent back."""


@pytest.fixture
def paths(admin: Caller, route: Any, pool: Any) -> dict[str, str]:
    """One row of every noun, with something in every field that may be null."""
    path = f"/pools/{pool['id']}/"
    filled = {"port_base": 9000, "model_source": "x", "worker_concurrency": 4}
    admin.patch(path, {"credential": CREDENTIAL, **filled})
    admin.patch(
        f"/routes/{route['id']}/",
        {"total_timeout_ms": 1_000, "keep_alive_ms": 1_000, "hedge_after_ms": 100},
    )
    cache = admin.made("/caches/", {"name": "mine"})
    admin.patch(f"/routes/{route['id']}/", {"cache_policy": "mine", "similarity_min": 0.9})
    admin.patch(f"/models/{pool['model_id']}/", {"max_context_tokens": 1_000})
    price = admin.made("/prices/", {**PRICE, "cached_input_nanousd_per_mtok": "1"})
    expiry = {"expires_at": "2100-01-01T00:00:00Z", "routes": ["chat"]}
    key = admin.made("/keys/", {"name": "mine", **expiry, "default_task": "code"})
    of_key = {"name": "mine", "subject": "key", "subject_id": "mine"}
    per_minute = {"unit": "requests", "window": "minute", "amount": 1}
    off = {"subject": "pool", "subject_id": "mine", "expires_at": "2100-01-01T00:00:00Z"}
    budget = {"name": "mine", "scopes": [{"subject": "key"}], "amount_nanousd": "1"}
    budget |= {"period": "day"}
    watched = {"name": "mine", "kind": "pool_down", "scope": "pool", "scope_id": "mine"}
    watched |= {"clears_at": 50}
    team = admin.get("/teams/").json()["results"][0]
    project = admin.get("/projects/").json()["results"][0]
    return {
        "organisations": f"/organisations/{admin.organisation.pk}/",
        "teams": f"/teams/{team['id']}/",
        "projects": f"/projects/{project['id']}/",
        "models": f"/models/{pool['model_id']}/",
        "prices": f"/prices/{price['id']}/",
        "pools": path,
        "routes": f"/routes/{route['id']}/",
        "keys": f"/keys/{key['id']}/",
        "budgets": f"/budgets/{admin.made('/budgets/', budget)['id']}/",
        "limits": f"/limits/{admin.made('/limits/', of_key | per_minute)['id']}/",
        "alert-rules": f"/alert-rules/{admin.made('/alert-rules/', watched)['id']}/",
        "caches": f"/caches/{cache['id']}/",
        "switches": f"/switches/{admin.made('/switches/', off)['id']}/",
    }


@pytest.mark.slow
def test_null_is_honoured_or_refused_in_every_field(admin: Caller, paths: dict[str, str]) -> None:
    outcomes: dict[str, set[str]] = {}
    known: dict[str, Any] = {}
    for noun, field in CASES:
        if noun not in known:
            known[noun] = admin.get(paths[noun]).json()
        response = admin.patch(paths[noun], {field: None})
        if response.status_code == 200:
            after = response.json()
            told = after["has_credential"] or None if field == "credential" else after[field]
            assert told is None or field in MEASURED, (noun, field)
            outcomes.setdefault(noun, set()).add(field)
        else:
            assert response.status_code == 400, (noun, field, response.content)
            assert list(response.json()["fields"]) == [field]
            after = admin.get(paths[noun]).json()
            assert after == known[noun], (noun, field)
        known[noun] = after
    assert outcomes == {
        "models": {"max_context_tokens"},
        "prices": {"pool", "pool_id", "next", *OPTIONAL_AMOUNTS},
        "pools": {"model_source", "port_base", "credential", "worker_concurrency", *GPU, *NOW},
        "routes": {
            *("total_timeout_ms", "keep_alive_ms", "hedge_after_ms", *OBJECTIVE_BOUNDS),
            *("cache_policy", "cache_policy_id", "similarity_min"),
        },
        "keys": {"routes", "expires_at", "revoked_at", "default_task", *USE},
        # without one that is meant there is no name of it
        "limits": {"subject_id", "subject_name", "duplicates"},
        "budgets": {"raised_to_nanousd", "raised_until", "cheaper_model"},
        "switches": {"expires_at"},
        "caches": {"false_hits_max_percent", "routes"},
        "alert-rules": {"scope_id", "scope_name", "firing", "clears_at", "critical_at"},
    }


@pytest.mark.slow
def test_a_patch_of_one_field_leaves_every_other(admin: Caller, paths: dict[str, str]) -> None:
    moving = {"version", "updated_at", "name"}
    for noun in set(NOUNS) - {"prices", "switches"}:
        before = admin.get(paths[noun]).json()
        assert admin.patch(paths[noun], {"name": "renamed"}).status_code == 200
        after = admin.get(paths[noun]).json()
        assert {name: after[name] for name in set(after) - moving} == {
            name: before[name] for name in set(before) - moving
        }
