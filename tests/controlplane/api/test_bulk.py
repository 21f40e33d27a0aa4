"""Many writes in one call: all or none, one version, and errors at their operation."""

from typing import Any

import pytest

from controlplane.models import AuditEntry, CatalogueModel, ConfigRevision, Key, Pool, Team
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


def _create(**data: Any) -> dict[str, Any]:
    return {"action": "create", "data": data}


def test_creates_changes_and_removals_are_one_version(admin: Caller) -> None:
    first = admin.made("/models/", {"name": "one"})
    second = admin.made("/models/", {"name": "two"})
    version = newest_revision().version
    response = admin.post(
        "/models/bulk/",
        {
            "operations": [
                _create(name="three"),
                {"action": "update", "id": first["id"], "if_match": 1, "data": {"name": "uno"}},
                {"action": "delete", "id": second["id"]},
            ]
        },
    )
    assert response.status_code == 200
    answer = response.json()
    assert answer["version"] == version + 1 == newest_revision().version
    assert [one["action"] for one in answer["results"]] == ["create", "update", "delete"]
    assert answer["results"][1]["object"]["name"] == "uno"
    assert answer["results"][2] == {"action": "delete", "id": second["id"], "object": None}
    models = staged_snapshot(newest_revision()).models
    assert sorted(model.name for model in models.values()) == ["three", "uno"]


@pytest.mark.parametrize(
    ("operation", "status", "place"),
    [
        (_create(name="no name"), 400, "operations.1.data.name"),
        (_create(name="one"), 400, "operations.1.data.name"),
        (_create(nmae="x"), 400, "operations.1.data.nmae"),
        (_create(name="x", max_context_tokens=None, task="cook"), 400, "operations.1.data.task"),
        ({"action": "delete", "id": "mdl_nowhere"}, 404, "operations.1.id"),
        ({"action": "revoke", "id": "mdl_nowhere"}, 400, "operations.1.action"),
        ({"action": "create"}, 400, "operations.1.data"),
        ({"action": "update", "data": {}}, 400, "operations.1.id"),
        ({"action": "cook"}, 400, "operations.1.action"),
    ],
)
def test_one_that_fails_undoes_all_and_is_named(
    operation: dict[str, Any], status: int, place: str, admin: Caller
) -> None:
    response = admin.post("/models/bulk/", {"operations": [_create(name="one"), operation]})
    assert response.status_code == status, response.content
    assert place in response.json()["fields"]
    assert not CatalogueModel.objects.exists()
    assert not AuditEntry.objects.filter(noun="models").exists()


def test_problems_of_the_whole_are_told_at_their_operation(admin: Caller) -> None:
    bad = {**POOL, "name": "bad", "addresses": ["http://169.254.169.254/v1"]}
    response = admin.post("/pools/bulk/", {"operations": [_create(**POOL), _create(**bad)]})
    assert response.status_code == 400
    assert response.json()["code"] == "problems_found"
    assert list(response.json()["fields"]) == ["operations.1.data.addresses.0"]
    assert not Pool.objects.exists()


def test_rows_are_told_as_lists_tell_them(admin: Caller, pool: Any) -> None:
    change = {"action": "update", "id": pool["id"], "data": {"drain_timeout_s": 9}}
    response = admin.post("/pools/bulk/", {"operations": [change, change]})
    assert response.status_code == 200, response.content
    listed = admin.get("/pools/").json()["results"]
    assert [one["object"] for one in response.json()["results"]] == listed * 2
    assert listed[0]["version"] == 2


def test_a_row_that_moved_on_or_is_in_use_is_named(admin: Caller, pool: Any, route: Any) -> None:
    stale = {"action": "update", "id": pool["id"], "if_match": 7, "data": {"replicas": 2}}
    response = admin.post("/pools/bulk/", {"operations": [stale]})
    assert response.status_code == 412
    assert response.json()["current_version"] == 1
    assert list(response.json()["fields"]) == ["operations.0.if_match"]
    response = admin.post("/pools/bulk/", {"operations": [{"action": "delete", "id": pool["id"]}]})
    assert response.status_code == 409
    assert response.json()["fields"]["operations.0.routes"] == ["chat"]


def test_keys_are_made_and_revoked_in_bulk(admin: Caller) -> None:
    old = admin.made("/keys/", {"name": "old"})
    response = admin.post(
        "/keys/bulk/",
        {"operations": [{"action": "revoke", "id": old["id"]}, _create(name="new")]},
    )
    assert response.status_code == 200, response.content
    revoked, made = response.json()["results"]
    assert revoked["object"]["revoked_at"] is not None
    assert "key" not in revoked["object"]
    assert made["object"]["key"].startswith("hw_")
    response = admin.post("/keys/bulk/", {"operations": [{"action": "delete", "id": made["id"]}]})
    assert response.status_code == 400
    assert Key.objects.count() == 2


def test_nobody_elses_rows_are_reached(admin: Caller, make_caller: Any) -> None:
    stranger = make_caller("admin")
    theirs = stranger.made("/teams/", {"name": "theirs"})
    response = admin.post(
        "/teams/bulk/", {"operations": [{"action": "delete", "id": theirs["id"]}]}
    )
    assert response.status_code == 404
    viewer = make_caller("viewer", admin.organisation)
    assert viewer.post("/teams/bulk/", {"operations": [_create(name="x")]}).status_code == 403
    assert Team.objects.filter(pk=theirs["id"]).exists()


def test_five_hundred_are_the_most_and_a_few_queries_each(
    admin: Caller, django_assert_max_num_queries: Any
) -> None:
    many = [_create(name=f"model-{number}") for number in range(501)]
    response = admin.post("/models/bulk/", {"operations": many})
    assert (response.status_code, list(response.json()["fields"])) == (400, ["operations"])
    versions = ConfigRevision.objects.count()
    with django_assert_max_num_queries(30 + 6 * 100):
        response = admin.post("/models/bulk/", {"operations": many[:100]})
    assert response.status_code == 200
    assert ConfigRevision.objects.count() == versions + 1


def test_a_bulk_call_can_be_tried_out_and_repeated(admin: Caller) -> None:
    document = {"operations": [_create(name="one"), _create(name="two")]}
    told = admin.post("/models/bulk/?dry_run=true", document).json()
    assert [one["after"]["name"] for one in told["changes"]] == ["one", "two"]
    assert not CatalogueModel.objects.exists()
    first = admin.post("/models/bulk/", document, Idempotency_Key="one").json()
    assert admin.post("/models/bulk/", document, Idempotency_Key="one").json() == first
    assert CatalogueModel.objects.count() == 2


def test_a_version_is_asked_for_by_operation_and_never_ignored(admin: Caller) -> None:
    operations = [{"action": "create", "data": {"name": "new"}}]
    response = admin.post("/models/bulk/", {"operations": operations}, If_Match='"7"')
    assert (response.status_code, list(response.json()["fields"])) == (400, ["If-Match"])
    assert not CatalogueModel.objects.filter(name="new").exists()
