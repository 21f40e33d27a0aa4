"""A PATCH changes what it names and nothing else, at the version the caller saw."""

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.models import AuditEntry, ConfigRevision, RouteTarget
from tests.controlplane.conftest import POOL, ROUTE, Caller

NAMED_ALONE = [
    ("replicas", 4),
    ("power", "stopped"),
    ("addresses", ["http://127.0.0.1:9001/v1", "http://127.0.0.1:9002/v1"]),
    ("served_model_name", "other"),
    ("backend", "vllm"),
    ("port_base", 9),
    ("engine_arguments", {"seed": 7, "enforce_eager": True}),
    ("name", "renamed"),
    ("drain_timeout_s", 0),
]


pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


@pytest.mark.parametrize(("field", "value"), NAMED_ALONE)
def test_one_field_changes_and_the_others_stay(
    field: str, value: object, admin: Caller, pool: dict[str, Any]
) -> None:
    response = admin.patch(f"/pools/{pool['id']}/", {field: value})
    assert response.status_code == 200, response.content
    after = response.json()
    assert after[field] == value
    # how a pool is follows from what it should be
    changing = {field, "version", "updated_at", "condition"}
    assert {name: after[name] for name in after if name not in changing} == {
        name: pool[name] for name in pool if name not in changing
    }
    assert after["version"] == 2


def test_null_is_honoured_where_it_means_something(admin: Caller, pool: dict[str, Any]) -> None:
    path = f"/pools/{pool['id']}/"
    admin.patch(path, {"port_base": 9, "credential": "secret-of-upstream"})
    after = admin.patch(path, {"port_base": None, "credential": None}).json()
    assert after["port_base"] is None
    assert after["has_credential"] is False
    assert after["credential_last4"] == ""


@pytest.mark.parametrize(
    "field", ["name", "model", "replicas", "power", "addresses", "engine_arguments", "backend"]
)
def test_null_is_refused_where_it_means_nothing(
    field: str, admin: Caller, pool: dict[str, Any]
) -> None:
    response = admin.patch(f"/pools/{pool['id']}/", {field: None})
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]


def test_an_empty_patch_and_one_of_the_same_values_change_nothing(
    admin: Caller, route: dict[str, Any]
) -> None:
    path = f"/routes/{route['id']}/"
    entries, versions = AuditEntry.objects.count(), ConfigRevision.objects.count()
    assert admin.patch(path, {}).json() == route
    assert admin.patch(path, {"max_attempts": 2, "targets": route["targets"]}).json() == route
    assert AuditEntry.objects.count() == entries
    assert ConfigRevision.objects.count() == versions


def test_the_tag_of_an_object_is_its_version(admin: Caller, pool: dict[str, Any]) -> None:
    path = f"/pools/{pool['id']}/"
    assert admin.get(path)["ETag"] == '"1"'
    changed = admin.patch(path, {"replicas": 2}, If_Match='"1"')
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')


@pytest.mark.parametrize(
    ("method", "suffix"), [("PATCH", ""), ("DELETE", ""), ("POST", "rotate/"), ("POST", "revoke/")]
)
def test_an_edit_of_an_older_version_is_refused(method: str, suffix: str, admin: Caller) -> None:
    if suffix:
        path = f"/keys/{admin.made('/keys/', {'name': 'k'})['id']}/"
        assert admin.patch(path, {"name": "k2"}).status_code == 200
    else:
        path = f"/pools/{admin.made('/pools/', POOL)['id']}/"
        assert admin.patch(path, {"replicas": 2}).status_code == 200
    document = {"replicas": 5} if method == "PATCH" else None
    response = admin.call(method, f"{path}{suffix}", document, If_Match='"1"')
    assert response.status_code == 412
    assert response.json() == {
        "code": "version_mismatch",
        "detail": "The object has changed since; it is now at version 2.",
        "fields": {},
        "current_version": 2,
    }
    assert admin.get(path)["ETag"] == '"2"'


def test_a_tag_that_is_none_of_ours_is_refused_and_a_star_is_any(
    admin: Caller, pool: dict[str, Any]
) -> None:
    path = f"/pools/{pool['id']}/"
    assert admin.patch(path, {"replicas": 2}, If_Match='"a", "b"').status_code == 400
    assert admin.patch(path, {"replicas": 2}, If_Match="*").status_code == 200
    assert admin.patch(path, {"replicas": 3}, If_Match='W/"2"').status_code == 200


def test_targets_keep_their_ids_and_follow_the_order_asked_for(admin: Caller) -> None:
    for name in ("a", "b", "c"):
        admin.made("/pools/", {**POOL, "name": name})
    both = [{"pool": "a", "weight": 1}, {"pool": "b", "weight": 2}]
    route = admin.made("/routes/", {"name": "r", "targets": both})
    first, second = route["targets"]
    path = f"/routes/{route['id']}/"

    turned = [{**second, "weight": 5}, {"pool": "a", "weight": 1}, {"pool": "c", "weight": 0}]
    after = admin.patch(path, {"targets": turned}).json()["targets"]
    assert after[:2] == [{**second, "weight": 5}, first]
    assert (after[2]["pool"], after[2]["weight"]) == ("c", 0)

    swapped = [{**first, "pool": "b"}, {**second, "pool": "a"}]
    after = admin.patch(path, {"targets": swapped}).json()["targets"]
    assert after == [{**first, "pool": "b"}, {**second, "pool": "a"}]
    assert RouteTarget.objects.count() == 2


def test_a_pool_is_named_once_a_route(admin: Caller, route: dict[str, Any]) -> None:
    twice = [{"pool": "mine", "weight": 1}, {"pool": "mine", "weight": 2}]
    assert admin.patch(f"/routes/{route['id']}/", {"targets": twice}).json()["fields"] == {
        "targets.1.pool": ["This tier of the route has this pool twice."]
    }
    foreign = [{"id": "tgt_unknown", "pool": "mine", "weight": 1}]
    assert admin.patch(f"/routes/{route['id']}/", {"targets": foreign}).json()["fields"] == {
        "targets.0.id": ["The route has no such target."]
    }


def test_an_enabled_route_needs_weight_and_a_disabled_one_does_not(
    admin: Caller, route: dict[str, Any]
) -> None:
    path = f"/routes/{route['id']}/"
    idle = [{"pool": "mine", "weight": 0}]
    assert list(admin.patch(path, {"targets": idle}).json()["fields"]) == ["targets"]
    off = admin.patch(path, {"targets": idle, "is_enabled": False})
    assert off.status_code == 200


def test_a_pool_in_use_is_not_removed_and_its_routes_are_named(
    admin: Caller, pool: dict[str, Any], route: dict[str, Any]
) -> None:
    admin.made("/routes/", {**ROUTE, "name": "another"})
    response = admin.delete(f"/pools/{pool['id']}/")
    assert response.status_code == 409
    assert response.json() == {
        "code": "in_use",
        "detail": "Pool mine is used by routes: another, chat.",
        "fields": {"routes": ["another", "chat"]},
    }
    for one in admin.get("/routes/").json()["results"]:
        assert admin.delete(f"/routes/{one['id']}/").status_code == 204
    assert admin.delete(f"/pools/{pool['id']}/").status_code == 204
    assert admin.get(f"/pools/{pool['id']}/").status_code == 404


def test_what_others_stand_on_is_not_removed(admin: Caller, pool: dict[str, Any]) -> None:
    model = admin.delete(f"/models/{pool['model_id']}/")
    assert (model.status_code, model.json()["fields"]) == (409, {"pools": ["mine"]})
    team = admin.get("/teams/").json()["results"][0]
    refused = admin.delete(f"/teams/{team['id']}/")
    assert (refused.status_code, refused.json()["fields"]) == (409, {"projects": ["Default"]})
    default = admin.get("/projects/").json()["results"][0]
    assert admin.delete(f"/projects/{default['id']}/").status_code == 409
    project = admin.made("/projects/", {"name": "P", "team": "Default"})
    key = admin.made("/keys/", {"name": "k", "project": "P"})
    refused = admin.delete(f"/projects/{project['id']}/")
    assert (refused.status_code, refused.json()["fields"]) == (409, {"keys": ["k"]})
    assert admin.post(f"/keys/{key['id']}/revoke/").status_code == 200
    assert admin.delete(f"/projects/{project['id']}/").status_code == 204


def test_removing_a_model_removes_its_price(admin: Caller) -> None:
    model = admin.made("/models/", {"name": "m"})
    price = {"model": "m", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
    admin.made("/prices/", price)
    assert admin.delete(f"/models/{model['id']}/").status_code == 204
    assert admin.get("/prices/").json()["results"] == []
    removed = AuditEntry.objects.filter(action="delete").values_list("noun", flat=True)
    assert sorted(removed) == ["models", "prices"]


def test_a_restart_counts_upwards_only(admin: Caller) -> None:
    own = {"name": "own", "model": "m", "provisioner": "process", "model_source": "m"}
    path = f"/pools/{admin.made('/pools/', own)['id']}/"
    assert admin.patch(path, {"restart_generation": 3}).status_code == 200
    assert admin.patch(path, {"restart_generation": 2}).json()["fields"] == {
        "restart_generation": ["It only grows; it is 3 now."]
    }


def test_a_static_pool_has_nothing_to_restart(admin: Caller, pool: dict[str, Any]) -> None:
    path = f"/pools/{pool['id']}/"
    assert pool["provisioner"] == "static"
    refused = admin.patch(path, {"restart_generation": 1})
    assert refused.status_code == 400
    assert refused.json()["fields"] == {
        "restart_generation": ["The workers of a static pool are started elsewhere."]
    }
    least = {"name": "second", "model": "m", "provisioner": "static"}
    where = {"addresses": ["http://127.0.0.1:9001/v1"]}
    made = admin.post("/pools/", {**least, **where, "restart_generation": 1})
    assert list(made.json()["fields"]) == ["restart_generation"]
    assert admin.patch(path, {"restart_generation": 0}).status_code == 200


def test_prices_are_exact_text_and_zero_is_not_unknown(admin: Caller) -> None:
    admin.made("/models/", {"name": "m"})
    free = {"model": "m", "input_nanousd_per_mtok": "0", "output_nanousd_per_mtok": 0}
    price = admin.made("/prices/", free)
    assert price["input_nanousd_per_mtok"] == "0"
    assert price["cached_input_nanousd_per_mtok"] is None
    path = f"/prices/{price['id']}/"
    exact = "999999999999999"
    assert admin.patch(path, {"input_nanousd_per_mtok": exact}).json()[
        "input_nanousd_per_mtok"
    ] == (exact)


@pytest.mark.parametrize("amount", ["-1", "1.5", 1.5, True, "", " 1", "1e9", None, "9" * 20, "1\n"])
def test_an_amount_is_whole_nano_dollars(amount: object, admin: Caller) -> None:
    admin.made("/models/", {"name": "m"})
    response = admin.post(
        "/prices/",
        {"model": "m", "input_nanousd_per_mtok": amount, "output_nanousd_per_mtok": "1"},
    )
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["input_nanousd_per_mtok"]


def test_a_price_above_a_dollar_a_token_is_taken_for_a_slip(admin: Caller) -> None:
    admin.made("/models/", {"name": "m"})
    dear = {"model": "m", "input_nanousd_per_mtok": str(10**15 + 1), "output_nanousd_per_mtok": "1"}
    assert admin.post("/prices/", dear).json()["fields"] == {
        "input_nanousd_per_mtok": ["Above a dollar a token: it must be confirmed."]
    }
    once = {**dear, "is_confirmed": True}
    assert admin.made("/prices/", once)["input_nanousd_per_mtok"] == str(10**15 + 1)
    again = admin.post("/prices/", once)
    assert again.json()["fields"] == {"model": ["The model has a price already."]}


def test_an_organisation_takes_its_zone_and_refuses_a_made_up_one(admin: Caller) -> None:
    path = f"/organisations/{admin.organisation.pk}/"
    assert admin.patch(path, {"time_zone": "Europe/Berlin"}).json()["time_zone"] == "Europe/Berlin"
    assert list(admin.patch(path, {"time_zone": "Mars/Olympus"}).json()["fields"]) == ["time_zone"]


def test_a_reason_is_kept_with_the_edit_and_the_version(
    admin: Caller, pool: dict[str, Any]
) -> None:
    admin.patch(f"/pools/{pool['id']}/", {"replicas": 2}, X_Headworks_Reason="black friday")
    assert admin.get("/audit/").json()["results"][0]["reason"] == "black friday"
    assert admin.get("/snapshots/").json()["results"][0]["reason"] == "black friday"


def test_the_audit_trail_tells_who_changed_what_from_what_to_what(
    admin: Caller, pool: dict[str, Any]
) -> None:
    response = admin.patch(f"/pools/{pool['id']}/", {"replicas": 2})
    entry = admin.get(f"/audit/?object_id={pool['id']}").json()["results"][0]
    account = admin.organisation.service_accounts.get()
    expected = {
        "organisation_id": admin.organisation.pk,
        "actor_kind": "service_account",
        "actor_id": account.pk,
        "actor_label": account.name,
        "via": "api",
        "request_id": response["X-Request-ID"],
        "action": "update",
        "noun": "pools",
        "object_id": pool["id"],
        "before": {"replicas": 1},
        "after": {"replicas": 2},
        "reason": "",
    }
    assert {name: entry[name] for name in expected} == expected
