"""A dry run says what a write would do, and leaves nothing behind."""

from typing import Any

import pytest

from controlplane.models import AuditEntry, ConfigRevision, KeptAnswer, Key, Pool, Project
from controlplane.services.actors import Actor
from controlplane.services.drafts import draft
from controlplane.services.projects import create_project
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import newest_revision

pytestmark = pytest.mark.slow


def _left() -> tuple[int, ...]:
    kinds = (AuditEntry, ConfigRevision, Key, KeptAnswer, Pool)
    return tuple(kind.objects.count() for kind in kinds)


def test_a_dry_run_tells_the_changed_fields_and_stores_nothing(
    admin: Caller, route: dict[str, Any]
) -> None:
    before, version = _left(), newest_revision().version
    response = admin.patch(
        f"/routes/{route['id']}/?dry_run=true", {"max_attempts": 5, "accounting": "lenient"}
    )
    assert response.status_code == 200
    assert response.json() == {
        "version": version,
        "sections": ["routes"],
        "changes": [
            {
                "noun": "routes",
                "object_id": route["id"],
                "action": "update",
                "before": {"max_attempts": 2},
                "after": {"max_attempts": 5},
            }
        ],
        "refused": None,
    }
    assert _left() == before
    assert admin.get(f"/routes/{route['id']}/").json() == route


def test_a_draft_of_a_new_pool_tells_of_its_new_model_too(admin: Caller) -> None:
    told = admin.post("/pools/?dry_run=true", POOL).json()
    assert [(one["action"], one["noun"]) for one in told["changes"]] == [
        ("create", "models"),
        ("create", "pools"),
    ]
    assert told["sections"] == ["models", "pools"]
    assert admin.get("/models/").json()["results"] == []


def test_a_draft_of_a_key_never_shows_a_secret(admin: Caller) -> None:
    before = _left()
    response = admin.post("/keys/?dry_run=true", {"name": "mine"}, Idempotency_Key="one")
    assert response.status_code == 200
    assert "hw_" not in response.content.decode()
    assert set(response.json()) == {"version", "sections", "changes", "refused"}
    assert _left() == before


def test_a_draft_says_why_the_edit_would_be_refused(admin: Caller, pool: Any, route: Any) -> None:
    told = admin.delete(f"/pools/{pool['id']}/?dry_run=true").json()
    assert told["refused"]["code"] == "in_use"
    assert told["refused"]["fields"] == {"routes": ["chat"]}
    assert (told["changes"], told["sections"]) == ([], [])
    told = admin.patch(
        f"/pools/{pool['id']}/?dry_run=true", {"addresses": ["http://169.254.169.254/v1"]}
    ).json()
    assert told["refused"]["code"] == "problems_found"
    assert list(told["refused"]["fields"]) == ["addresses.0"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("?dry_run=maybe", {}, 400),
        ("?dry_run=true", {"If_Match": '"7"'}, 412),
    ],
)
def test_what_is_no_draft_is_answered_as_without(
    path: str, headers: dict[str, str], status: int, admin: Caller, pool: Any
) -> None:
    response = admin.patch(f"/pools/{pool['id']}/{path}", {"replicas": 3}, **headers)
    assert response.status_code == status


def test_a_viewer_drafts_nothing(make_caller: Any, admin: Caller, pool: Any) -> None:
    viewer = make_caller("viewer", admin.organisation)
    response = viewer.patch(f"/pools/{pool['id']}/?dry_run=true", {"replicas": 3})
    assert response.status_code == 403


def test_what_the_database_checks_at_commit_is_found_by_a_draft(
    actor: Actor, make_caller: Any, admin: Caller
) -> None:
    stranger = make_caller("admin").organisation
    tried = draft(
        lambda: create_project(
            actor,
            organisation=admin.organisation,
            team=stranger.teams.get(),
            name="astray",
        )
    )
    assert tried.refused is not None
    assert tried.refused.code == "conflict"
    assert not Project.objects.filter(name="astray").exists()


def test_a_failing_call_leaves_nothing_and_is_raised(admin: Caller) -> None:
    before = _left()

    def fail() -> None:
        admin.made("/pools/", POOL)
        raise LookupError("broke")

    with pytest.raises(LookupError):
        draft(fail)
    assert _left() == before


def test_a_draft_does_not_hide_what_comes_after(admin: Caller) -> None:
    admin.post("/pools/?dry_run=true", POOL)
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    assert newest_revision().version == admin.get("/snapshots/").json()["results"][0]["version"]


@pytest.mark.parametrize("slip", ["dryrun=true", "dry-run=true", "organisation=mine"])
@pytest.mark.parametrize("path", ["/keys/", "/keys/bulk/", "/snapshots/1/restore/"])
def test_a_slip_in_the_parameter_does_nothing(
    admin: Caller, route: dict[str, Any], path: str, slip: str
) -> None:
    before = _left()
    response = admin.post(f"{path}?{slip}", {"name": "mine", "nouns": ["routes"]})
    assert response.status_code == 400
    assert response.json()["fields"] == {slip.partition("=")[0]: ["There is no such parameter."]}
    assert _left() == before
