"""Versions can be read, compared and gone back to; a roll-back is an edit like any other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from controlplane.compiler import target_values, values_of_record
from controlplane.models import (
    AuditEntry,
    CatalogueModel,
    ConfigRevision,
    ConfigSection,
    Pool,
    Route,
    RouteTarget,
)
from controlplane.selectors.snapshots import get_records, get_revision_of
from inference.contract import codec, sealing
from inference.contract.sealing import decrypt
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


SECRET = "sk-CANARY-of-the-pool"
ALL = ["models", "pools", "routes"]


@pytest.fixture(scope="module", autouse=True)
def pool(admin: Caller) -> Any:
    return admin.made("/pools/", POOL)


@pytest.fixture(scope="module", autouse=True)
def route(admin: Caller, pool: Any) -> Any:
    return admin.made("/routes/", ROUTE)


def _restore(caller: Caller, version: int, *nouns: str, **headers: str) -> Any:
    document = {"nouns": list(nouns or ALL), "reason": "it was better"}
    return caller.post(f"/snapshots/{version}/restore/", document, **headers)


def _rows(caller: Caller) -> dict[str, Any]:
    """The rows as callers see them, but for what every write moves on."""
    moving = {"version", "updated_at", "created_at"}
    return {
        noun: [
            {name: value for name, value in row.items() if name not in moving}
            for row in caller.get(f"/{noun}/").json()["results"]
        ]
        for noun in ALL
    }


@pytest.fixture
def version(admin: Caller, route: Any) -> int:
    """A version with one model, pool and route."""
    return newest_revision().version


def test_a_changed_row_gets_its_old_values_as_a_new_version(
    admin: Caller, route: Any, version: int
) -> None:
    before = _rows(admin)
    other = admin.made("/pools/", {**POOL, "name": "other"})
    targets = [{"pool": "other", "weight": 3}, {"pool": "mine", "weight": 1}]
    admin.patch(f"/routes/{route['id']}/", {"targets": targets, "max_attempts": 7})
    response = _restore(admin, version)
    assert response.status_code == 200, response.content
    newest = newest_revision()
    assert response.json() == {"version": newest.version, "is_changed": True, "warnings": []}
    assert newest.version == version + 3
    assert newest.reason == "it was better"
    assert _rows(admin) == before
    assert newest.manifest == get_revision_of(version).manifest
    entries = AuditEntry.objects.filter(request_id=newest.request_id).order_by("id")
    assert [(one.action, one.noun, one.object_id) for one in entries] == [
        ("restore", "routes", route["id"]),
        ("delete", "pools", other["id"]),
    ]
    assert entries[0].before["max_attempts"] == 7
    assert entries[0].after["max_attempts"] == 2


def test_numbers_an_older_release_let_be_come_back_within_todays_bounds(
    admin: Caller, route: Any, version: int
) -> None:
    (held,) = staged_snapshot(newest_revision()).routes.values()
    target = replace(held.targets[0], idle_timeout_ms=90_000_000)
    old = replace(
        held, targets=(target, *held.targets[1:]), total_timeout_ms=100_000_000, max_attempts=0
    )
    content = codec.encode_section((old,))
    digest = sealing.content_digest(content)
    ConfigSection.objects.create(digest=digest, content=content)
    revision = newest_revision()
    revision.pk, revision.version = None, version + 1
    revision.manifest["routes"] = digest
    revision.save(force_insert=True)
    admin.patch(f"/routes/{route['id']}/", {"max_attempts": 7})
    response = _restore(admin, version + 1, "routes")
    assert response.status_code == 200, response.content
    assert response.json()["warnings"] == [
        "Route chat: total timeout ms was 100,000,000 and is 86,400,000 now. "
        "It must be between 1 and 86,400,000.",
        "Route chat: max attempts was 0 and is 1 now. It must be between 1 and 10.",
        "Route chat, target 1: idle timeout ms was 90,000,000 and is 86,400,000 now. "
        "It must be between 1 and 86,400,000.",
    ]
    row = Route.objects.get(pk=route["id"])
    assert (row.max_attempts, row.total_timeout_ms) == (1, 86_400_000)
    assert row.targets.get(pk=target.id).idle_timeout_ms == 86_400_000


def test_what_is_gone_comes_back_with_its_id_even_if_its_name_was_taken(
    admin: Caller, route: Any, pool: Any, version: int
) -> None:
    before = _rows(admin)
    admin.delete(f"/routes/{route['id']}/")
    admin.delete(f"/pools/{pool['id']}/")
    admin.delete(f"/models/{pool['model_id']}/")
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    response = _restore(admin, version)
    assert response.status_code == 200, response.content
    assert _rows(admin) == before
    assert newest_revision().manifest == get_revision_of(version).manifest
    warnings = " ".join(response.json()["warnings"])
    assert "without a credential" in warnings
    assert "without a price" in warnings


def test_names_that_changed_hands_change_back(admin: Caller, route: Any, version: int) -> None:
    before = _rows(admin)
    admin.patch(f"/routes/{route['id']}/", {"name": "chat-2"})
    made = admin.made("/routes/", ROUTE)
    assert _restore(admin, version, "routes").status_code == 200
    assert _rows(admin)["routes"] == before["routes"]
    gone = AuditEntry.objects.get(noun="routes", object_id=made["id"], action="delete")
    assert gone.before["name"] == "chat"


def test_a_credential_and_the_restarts_stay_the_present_ones(
    admin: Caller, pool: Any, version: int
) -> None:
    admin.patch(f"/pools/{pool['id']}/", {"credential": SECRET, "drain_timeout_s": 9})
    # as of a pool that was once one of processes
    Pool.objects.filter(pk=pool["id"]).update(restart_generation=4)
    response = _restore(admin, version, "pools")
    assert response.status_code == 200
    row = Pool.objects.get(pk=pool["id"])
    assert decrypt(settings.HEADWORKS.data_key_bytes, row.credential or "") == SECRET
    assert (row.restart_generation, row.drain_timeout_s) == (4, 30)
    assert row.credential_last4 == SECRET[-4:]


def test_a_revoked_key_stays_revoked_and_a_price_stays(admin: Caller, version: int) -> None:
    key = admin.made("/keys/", {"name": "mine"})
    price = {"model": "gpt-x", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
    admin.made("/prices/", price)
    then = newest_revision().version
    admin.post(f"/keys/{key['id']}/revoke/")
    price_row = admin.get("/prices/").json()["results"][0]
    admin.patch(f"/prices/{price_row['id']}/", {"input_nanousd_per_mtok": "5"})
    newest = newest_revision().version
    response = _restore(admin, then)
    assert response.json() == {"version": newest, "is_changed": False, "warnings": []}
    assert admin.get(f"/keys/{key['id']}/").json()["revoked_at"] is not None
    assert admin.get("/prices/").json()["results"][0]["input_nanousd_per_mtok"] == "5"


@pytest.mark.parametrize(
    ("nouns", "status", "field"),
    [
        (["pools"], 409, "routes"),
        (["models"], 409, "pools"),
        (["keys"], 400, "nouns.0"),
        ([], 400, "nouns"),
    ],
)
def test_what_is_in_use_or_no_noun_is_refused_and_nothing_is_changed(
    nouns: list[str], status: int, field: str, admin: Caller, route: Any, version: int
) -> None:
    admin.made("/pools/", {**POOL, "name": "other", "model": "gpt-y"})
    admin.patch(f"/routes/{route['id']}/", {"targets": [{"pool": "other", "weight": 1}]})
    before, newest = _rows(admin), newest_revision().version
    document = {"nouns": nouns, "reason": "back"}
    response = admin.post(f"/snapshots/{version}/restore/", document)
    assert response.status_code == status, response.content
    assert field in response.json()["fields"]
    assert (_rows(admin), newest_revision().version) == (before, newest)


def test_a_row_whose_parents_are_gone_needs_them_too(
    admin: Caller, route: Any, pool: Any, version: int
) -> None:
    admin.delete(f"/routes/{route['id']}/")
    admin.delete(f"/pools/{pool['id']}/")
    response = _restore(admin, version, "routes")
    assert response.status_code == 409
    assert pool["id"] in response.json()["fields"]["nouns"][0]
    assert _restore(admin, version, "pools", "routes").status_code == 200


def test_a_priced_model_made_since_is_not_taken_away_with_its_price(
    admin: Caller, version: int
) -> None:
    admin.made("/models/", {"name": "new"})
    price = {"model": "new", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
    admin.made("/prices/", price)
    response = _restore(admin, version)
    assert (response.status_code, response.json()["code"]) == (409, "in_use")
    assert CatalogueModel.objects.filter(name="new").exists()


def test_a_roll_back_can_be_tried_out(admin: Caller, route: Any, version: int) -> None:
    admin.patch(f"/routes/{route['id']}/", {"max_attempts": 7})
    newest = newest_revision().version
    document = {"nouns": ["routes"], "reason": "back"}
    told = admin.post(f"/snapshots/{version}/restore/?dry_run=true", document).json()
    assert (told["version"], told["sections"]) == (newest, ["routes"])
    assert told["changes"][0]["after"] == {"max_attempts": 2}
    assert admin.get(f"/routes/{route['id']}/").json()["max_attempts"] == 7


def test_others_rows_are_neither_shown_nor_touched(
    admin: Caller, make_caller: Any, version: int
) -> None:
    stranger = make_caller("admin")
    stranger.made("/pools/", {**POOL, "name": "theirs"})
    theirs = newest_revision().version
    assert admin.get(f"/snapshots/{theirs}/").status_code == 404
    assert admin.get(f"/snapshots/{version}/diff/?to={theirs}").status_code == 404
    assert _restore(admin, theirs).status_code == 404
    assert _restore(make_caller("viewer", admin.organisation), version).status_code == 403
    told = admin.get(f"/snapshots/{version}/diff/").json()
    assert told == {"version": version, "to": theirs, "nouns": {}}
    assert _restore(admin, version).status_code == 200
    assert Pool.objects.filter(name="theirs").exists()


def test_a_version_shows_its_own_records_without_secrets(admin: Caller, version: int) -> None:
    admin.made("/keys/", {"name": "mine"})
    pool = admin.made("/pools/", {**POOL, "name": "other", "credential": SECRET})
    newest = newest_revision().version
    told = admin.get(f"/snapshots/{newest}/").json()
    assert told["version"] == newest
    pools = {one["name"]: one for one in told["contents"]["pools"]}
    assert (pools["other"]["id"], pools["other"]["credential"]) == (pool["id"], "[redacted]")
    assert pools["mine"]["credential"] is None
    assert [one["digests"] for one in told["contents"]["keys"]] == ["[redacted]"]
    row = Pool.objects.get(pk=pool["id"])
    assert (row.credential or "?") not in str(told)
    only = admin.get(f"/snapshots/{newest}/?noun=routes").json()["contents"]
    assert list(only) == ["routes"]
    assert admin.get(f"/snapshots/{newest}/?noun=cooks").status_code == 400


def test_two_versions_are_compared_row_by_row(
    admin: Caller, route: Any, pool: Any, version: int
) -> None:
    admin.patch(f"/pools/{pool['id']}/", {"credential": SECRET, "drain_timeout_s": 9})
    model = admin.made("/models/", {"name": "new"})
    admin.delete(f"/routes/{route['id']}/")
    newest = newest_revision().version
    told = admin.get(f"/snapshots/{version}/diff/?to={newest}").json()["nouns"]
    assert set(told) == {"models", "pools", "routes"}
    assert [one["id"] for one in told["models"]["added"]] == [model["id"]]
    assert [one["id"] for one in told["routes"]["removed"]] == [route["id"]]
    assert told["pools"]["changed"] == [
        {
            "id": pool["id"],
            "before": {"credential": None, "drain_timeout_s": 30},
            "after": {"credential": "[redacted]", "drain_timeout_s": 9},
        }
    ]


def test_every_column_of_a_record_finds_its_way_back(
    admin: Caller, route: Any, pool: Any, version: int
) -> None:
    records = get_records(get_revision_of(version), admin.organisation.pk)
    for noun, kind in (("models", CatalogueModel), ("pools", Pool), ("routes", Route)):
        for pk, record in records[noun].items():
            row = kind.objects.get(pk=pk)
            values = values_of_record(record)
            assert values == {name: getattr(row, name) for name in values}
            columns = {field.attname for field in row._meta.concrete_fields}
            own = {"id", "organisation_id", "version", "created_at", "updated_at"}
            secret = {"credential", "credential_last4"}
            # what its GPUs cost and what is promised of it is no gateway's business, and stays
            other = {"gpu_type", "capacity_class", "gpus_per_worker"} | {
                name for name in columns if name.startswith("objective_")
            }
            assert set(values) == columns - own - secret - other
    for pk, values in target_values(records["routes"][route["id"]]).items():
        target = RouteTarget.objects.get(pk=pk)
        assert values == {name: getattr(target, name) for name in values}


def test_staged_and_restored_are_the_same_to_a_gateway(
    admin: Caller, route: Any, version: int
) -> None:
    admin.patch(f"/routes/{route['id']}/", {"is_enabled": False})
    _restore(admin, version, "routes")
    assert (
        staged_snapshot(newest_revision()).routes
        == staged_snapshot(get_revision_of(version)).routes
    )


def test_a_roll_back_of_what_moved_since_it_was_decided_is_refused(
    admin: Caller, make_caller: Callable[..., Caller], route: Any, version: int
) -> None:
    admin.patch(f"/routes/{route['id']}/", {"max_attempts": 7})
    decided = newest_revision().version
    admin.patch(f"/routes/{route['id']}/", {"max_attempts": 8})
    newest = newest_revision().version
    refused = _restore(admin, version, "routes", If_Match=f'"{decided}"')
    assert (refused.status_code, refused.json()["current_version"]) == (412, newest)
    assert admin.get(f"/routes/{route['id']}/").json()["max_attempts"] == 8
    make_caller("admin").made("/models/", {"name": "anothers"})
    assert newest_revision().version > newest
    assert _restore(admin, version, "routes", If_Match=f'"{newest}"').status_code == 200
    assert admin.get(f"/routes/{route['id']}/").json()["max_attempts"] == 2


def test_the_list_of_versions_tells_what_each_changed(admin: Caller, route: Any) -> None:
    admin.patch(f"/routes/{route['id']}/", {"max_attempts": 5})
    listed = admin.get("/snapshots/").json()["results"]
    assert listed[0]["changed_nouns"] == listed[1]["changed_nouns"] == ["routes"]
    assert listed[2]["changed_nouns"] == ["models", "pools"]
    one = admin.get(f"/snapshots/{listed[0]['version']}/").json()
    assert one["changed_nouns"] == ["routes"]
    # of the oldest that is kept nobody can tell
    ConfigRevision.objects.filter(version__lt=listed[0]["version"]).delete()
    assert admin.get("/snapshots/").json()["results"][0]["changed_nouns"] is None
