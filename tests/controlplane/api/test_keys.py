"""Keys by REST: shown once, rotated with an overlap, revoked for good."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from controlplane.models import KeyDigest, UsageDay
from inference.contract.sealing import token_digest
from inference.contract.snapshot import KeyRecord
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow


def staged_keys() -> dict[str, KeyRecord]:
    return {key.id: key for bucket in staged_snapshot().keys.values() for key in bucket.values()}


def digest_of(text: str) -> str:
    return token_digest(settings.HEADWORKS.peppers[1], text)


@pytest.fixture
def key(admin: Caller) -> dict[str, Any]:
    made: dict[str, Any] = admin.made("/keys/", {"name": "app"})
    return made


def test_the_text_of_a_key_is_shown_once_and_stored_nowhere(
    admin: Caller, key: dict[str, Any]
) -> None:
    secret = key["key"].partition(".")[2]
    assert len(secret) == 43
    for path in ("/keys/", f"/keys/{key['id']}/", "/audit/", "/snapshots/"):
        assert secret not in admin.get(path).content.decode()
    assert KeyDigest.objects.get().digest == digest_of(key["key"])


def test_rotation_accepts_the_old_secret_until_the_overlap_is_over(
    admin: Caller, key: dict[str, Any]
) -> None:
    before = timezone.now()
    response = admin.post(f"/keys/{key['id']}/rotate/", {"overlap_s": 600})
    after = timezone.now()
    assert response.status_code == 200
    new, old = staged_keys()[key["public_id"]].digests
    assert (new.digest, new.accepted_until) == (digest_of(response.json()["key"]), None)
    assert old.digest == digest_of(key["key"])
    assert old.accepted_until is not None
    overlap = timedelta(seconds=600)
    assert before + overlap <= datetime.fromtimestamp(old.accepted_until, UTC) <= after + overlap


def test_rotation_without_overlap_ends_the_old_secret(admin: Caller, key: dict[str, Any]) -> None:
    new = admin.post(f"/keys/{key['id']}/rotate/", {"overlap_s": 0}).json()["key"]
    digests = staged_keys()[key["public_id"]].digests
    assert [one.digest for one in digests] == [digest_of(new)]


def test_a_later_rotation_never_prolongs_an_older_secret(
    admin: Caller, key: dict[str, Any]
) -> None:
    path = f"/keys/{key['id']}/rotate/"
    admin.post(path, {"overlap_s": 60})
    admin.post(path, {"overlap_s": 600})
    admin.post(path, {"overlap_s": 5})
    ends = [one.accepted_until for one in staged_keys()[key["public_id"]].digests]
    assert ends[0] is None
    assert all(end is not None and end <= timezone.now().timestamp() + 5 for end in ends[1:])


def test_secrets_whose_overlap_is_over_are_forgotten_and_their_number_is_bounded(
    admin: Caller, key: dict[str, Any]
) -> None:
    path = f"/keys/{key['id']}/rotate/"
    for _ in range(4):
        assert admin.post(path).status_code == 200
    assert admin.post(path).status_code == 409
    past = timezone.now() - timedelta(seconds=1)
    KeyDigest.objects.filter(accepted_until__isnull=False).update(accepted_until=past)
    assert admin.post(path).status_code == 200
    assert KeyDigest.objects.count() == 2


@pytest.mark.parametrize("overlap", [-1, 90 * 86_400 + 1, "soon", None, 1.5])
def test_an_overlap_is_a_bounded_number_of_seconds(
    overlap: object, admin: Caller, key: dict[str, Any]
) -> None:
    response = admin.post(f"/keys/{key['id']}/rotate/", {"overlap_s": overlap})
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["overlap_s"]


def test_a_revoked_key_leaves_the_snapshot_and_never_comes_back(
    admin: Caller, key: dict[str, Any]
) -> None:
    path = f"/keys/{key['id']}/"
    revoked = admin.post(f"{path}revoke/").json()
    assert revoked["revoked_at"] is not None
    assert (revoked["is_enabled"], revoked["accepted_secrets"]) == (False, [])
    assert staged_keys() == {}
    assert KeyDigest.objects.count() == 0
    for response in (
        admin.patch(path, {"is_enabled": True}),
        admin.post(f"{path}rotate/"),
        admin.patch(path, {"name": "again"}),
    ):
        assert (response.status_code, response.json()["code"]) == (409, "revoked")
    assert admin.post(f"{path}revoke/").json() == revoked
    assert admin.delete(path).status_code == 405
    admin.made("/keys/", {"name": "app"})


def test_a_disabled_key_is_in_the_snapshot_as_disabled(admin: Caller, key: dict[str, Any]) -> None:
    admin.patch(f"/keys/{key['id']}/", {"is_enabled": False})
    assert staged_keys()[key["public_id"]].is_enabled is False


def test_no_routes_named_is_all_an_empty_list_is_none(admin: Caller) -> None:
    admin.made("/pools/", POOL)
    route = admin.made("/routes/", ROUTE)
    every = admin.made("/keys/", {"name": "every"})
    none = admin.made("/keys/", {"name": "none", "routes": []})
    one = admin.made("/keys/", {"name": "one", "routes": [route["id"]]})
    assert (every["routes"], none["routes"], one["routes"]) == (None, [], ["chat"])
    staged = staged_keys()
    assert staged[every["public_id"]].route_names is None
    assert staged[none["public_id"]].route_names == ()
    assert staged[one["public_id"]].route_names == ("chat",)


def test_a_patch_of_something_else_leaves_the_routes(admin: Caller) -> None:
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    key = admin.made("/keys/", {"name": "one", "routes": ["chat"]})
    path = f"/keys/{key['id']}/"
    assert admin.patch(path, {"name": "renamed"}).json()["routes"] == ["chat"]
    assert list(admin.patch(path, {"routes": ["chat", "gone"]}).json()["fields"]) == ["routes"]
    assert admin.get(path).json()["routes"] == ["chat"]
    assert admin.patch(path, {"routes": []}).json()["routes"] == []
    assert admin.patch(path, {"routes": None}).json()["routes"] is None


def test_a_key_follows_its_route_through_a_rename_and_loses_it_with_its_removal(
    admin: Caller,
) -> None:
    admin.made("/pools/", POOL)
    route = admin.made("/routes/", ROUTE)
    key = admin.made("/keys/", {"name": "one", "routes": ["chat"]})
    admin.patch(f"/routes/{route['id']}/", {"name": "talk"})
    assert staged_keys()[key["public_id"]].route_names == ("talk",)
    admin.delete(f"/routes/{route['id']}/")
    assert staged_keys()[key["public_id"]].route_names == ()
    admin.made("/routes/", {**ROUTE, "name": "talk"})
    assert staged_keys()[key["public_id"]].route_names == ()


def test_an_expiry_is_kept_to_the_second_and_told_in_utc(admin: Caller) -> None:
    told = {"name": "k", "expires_at": "2099-01-01T02:00:00+02:00"}
    key = admin.made("/keys/", told)
    assert key["expires_at"] == "2099-01-01T00:00:00Z"
    expected = datetime(2099, 1, 1, tzinfo=UTC).timestamp()
    assert staged_keys()[key["public_id"]].expires_at == expected
    assert admin.patch(f"/keys/{key['id']}/", {"expires_at": None}).json()["expires_at"] is None


def test_scopes_are_those_the_gateway_knows(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "k", "scopes": ["inference", "debug", "debug"]})
    assert key["scopes"] == ["inference", "debug"]
    after = admin.patch(f"/keys/{key['id']}/", {"scopes": ["debug", "debug"]}).json()
    assert after["scopes"] == ["debug"]


def test_a_key_moves_with_its_project_to_another_team(admin: Caller) -> None:
    team = admin.made("/teams/", {"name": "Research"})
    project = admin.made("/projects/", {"name": "P", "team": "Default"})
    key = admin.made("/keys/", {"name": "k", "project": "P"})
    admin.patch(f"/projects/{project['id']}/", {"team": "Research"})
    assert staged_keys()[key["public_id"]].team_id == team["id"]
    assert admin.patch(f"/keys/{key['id']}/", {"project": "Default"}).json()["fields"] == {
        "project": ["This can't be changed."]
    }


def test_a_list_tells_how_much_each_key_is_used(admin: Caller, key: dict[str, Any]) -> None:
    today = datetime.now(UTC).date()
    for days, errors in ((0, 0), (3, 2), (40, 7)):
        UsageDay.objects.create(
            organisation_id=admin.organisation.pk,
            day=today - timedelta(days=days),
            dimension="key",
            value=key["public_id"],
            requests=10,
            errors=errors,
        )
    admin.made("/keys/", {"name": "idle"})
    idle, used = admin.get("/keys/").json()["results"]
    names = ("last_used_on", "requests_30d", "errors_30d")
    assert [used[name] for name in names] == [today.isoformat(), 20, 2]
    assert [idle[name] for name in names] == [None, 0, 0]
    # what was read can be sent back
    read = admin.get(f"/keys/{key['id']}/").json()
    assert admin.patch(f"/keys/{key['id']}/", {**read, "name": "new"}).status_code == 200


def test_keys_are_listed_by_when_they_end_and_never_is_last(admin: Caller) -> None:
    ends = {"c": "2030-01-02T00:00:00Z", "a": None, "b": "2030-01-01T00:00:00Z", "d": None}
    for name, end in ends.items():
        admin.made("/keys/", {"name": name, "expires_at": end})

    def walked(ordering: str, page_size: int = 50) -> str:
        found, path = "", f"/keys/?ordering={ordering}&page_size={page_size}"
        while path:
            page = admin.get(path).json()
            found += "".join(row["name"] for row in page["results"])
            path = (page["next"] or "").partition("/api/v1")[2]
        return found

    assert walked("expires_at", page_size=1) == "bcad"
    assert walked("-expires_at") == "adcb"
    assert walked("project") == "cabd"
