"""What needs attention, by REST: what the Overview lists, to whom it lists it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from redis import Redis

from controlplane.decisions.propagation import PartlySilent
from controlplane.models import Role
from controlplane.services.actors import Actor
from controlplane.services.live import Census
from controlplane.services.users import create_user, grant_role
from inference.contract.kinds import WorkerState
from tests.controlplane.conftest import Caller
from tests.controlplane.fleet import put_directory, worker
from tests.controlplane.live.facts import child, quiet, sampled, traffic

pytestmark = pytest.mark.slow


@pytest.fixture
def reader(admin: Caller, actor: Actor, collected_files: None) -> Client:
    """A browser of somebody who reads the admin's organisation."""
    user = create_user(actor, username="mira", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def troubled(admin: Caller, pool: Any, state_store: Redis) -> str:
    """A pool without a worker, whose traffic failed after a gap and had no price; its id."""
    home, pool_id = admin.organisation.pk, pool["id"]
    put_directory(state_store, worker(f"{pool_id}-0", WorkerState.FAILED, detail="exit code 1"))
    quiet(-180.0)
    failed = traffic(0, home, pool_id, requests=10, failures={"timeout": 6}, unknown_cost=10)
    sampled(4.0, child("a/0", failed, written_s=4.0))
    return str(pool_id)


AT_NOON = "window=5m&until=2026-11-24T12:00:05Z"


def test_rest_tells_what_the_overview_lists(admin: Caller, reader: Client, troubled: str) -> None:
    answer = admin.get(f"/attention/?{AT_NOON}")
    assert answer.status_code == 200
    document = answer.json()
    assert document["organisation_id"] == admin.organisation.pk
    assert [(one["kind"], one["severity"], one["pool_id"]) for one in document["needs"]] == [
        ("failures", "critical", None),
        ("pool", "critical", troubled),
        ("no_price", "warning", None),
        ("no_data", "notice", None),
    ]
    home = admin.organisation.pk
    page = reader.get(f"/live/overview/?organisation={home}&{AT_NOON}").json()
    assert [(one["title"], one["detail"]) for one in document["needs"]] == [
        (one["title"], one["detail"]) for one in (*page["needs"], *page["gap_needs"])
    ]


def test_a_gateway_with_one_silent_process_is_a_warning_and_missing_by_name(
    admin: Caller, state_store: Redis
) -> None:
    told = child("vm-1/0", written_s=4.0)
    sampled(4.0, told, census=Census(0, 1, (PartlySilent("vm-1", 1, 2),)))
    (need,) = admin.get(f"/attention/?{AT_NOON}").json()["needs"]
    assert (need["kind"], need["severity"]) == ("silent_gateway", "warning")
    assert need["title"] == "vm-1: 1 of 2 processes is silent"
    coverage = admin.get(f"/live/?{AT_NOON}").json()["coverage"]
    assert coverage | {"as_of": None} == {
        "live": 0,
        "seen": 1,
        "missing": ["vm-1"],
        "as_of": None,
    }


def test_the_overview_shows_the_call(admin: Caller, reader: Client) -> None:
    page = reader.get("/?window=5m").content.decode()
    assert "http://testserver/api/v1/attention/?window=5m" in page
    assert "http://testserver/api/v1/live/?window=5m" in page


def test_it_is_for_roles_of_the_whole_organisation(
    narrow: Caller, admin: Caller, make_caller: Callable[..., Caller], state_store: Redis
) -> None:
    assert narrow.get("/attention/").status_code == 403
    stranger = make_caller("admin").get(f"/attention/?organisation={admin.organisation.pk}")
    assert (stranger.status_code, list(stranger.json()["fields"])) == (400, ["organisation"])


@pytest.mark.parametrize("query", ["windw=5m", "pool=mine", "window=3m", "until=soon"])
def test_questions_that_mean_nothing_name_the_field(admin: Caller, query: str) -> None:
    answer = admin.get(f"/attention/?{query}")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [query.partition("=")[0]])
