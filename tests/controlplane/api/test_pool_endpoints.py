"""Which endpoints the workers of a pool have: by REST, in the snapshot and in Explain."""

from typing import Any

import pytest

from inference.contract.kinds import Endpoint
from tests.controlplane.api.test_fault_knobs import fields_of
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow

CHAT_ONLY = {**POOL, "name": "old", "endpoints": ["chat"]}


def record_of(pool: Any) -> tuple[Endpoint, ...]:
    return staged_snapshot().pools[pool["id"]].endpoints


def test_endpoints_are_set_changed_and_brought_back(admin: Caller) -> None:
    pool = admin.made("/pools/", CHAT_ONLY)
    assert pool["endpoints"] == ["chat"]
    assert record_of(pool) == (Endpoint.CHAT,)
    version = newest_revision().version
    path = f"/pools/{pool['id']}/"
    assert admin.patch(path, {"endpoints": []}).json()["endpoints"] == []
    assert record_of(pool) == ()
    document = {"nouns": ["pools"], "reason": "as before"}
    assert admin.post(f"/snapshots/{version}/restore/", document).status_code == 200
    assert admin.get(path).json()["endpoints"] == ["chat"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"endpoints": ["chat", "rerank"]}, "endpoints.1"),
        ({"endpoints": ["chat", "chat"]}, "endpoints.1"),
        ({"endpoints": ["gossip"]}, "endpoints.0"),
        ({"endpoints": None}, "endpoints"),
        ({"provisioner": "process"}, "endpoints"),
    ],
)
def test_endpoints_that_cannot_be_are_refused_at_their_place(
    changes: dict[str, Any], place: str, admin: Caller
) -> None:
    pool = admin.made("/pools/", CHAT_ONLY)
    assert place in fields_of(admin.patch(f"/pools/{pool['id']}/", changes))


def test_explain_says_which_targets_would_be_asked_in_other_words(admin: Caller) -> None:
    admin.made("/pools/", CHAT_ONLY)
    admin.made("/pools/", {**POOL, "name": "new"})
    targets = [{"pool": "old", "weight": 9}, {"pool": "new", "weight": 1}]
    admin.made("/routes/", {"name": "chat", "targets": targets})
    project = admin.get("/projects/").json()["results"][0]["name"]
    question = {"model": "chat", "prompt": "ping", "project": project, "plan_u": 0.1}

    def told(endpoint: str) -> list[tuple[str, int, str | None, float]]:
        answer = admin.post("/explain/", {**question, "endpoint": endpoint}).json()
        return [
            (one["pool"], one["place"], one["bridge"], one["share"]) for one in answer["targets"]
        ]

    assert told("responses") == [("old", 1, "chat", 0.0), ("new", 0, None, 1.0)]
    assert told("messages") == [
        ("old", 0, "chat", pytest.approx(0.9, abs=0.01)),
        ("new", 1, "chat", pytest.approx(0.1, abs=0.01)),
    ]
