"""Gateways by REST: what is wanted of each, what it says, and when a drain or restart is done."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from redis import Redis

from controlplane.models import AuditEntry, GatewaySetting
from controlplane.services.actors import Actor
from controlplane.services.users import create_user
from inference.contract.snapshot import GatewayRecord
from inference.contract.vitals import Vitals
from tests.controlplane.conftest import Caller
from tests.controlplane.live.test_propagation import child, publish, write
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


PATH = "/api/v1/gateways/a/"


@pytest.fixture
def root(db: None, actor: Actor) -> Client:
    """The platform's administrator."""
    user = create_user(actor, username="root", password="a long pass 1", is_platform_admin=True)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def serving(process: str, **fields: Any) -> Vitals:
    return child(process, datetime.now(UTC), **fields)


@pytest.fixture
def store(state_store: Redis) -> Redis:
    """A store that gateway a and its two children write to."""
    publish(state_store)
    write(state_store, serving("a/0", inflight={"pool_x-0": 2}), serving("a/1"))
    return state_store


def patch(client: Client, document: object, path: str = PATH, **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps(document)
    return client.patch(path, body, content_type="application/json", headers=told)


def told(response: HttpResponse) -> Any:
    assert response.status_code == 200, response.content
    return json.loads(response.content)


def test_a_drain_is_asked_for_acknowledged_and_taken_back(root: Client, store: Redis) -> None:
    before = told(root.get(PATH))
    assert (before["state"], before["is_drained"], before["is_draining"]) == (
        *("serving", False),
        False,
    )
    after = told(patch(root, {"is_drained": True}, X_Headworks_Reason="kernel"))
    assert (after["state"], after["is_drained"], after["inflight"]) == ("draining", True, 2)
    assert staged_snapshot().gateways == {"a": GatewayRecord("a", is_drained=True)}
    entry = AuditEntry.objects.order_by("-id")[0]
    assert (entry.noun, entry.organisation_id, entry.reason) == ("gateways", None, "kernel")
    assert (entry.before, entry.after) == ({"is_drained": False}, {"is_drained": True})
    assert newest_revision().reason == "kernel"
    write(store, serving("a/0", inflight={"pool_x-0": 2}, is_draining=True), serving("a/1"))
    half = told(root.get(PATH))
    assert (half["state"], half["is_draining"]) == ("draining", False)
    write(store, serving("a/0", inflight={"pool_x-0": 1}, is_draining=True))
    write(store, serving("a/1", is_draining=True))
    busy = told(root.get(PATH))
    assert (busy["state"], busy["is_draining"], busy["inflight"]) == ("draining", True, 1)
    write(store, serving("a/0", requests=1, is_draining=True))
    sent = told(root.get(PATH))
    assert (sent["state"], sent["inflight"]) == ("draining", 1)
    write(store, serving("a/0", inflight={"pool_x-0": 0}, is_draining=True))
    assert told(root.get(PATH))["state"] == "drained"
    assert told(patch(root, {"is_drained": False}))["state"] == "draining"
    write(store, serving("a/0"), serving("a/1"))
    assert told(root.get(PATH))["state"] == "serving"


def test_a_restart_is_done_once_the_oldest_child_was_started_for_it(
    root: Client, store: Redis
) -> None:
    after = told(patch(root, {"restart_generation": 1}))
    assert (after["restart_generation"], after["restart_generation_reached"]) == (1, 0)
    write(store, serving("a/0", restart_generation=1))
    assert told(root.get(PATH))["restart_generation_reached"] == 0
    write(store, serving("a/1", restart_generation=1))
    assert told(root.get(PATH))["restart_generation_reached"] == 1
    refused = patch(root, {"restart_generation": 0})
    assert json.loads(refused.content)["fields"] == {
        "restart_generation": ["It only grows; it is 1 now."]
    }


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"is_drained": None}, "is_drained"),
        ({"restart_generation": None}, "restart_generation"),
        ({"restart_generation": -1}, "restart_generation"),
        ({"restart_generation": 2**31}, "restart_generation"),
        ({"name": "b"}, "name"),
        ({"drained": True}, "drained"),
    ],
)
def test_what_can_not_be_set_is_refused_at_its_field(
    document: object, field: str, root: Client, store: Redis
) -> None:
    response = patch(root, document)
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]
    assert GatewaySetting.objects.count() == 0


def test_an_edit_changes_what_it_names_and_what_was_read_can_be_sent_back(
    root: Client, store: Redis
) -> None:
    patch(root, {"is_drained": True})
    after = told(patch(root, {"restart_generation": 2}))
    assert (after["is_drained"], after["restart_generation"]) == (True, 2)
    version = newest_revision().version
    assert told(patch(root, told(root.get(PATH)))) == told(root.get(PATH))
    assert told(patch(root, {})) == told(root.get(PATH))
    assert newest_revision().version == version


def test_nothing_wanted_leaves_no_row_behind(root: Client, store: Redis) -> None:
    assert patch(root, {"is_drained": False}).status_code == 200
    assert GatewaySetting.objects.count() == 0


def test_an_edit_is_made_at_the_version_that_was_seen(root: Client, store: Redis) -> None:
    assert root.get(PATH)["ETag"] == '"0"'
    first = patch(root, {"is_drained": True}, If_Match='"0"')
    assert (first.status_code, first["ETag"]) == (200, '"1"')
    late = patch(root, {"is_drained": False}, If_Match='"0"')
    assert (late.status_code, late.json()["current_version"]) == (412, 1)
    assert patch(root, {"is_drained": False}, If_Match='"1"')["ETag"] == '"2"'


def test_an_edit_is_rehearsed_without_a_trace(root: Client, store: Redis) -> None:
    patch(root, {"restart_generation": 1})
    draft = told(patch(root, {"is_drained": True}, f"{PATH}?dry_run=true"))
    assert draft["sections"] == ["gateways"]
    assert [(one["noun"], one["after"]) for one in draft["changes"]] == [
        ("gateways", {"is_drained": True})
    ]
    assert not GatewaySetting.objects.get().is_drained


def test_only_the_platform_s_administrators_change_gateways_and_know_their_load(
    admin: Caller, narrow: Caller, store: Redis
) -> None:
    refused = admin.patch("/gateways/a/", {"is_drained": True})
    assert refused.status_code == 403
    assert refused.json()["detail"] == (
        "Only a platform administrator who is signed in can change gateways; no token can."
    )
    assert GatewaySetting.objects.count() == 0
    shown = told(admin.get("/gateways/a/"))
    assert (shown["state"], shown["inflight"]) == ("serving", None)
    assert narrow.get("/gateways/a/").status_code == 403


def test_the_trail_of_gateways_is_told_to_the_platform_s_administrators_alone(
    root: Client, admin: Caller, store: Redis
) -> None:
    patch(root, {"is_drained": True}, X_Headworks_Reason="kernel")
    (entry,) = told(root.get("/api/v1/audit/?noun=gateways"))["results"]
    assert (entry["organisation_id"], entry["reason"]) == (None, "kernel")
    assert entry["id"] in [one["id"] for one in told(root.get("/api/v1/audit/"))["results"]]
    scope = f"scope={admin.organisation.pk}"
    found = [one["organisation_id"] for one in told(root.get(f"/api/v1/audit/?{scope}"))["results"]]
    assert {*found} == {None, admin.organisation.pk}
    assert {one["organisation_id"] for one in told(admin.get(f"/audit/?{scope}"))["results"]} == {
        admin.organisation.pk
    }
    assert told(admin.get("/audit/?noun=gateways"))["results"] == []
    assert entry["id"] not in [one["id"] for one in told(admin.get("/audit/"))["results"]]


def test_a_gateway_nobody_saw_is_none_but_what_is_wanted_of_one_stays_told(
    root: Client, store: Redis
) -> None:
    for answer in (root.get("/api/v1/gateways/x/"), patch(root, {}, "/api/v1/gateways/x/")):
        assert answer.status_code == 404
    patch(root, {"is_drained": True})
    store.flushdb()
    gone = told(root.get(PATH))
    assert (gone["state"], gone["is_drained"], gone["is_live"]) == ("unknown", True, False)
    assert (gone["children_seen"], gone["as_of"], gone["is_draining"]) == (0, None, None)
    listed = told(root.get("/api/v1/gateways/"))
    assert ([one["name"] for one in listed["gateways"]], listed["seen"]) == (["a"], 0)


def test_a_name_may_have_a_slash(root: Client, store: Redis) -> None:
    write(store, serving("dc-1/b/0"))
    path = "/api/v1/gateways/dc-1/b/"
    assert told(patch(root, {"is_drained": True}, path))["name"] == "dc-1/b"


def test_without_the_store_a_known_gateway_is_drained_and_an_unknown_one_is_not(
    root: Client, store: Redis, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(root, {"restart_generation": 1})
    gone = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", gone)
    assert told(patch(root, {"is_drained": True}))["state"] == "unknown"
    answer = patch(root, {"is_drained": True}, "/api/v1/gateways/x/")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_version_tells_what_was_wanted_of_gateways_and_how_it_differs(
    root: Client, admin: Caller, pool: Any, store: Redis, collected_files: None
) -> None:
    before = newest_revision().version
    patch(root, {"is_drained": True})
    home = f"organisation={admin.organisation.pk}"
    version = newest_revision().version
    path = f"/api/v1/snapshots/{version}/"
    record = {"id": "a", "restart_generation": 0, "is_drained": True}
    contents = told(root.get(f"{path}?{home}&noun=gateways"))["contents"]
    assert contents == {"gateways": [record]}
    diff = told(root.get(f"/api/v1/snapshots/{before}/diff/?{home}&to={version}"))
    assert diff["nouns"] == {"gateways": {"added": [record], "removed": [], "changed": []}}
    page = root.get(f"/snapshots/{version}/?{home}").content.decode()
    assert "gateway a" in page.lower()
    (row,) = told(root.get(f"/api/v1/snapshots/?version={version}"))["results"]
    assert (row["organisation_id"], row["changed_nouns"]) == (None, ["gateways"])
