"""The API does what its own document says, whatever is sent to it."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.utils import timezone

from controlplane.models import Role
from controlplane.services.actors import Actor
from controlplane.services.users import create_user, grant_role
from tests.controlplane.conftest import Caller

pytestmark = pytest.mark.slow


@pytest.fixture
def rows(admin: Caller, actor: Actor, route: Any, pool: Any) -> dict[str, str]:
    """The id of one row of every noun, for operations on one."""
    person = create_user(actor, username="mira", password="a long pass 1")
    grant_role(actor, subject=person, organisation=admin.organisation, role=Role.VIEWER)
    price = {"model": "gpt-x", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
    limit = {"name": "mine", "subject": "key", "unit": "parallel", "amount": 1}
    channel = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
    rule = {"name": "down", "kind": "pool_down", "scope": "pool", "channels": ["ops"]}
    silence = {"reason": "x", "ends_at": (timezone.now() + timedelta(days=1)).isoformat()}
    budget = {"name": "mine", "scopes": [{"subject": "key"}], "amount_nanousd": "1"}
    budget |= {"period": "day"}
    days = {"since": "2026-10-01", "until": "2026-11-01"}
    report = {"name": "r", "group_by": "team", "cadence": "daily", "channel": "ops"}
    first = {
        noun: admin.get(f"/{noun}/").json()["results"][0]["id"]
        for noun in (
            *("organisations", "teams", "projects", "models"),
            *("bindings", "service-accounts", "tokens"),
        )
    }
    return {
        **first,
        "users": str(person.pk),
        "pools": pool["id"],
        "routes": route["id"],
        "service-levels": route["id"],
        "prices": admin.made("/prices/", price)["id"],
        "keys": admin.made("/keys/", {"name": "mine"})["id"],
        "limits": admin.made("/limits/", limit)["id"],
        "caches": admin.made("/caches/", {"name": "mine"})["id"],
        "purges": admin.made("/purges/", {"kind": "tag", "value": "docs"})["id"],
        "channels": admin.made("/channels/", channel)["id"],
        "alert-rules": admin.made("/alert-rules/", rule)["id"],
        "silences": admin.made("/silences/", silence)["id"],
        "deliveries": admin.made("/deliveries/", {"channel": "ops"})["id"],
        "budgets": admin.made("/budgets/", budget)["id"],
        "switches": admin.made("/switches/", {"subject": "pool", "subject_id": "mine"})["id"],
        "report-exports": admin.made("/report-exports/", days)["id"],
        "report-schedules": admin.made("/report-schedules/", report)["id"],
        "statements": admin.made("/statements/", {"month": "2026-10"})["id"],
        "snapshots": str(admin.get("/snapshots/").json()["results"][0]["version"]),
    }


@pytest.fixture
def application(rows: dict[str, str]) -> Iterator[Any]:
    """The WSGI application on this test's own transaction, as Django's client has it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield get_wsgi_application()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_every_operation_answers_as_documented(
    application: object, admin: Caller, rows: dict[str, str]
) -> None:
    # here, since every process of a run reads this file and one needs what is slow to import
    conformance = import_module("tests.controlplane.api.conformance")
    found: dict[str, str] = {}
    count = 0
    for wrong in conformance.failures_of_operations(application, admin, rows):
        count += 1
        found.update(wrong)
    assert count >= 40
    told = "\n\n".join(f"{name}\n{text}" for name, text in found.items())
    assert sorted(found) == [], told
