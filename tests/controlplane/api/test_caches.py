"""Cache policies and purges by REST."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controlplane.models import AuditEntry, CachePolicy, Purge
from controlplane.services.purges import KEPT, forget_purges
from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass
from inference.contract.snapshot import CachePolicyRecord
from tests.controlplane.conftest import Caller
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


def made(caller: Caller, name: str = "answers", **fields: Any) -> Any:
    return caller.made("/caches/", {"name": name, **fields})


def problems(caller: Caller, **fields: Any) -> Mapping[str, Any]:
    answer = caller.post("/caches/", {"name": "x", **fields})
    assert answer.status_code == 400, answer.content
    found: Mapping[str, Any] = answer.json()["fields"]
    return found


def test_a_policy_begins_safe_and_gateways_read_it(admin: Caller) -> None:
    policy = made(admin)
    assert policy["tiers"] == ["local", "shared"]
    assert (policy["scope"], policy["is_enabled"], policy["routes"]) == ("project", True, [])
    assert policy["ttl_s"] == {
        **{"default": 300, "code": 3_600},
        **{"factual": 86_400, "extraction": 86_400, "creative": 0},
    }
    assert not policy["stores_sampled"]
    assert not policy["stores_tool_calls"]
    record = staged_snapshot().cache_policies[policy["id"]]
    assert isinstance(record, CachePolicyRecord)
    assert (record.tiers, record.scope) == (
        (CacheTier.LOCAL, CacheTier.SHARED),
        CacheScope.PROJECT,
    )
    assert record.ttl_s[TaskClass.CREATIVE] == 0
    assert (record.similarity_min, record.check_percent, record.bypass) == (0.92, 2.0, ())


def test_a_class_of_task_is_changed_by_itself_and_audited(admin: Caller) -> None:
    policy = made(admin)
    path = f"/caches/{policy['id']}/"
    changed = admin.patch(path, {"ttl_s": {"code": 60}}, If_Match='"1"', X_Headworks_Reason="old")
    assert changed.json()["ttl_s"] == {**policy["ttl_s"], "code": 60}
    entry = AuditEntry.objects.filter(noun="caches").latest("id")
    assert (entry.before, entry.reason) == ({"ttl_s": policy["ttl_s"]}, "old")
    assert admin.patch(path, {"name": "b"}, If_Match='"1"').status_code == 412
    same = admin.get(path).json()
    assert admin.patch(path, same).json() == same


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"ttl_s": {"code": -1}}, "ttl_s"),
        ({"ttl_s": {"code": 31 * 86_400}}, "ttl_s"),
        ({"ttl_s": {"poem": 1}}, "ttl_s"),
        ({"tiers": ["moon"]}, "tiers"),
        ({"tiers": ["semantic"]}, "tiers"),
        ({"scope": "planet"}, "scope"),
        ({"similarity_min": 0.4}, "similarity_min"),
        ({"similarity_min": 1.1}, "similarity_min"),
        ({"check_percent": 101}, "check_percent"),
        ({"stale_s": -1}, "stale_s"),
        ({"max_entry_bytes": 10}, "max_entry_bytes"),
        ({"memory_percent": 0}, "memory_percent"),
        ({"edge_s": -1}, "edge_s"),
        ({"false_hits_max_percent": 0}, "false_hits_max_percent"),
        ({"bypass": [{"keys": ["none such"]}]}, "bypass.0.keys.0"),
        ({"bypass": [{"tags": ["no tag"]}]}, "bypass"),
        ({"bypass": [{"headers": [{"name": "authorization", "value": "x"}]}]}, "bypass.0.headers"),
        ({"bypass": [{}]}, "bypass.0"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is(
    fields: Mapping[str, Any], place: str, admin: Caller
) -> None:
    told = str(problems(admin, **fields))
    assert f"'{place}" in told, told
    assert not CachePolicy.objects.exists()


def test_names_are_unique_whatever_their_case(admin: Caller) -> None:
    made(admin, "Answers")
    assert list(problems(admin, name="answers")) == ["name"]


def test_conditions_are_taken_by_name_told_by_id_and_outlive_who_they_name(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "app"})
    when = {"keys": ["app"], "tasks": ["creative"], "headers": [{"name": "X-Debug", "value": "1"}]}
    policy = made(admin, bypass=[when])
    (told,) = policy["bypass"]
    assert (told["keys"], told["tasks"]) == ([key["id"]], ["creative"])
    assert told["headers"] == [{"name": "x-debug", "value": "1"}]
    (match,) = staged_snapshot().cache_policies[policy["id"]].bypass
    assert match.key_ids == (key["public_id"],)
    admin.post(f"/keys/{key['id']}/revoke/")
    path = f"/caches/{policy['id']}/"
    kept = [{"keys": [key["id"]]}, {"tags": ["gold"]}]
    assert admin.patch(path, {"bypass": kept}).status_code == 200


def test_an_administrator_lets_all_routes_of_a_policy_share(admin: Caller) -> None:
    policy = admin.made("/caches/", {"name": "wide", "scope": "shared"})
    assert staged_snapshot().cache_policies[policy["id"]].scope == "shared"
    path = f"/caches/{policy['id']}/"
    assert admin.patch(path, {"scope": "key"}).json()["scope"] == "key"
    assert admin.patch(path, {"scope": "shared"}).json()["scope"] == "shared"


def test_what_no_version_tells_comes_back_as_nothing_that_acts_unasked(admin: Caller) -> None:
    policy = made(admin, "answers", scope="shared", false_hits_max_percent=5)
    kept = made(admin, "kept", false_hits_max_percent=7)
    version = newest_revision().version
    assert admin.delete(f"/caches/{policy['id']}/").status_code == 204
    document = {"nouns": ["caches"], "reason": "we need it"}
    told = admin.post(f"/snapshots/{version}/restore/", document).json()
    (warning,) = told["warnings"]
    assert warning.startswith("Cache policy answers came back without a most of false hits")
    back = admin.get(f"/caches/{policy['id']}/").json()
    assert (back["scope"], back["false_hits_max_percent"]) == ("shared", None)
    assert admin.get(f"/caches/{kept['id']}/").json()["false_hits_max_percent"] == 7


def test_a_route_has_a_policy_by_name_and_holds_it(
    admin: Caller, route: Any, make_caller: Callable[..., Caller]
) -> None:
    policy = made(admin)
    path = f"/routes/{route['id']}/"
    asked = {"cache_policy": "answers", "similarity_min": 0.97}
    changed = admin.patch(path, asked).json()
    assert (changed["cache_policy"], changed["cache_policy_id"]) == ("answers", policy["id"])
    (record,) = staged_snapshot().routes.values()
    assert (record.cache_policy_id, record.similarity_min) == (policy["id"], 0.97)
    assert admin.get(f"/caches/{policy['id']}/").json()["routes"] == [route["name"]]
    gone = admin.delete(f"/caches/{policy['id']}/")
    assert (gone.status_code, gone.json()["fields"]) == (409, {"routes": [route["name"]]})
    unknown = admin.patch(path, {"cache_policy": "none such"})
    assert list(unknown.json()["fields"]) == ["cache_policy"]
    theirs = made(make_caller("admin"), "theirs")
    assert admin.patch(path, {"cache_policy": theirs["id"]}).status_code == 400
    assert admin.patch(path, {"cache_policy": None}).json()["cache_policy"] is None
    assert admin.delete(f"/caches/{policy['id']}/").status_code == 204
    assert list(staged_snapshot().cache_policies) == [theirs["id"]]


def test_a_purge_counts_up_is_audited_and_never_changed(admin: Caller) -> None:
    policy = made(admin)
    first = admin.made("/purges/", {"kind": "tag", "value": "docs", "reason": "they moved"})
    second = admin.made("/purges/", {"kind": "policy", "value": "answers"})
    assert int(second["epoch"]) > int(first["epoch"]) > 0
    assert first["takes_out"] == "everything tagged docs"
    assert second["takes_out"] == "everything under policy answers"
    records = staged_snapshot().purges
    assert records[second["id"]].kind is PurgeKind.POLICY
    assert records[second["id"]].value == policy["id"]
    assert records[first["id"]].epoch == int(first["epoch"])
    entry = AuditEntry.objects.filter(noun="purges").earliest("id")
    assert (entry.action, entry.after["value"]) == ("create", "docs")
    path = f"/purges/{first['id']}/"
    assert admin.patch(path, {"value": "x"}).status_code == 405
    assert admin.delete(path).status_code == 405


def test_gateways_are_told_the_last_purge_of_the_same(admin: Caller) -> None:
    asked = {"kind": "namespace", "value": "team/docs"}
    first, second = (admin.made("/purges/", asked) for _ in range(2))
    assert list(staged_snapshot().purges) == [second["id"]]
    assert {row["id"] for row in admin.get("/purges/").json()["results"]} == {
        first["id"],
        second["id"],
    }


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"kind": "moon", "value": "x"}, "kind"),
        ({"kind": "tag", "value": "no tag"}, "value"),
        ({"kind": "namespace", "value": "-"}, "value"),
        ({"kind": "policy", "value": "none such"}, "value"),
        ({"kind": "entry", "value": ""}, "value"),
        ({"kind": "entry", "value": "a\u200bb"}, "value"),
    ],
)
def test_a_purge_names_something_there_can_be(
    fields: Mapping[str, Any], place: str, admin: Caller
) -> None:
    answer = admin.post("/purges/", fields)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [place])
    assert not Purge.objects.exists()


def test_purges_go_once_nothing_can_be_older_than_they(admin: Caller) -> None:
    old, new = (admin.made("/purges/", {"kind": "tag", "value": one})["id"] for one in "ab")
    now = Purge.objects.get(pk=old).created_at + KEPT
    assert forget_purges(now) == 0
    Purge.objects.filter(pk=old).update(created_at=Purge.objects.get(pk=new).created_at - KEPT * 2)
    assert forget_purges(now) == 1
    assert list(staged_snapshot().purges) == [new]
    assert newest_revision().reason == "forget old purges"
