"""Explain by REST: on the live configuration and on drafts, as the fleet is told to be."""

from collections.abc import Mapping
from time import time
from typing import Any

import pytest
from redis import Redis

from controlplane.models import ConfigRevision, Replay, Request
from inference.contract.kinds import BreakerState
from inference.contract.refusals import MODEL_NOT_FOUND
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.fleet import put_vitals, vitals

pytestmark = pytest.mark.slow


QUESTION = {"model": "chat", "prompt": "canary words", "max_tokens": 100}


@pytest.fixture
def fleet(admin: Caller) -> Mapping[str, Any]:
    """Two pools of two workers behind a route, and a project."""
    pools = {}
    for port, name in ((9_000, "large"), (9_100, "small")):
        addresses = [f"http://127.0.0.1:{port + place}/v1" for place in range(2)]
        document = {**POOL, "name": name, "addresses": addresses, "worker_concurrency": 4}
        pools[name] = admin.made("/pools/", document)["id"]
    price = {"model": "gpt-x", "input_nanousd_per_mtok": "1000000"}
    admin.made("/prices/", {**price, "output_nanousd_per_mtok": "2000000"})
    targets = [{"pool": "large", "weight": 3}, {"pool": "small", "weight": 1}]
    route = admin.made("/routes/", {"name": "chat", "targets": targets})
    project = admin.get("/projects/").json()["results"][0]
    return {**pools, "route": route["id"], "project": project["name"]}


def asked(caller: Caller, fleet: Mapping[str, Any], **more: object) -> dict[str, Any]:
    response = caller.post("/explain/", {**QUESTION, "project": fleet["project"], **more})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def test_an_answer_tells_targets_workers_and_the_choice_in_the_plan_of_a_chance(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    busy = {f"{fleet['large']}-0": 3}
    told = {
        "written_at": time(),
        "inflight": busy,
        "prefill_tokens": {f"{fleet['large']}-0": 4_000},
        "breakers": {f"{fleet['small']}-1": BreakerState.OPEN},
    }
    put_vitals(state_store, vitals("g/0", **told))
    answer = asked(admin, fleet, plan_u=0.1)
    assert answer["refusal"] is None
    assert [(one["pool"], one["place"], one["share"]) for one in answer["targets"]] == [
        ("large", 0, 0.75),
        ("small", 1, 0.25),
    ]
    first, second = answer["targets"][0]["workers"]
    assert (first["inflight"], first["wait_prefill"], first["wait_requests"]) == (3, 1.0, 0.75)
    assert (first["is_chosen"], second["is_chosen"]) == (False, True)
    assert answer["targets"][1]["workers"][1]["standby"] == "breaker_open"
    assert answer["choice"]["worker"] == f"{fleet['large']}-1"
    assert answer["record"]["attempts"][0]["worker"] == f"{fleet['large']}-1"
    assert answer["fleet"]["process"] == "g/0"
    assert 0 <= answer["fleet"]["age_s"] < 5
    # the bound of the prompt is its bytes and what stands around them
    most = 100 * 2_000_000 + answer["prompt_tokens_max"] * 1_000_000
    assert answer["cost_max_nanousd"] == str(round(most / 1_000_000))


def test_nothing_of_a_question_is_stored(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    before = (ConfigRevision.objects.count(), Request.objects.count(), Replay.objects.count())
    answer = asked(admin, fleet)
    assert "canary" not in str(answer)
    assert before == (
        ConfigRevision.objects.count(),
        Request.objects.count(),
        Replay.objects.count(),
    )


def test_a_draft_is_explained_without_being_made(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    changes = {"targets": [{"pool": "small", "weight": 1}]}
    draft = {"route": "chat", "changes": changes}
    answer = asked(admin, fleet, draft=draft)
    assert answer["configuration"]["is_draft"] is True
    assert [one["pool"] for one in answer["targets"]] == ["small"]
    assert len(admin.get(f"/routes/{fleet['route']}/").json()["targets"]) == 2
    assert asked(admin, fleet)["configuration"]["is_draft"] is False


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"draft": {"route": "chat", "changes": {"strategy": "luck"}}}, "draft.changes.strategy"),
        (
            {"draft": {"route": "chat", "changes": {"targets": [{"pool": "no", "weight": 1}]}}},
            "draft.changes.targets.0.pool",
        ),
        ({"draft": {"route": "gone", "changes": {}}}, "draft.route"),
        ({"project": "gone"}, "project"),
        ({"process": "g/9"}, "process"),
        ({"key": "both"}, "project"),
        ({"prompt_tokens": 5}, "prompt_tokens"),
    ],
)
def test_a_question_that_cannot_be_answered_says_which_field_is_at_fault(
    admin: Caller,
    fleet: Mapping[str, Any],
    state_store: Redis,
    more: Mapping[str, Any],
    field: str,
) -> None:
    response = admin.post("/explain/", {**QUESTION, "project": fleet["project"], **more})
    assert response.status_code == 400, response.content
    assert field in response.json()["fields"], response.json()


def test_a_key_sees_its_own_routes_alone(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    admin.made("/keys/", {"name": "none", "routes": []})
    response = admin.post("/explain/", {**QUESTION, "key": "none"})
    refusal = response.json()["refusal"]
    assert (refusal["code"], refusal["message"]) == ("model_not_found", MODEL_NOT_FOUND)
    assert response.json()["record"] is None


def test_a_role_in_a_part_learns_nothing_of_others_traffic(
    admin: Caller, narrow: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    inflight = {f"{fleet['large']}-0": 3}
    put_vitals(state_store, vitals("g/0", written_at=time(), inflight=inflight))
    team = admin.get("/teams/?name=Narrow").json()["results"][0]["id"]
    project = admin.made("/projects/", {"name": "theirs", "team": team})
    answer = asked(narrow, {**fleet, "project": project["name"]})
    assert answer["fleet"]["is_load_known"] is False
    workers = [one for target in answer["targets"] for one in target["workers"]]
    assert {(one["inflight"], one["peers_inflight"]) for one in workers} == {(None, None)}
    assert {one["wait"] for one in workers} == {0}


def test_a_limit_that_it_can_never_keep_refuses_it(
    admin: Caller, fleet: Mapping[str, Any], state_store: Redis
) -> None:
    shared = {"subject": "organisation", "unit": "requests", "window": "day"}
    some = admin.made("/limits/", {**shared, "name": "some", "amount": 5})
    answer = asked(admin, fleet)
    assert (answer["refused_by_limit"], answer["passed_over_limits"]) == (None, [])
    assert [(one["id"], one["is_short"]) for one in answer["limits"]] == [(some["id"], False)]
    none = admin.made("/limits/", {**shared, "name": "none", "amount": 0})
    answer = asked(admin, fleet)
    assert answer["refused_by_limit"] == none["id"]
    assert (answer["choice"], answer["targets"]) == (None, [])
    assert answer["record"]["limits"]["refused"] == none["id"]
