"""Limits by REST: what they are of is found and goes with them, and words say what they allow."""

from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.models import AuditEntry, Key, Limit
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.projects import create_project
from controlplane.services.users import create_service_account, issue_token
from inference.contract.kinds import LimitSubject, LimitUnit
from inference.contract.snapshot import LimitRecord
from tests.controlplane.conftest import Caller
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow

PER_MINUTE: Mapping[str, Any] = {"unit": "requests", "window": "minute", "amount": 600}


def made(caller: Caller, name: str, subject: str, pk: str | None = None, **fields: Any) -> Any:
    told = {"name": name, "subject": subject, **PER_MINUTE, **fields}
    return caller.made("/limits/", told if pk is None else {**told, "subject_id": pk})


def problems(caller: Caller, **fields: Any) -> dict[str, list[str]]:
    answer = caller.post("/limits/", {"name": "x", "subject": "key", **PER_MINUTE, **fields})
    assert answer.status_code == 400
    found: dict[str, list[str]] = answer.json()["fields"]
    return found


def test_a_limit_is_of_the_one_that_is_named_and_gateways_read_it(
    admin: Caller, route: Any
) -> None:
    key = admin.made("/keys/", {"name": "app"})
    limit = made(admin, "of app", "key", "app", enforcement="strict")
    assert (limit["subject_id"], limit["subject_name"]) == (key["id"], "app")
    assert limit["counts"] == "600 requests a minute for key app"
    assert (limit["version"], limit["is_enabled"], limit["duplicates"]) == (1, True, [])
    record = staged_snapshot().limits[limit["id"]]
    assert isinstance(record, LimitRecord)
    assert (record.subject, record.subject_id) == (LimitSubject.KEY, key["public_id"])
    assert (record.unit, record.amount) == (LimitUnit.REQUESTS, 600)
    version = admin.get("/snapshots/?page_size=1").json()["results"][0]["version"]
    told = admin.get(f"/snapshots/{version}/?noun=limits").json()
    assert str(told).count(key["id"]) == 1
    assert made(admin, "of chat", "route", route["id"])["subject_name"] == "chat"
    assert made(admin, "all", "organisation")["counts"].endswith("for the whole organisation")
    assert made(admin, "each", "end_user")["counts"].endswith("for each end user")


@pytest.mark.parametrize("subject", ["team", "project", "key", "model", "route"])
def test_what_is_not_there_cannot_be_limited(subject: str, admin: Caller) -> None:
    told = problems(admin, subject=subject, subject_id="none such")
    assert told == {"subject_id": [f"There is no {subject} of this name or id."]}


def test_fields_that_do_not_fit_are_refused_where_they_are(admin: Caller, make_caller: Any) -> None:
    theirs = make_caller("admin").made("/keys/", {"name": "theirs"})
    assert list(problems(admin, subject_id=theirs["id"])) == ["subject_id"]
    assert list(problems(admin, subject="organisation", subject_id="x")) == ["subject_id"]
    assert list(problems(admin, subject="end_user", subject_id=" ")) == ["subject_id"]
    assert list(problems(admin, subject="planet")) == ["subject"]
    assert list(problems(admin, window=None)) == ["window"]
    assert list(problems(admin, unit="parallel")) == ["window"]
    assert list(problems(admin, amount=-1)) == ["amount"]
    assert list(problems(admin, amount=10**15 + 1)) == ["amount"]
    made(admin, "Twice", "key")
    assert list(problems(admin, name="twice")) == ["name"]
    revoked = admin.made("/keys/", {"name": "old"})
    admin.post(f"/keys/{revoked['id']}/revoke/")
    assert list(problems(admin, subject_id=revoked["id"])) == ["subject_id"]


def test_none_is_an_amount_and_two_may_count_the_same(admin: Caller) -> None:
    none = made(admin, "none", "key", amount=0)
    assert none["counts"] == "no requests for each key"
    assert none["amount"] == 0
    again = made(admin, "again", "key", amount=5)
    assert again["duplicates"] == ["none"]
    assert admin.get(f"/limits/{none['id']}/").json()["duplicates"] == ["again"]
    assert made(admin, "by the hour", "key", window="hour")["duplicates"] == []
    off = admin.patch(f"/limits/{none['id']}/", {"is_enabled": False})
    assert off.json()["duplicates"] == ["again"]
    assert admin.get(f"/limits/{again['id']}/").json()["duplicates"] == []


def test_a_change_names_its_version_and_is_audited(admin: Caller) -> None:
    limit = made(admin, "each", "key")
    path = f"/limits/{limit['id']}/"
    changed = admin.patch(path, {"amount": 0}, If_Match='"1"', X_Headworks_Reason="abuse")
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    stale = admin.patch(path, {"amount": 9}, If_Match='"1"')
    assert (stale.status_code, stale.json()["current_version"]) == (412, 2)
    entry = AuditEntry.objects.filter(noun="limits").latest("id")
    assert (entry.action, entry.before, entry.after, entry.reason) == (
        "update",
        {"amount": 600},
        {"amount": 0},
        "abuse",
    )
    same = admin.get(path).json()
    assert admin.patch(path, same).json() == same
    assert admin.patch(path, {**same, "counts": "other"}).status_code == 400
    other = admin.patch(path, {"unit": "parallel"})
    assert list(other.json()["fields"]) == ["window"]
    both = admin.patch(path, {"unit": "parallel", "window": None})
    assert both.json()["counts"] == "no requests for each key"
    alone = admin.patch(path, {"subject_id": "app"})
    assert alone.json()["fields"] == {"subject_id": ["There is no key of this name or id."]}
    admin.made("/keys/", {"name": "app"})
    admin.patch(path, {"subject_id": "app"})
    moved = admin.patch(path, {"subject": "team"})
    assert list(moved.json()["fields"]) == ["subject_id"]
    assert admin.delete(path).status_code == 204
    assert staged_snapshot().limits == {}


def test_a_limit_can_be_tried_out_and_many_made_at_once(admin: Caller) -> None:
    told = {"name": "each", "subject": "key", **PER_MINUTE}
    draft = admin.post("/limits/?dry_run=true", told).json()
    assert (draft["sections"], draft["changes"][0]["noun"]) == (["limits"], "limits")
    assert Limit.objects.count() == 0
    operations = [
        {"action": "create", "data": {**told, "name": f"limit {number}"}} for number in range(3)
    ]
    answer = admin.post("/limits/bulk/", {"operations": operations})
    assert [one["object"]["counts"] for one in answer.json()["results"]] == [
        "600 requests a minute for each key"
    ] * 3
    wrong = [{"action": "create", "data": {**told, "subject_id": "none such"}}]
    refused = admin.post("/limits/bulk/", {"operations": wrong})
    assert list(refused.json()["fields"]) == ["operations.0.data.subject_id"]


def test_the_limits_that_bind_a_key_are_those_of_all_it_stands_in(
    admin: Caller, route: Any
) -> None:
    team = admin.made("/teams/", {"name": "Research"})
    admin.made("/projects/", {"name": "Chat", "team": "Research"})
    key = admin.made("/keys/", {"name": "app", "project": "Chat"})
    admin.made("/keys/", {"name": "other"})
    for name, subject, pk in (
        ("a", "organisation", None),
        ("b", "team", team["id"]),
        ("c", "project", "Chat"),
        ("d", "key", "app"),
        ("e", "project", None),
        ("f", "key", "other"),
        ("g", "route", "chat"),
        ("h", "end_user", None),
    ):
        made(admin, name, subject, pk)
    for asked in (key["id"], "app"):
        found = admin.get(f"/limits/?key={asked}&ordering=name").json()["results"]
        assert [one["name"] for one in found] == ["a", "b", "c", "d", "e"]
    of_key = admin.get(f"/limits/?subject=key&subject_id={key['id']}").json()["results"]
    assert [one["name"] for one in of_key] == ["d"]
    assert admin.get("/limits/?unit=tokens").status_code == 400


def test_a_limit_goes_with_what_it_is_of(admin: Caller, route: Any, pool: Any) -> None:
    admin.made("/teams/", {"name": "Idle"})
    project = admin.made("/projects/", {"name": "Idle", "team": "Idle"})
    model = admin.made("/models/", {"name": "spare"})
    key = admin.made("/keys/", {"name": "app"})
    for subject, pk in (
        ("team", "Idle"),
        ("project", "Idle"),
        ("model", "spare"),
        ("route", "chat"),
        ("key", "app"),
    ):
        made(admin, f"of {subject}", subject, pk)
    made(admin, "each", "key")
    team = admin.get("/teams/?name=Idle").json()["results"][0]
    paths = [f"/routes/{route['id']}/", f"/models/{model['id']}/", f"/projects/{project['id']}/"]
    for path in (*paths, f"/teams/{team['id']}/"):
        assert admin.delete(path).status_code == 204
    assert admin.post(f"/keys/{key['id']}/revoke/").status_code == 200
    assert list(Limit.objects.values_list("name", flat=True)) == ["each"]
    assert [one.name for one in staged_snapshot().limits.values()] == ["each"]
    gone = AuditEntry.objects.filter(noun="limits", action="delete").order_by("id")
    assert [one.before["name"] for one in gone if one.before] == [
        *("of route", "of model", "of project", "of team", "of key")
    ]


def test_a_role_of_a_project_reads_the_limits_that_bind_it(
    admin: Caller, actor: Actor, route: Any
) -> None:
    home = admin.organisation
    team = home.teams.get()
    project = create_project(actor, organisation=home, team=team, name="Chat")
    admin.made("/keys/", {"name": "ours", "project": "Chat"})
    admin.made("/keys/", {"name": "theirs"})
    account = create_service_account(actor, organisation=home, name="narrow")
    grant_role(actor, subject=account, organisation=home, role="operator", project=project)
    narrow = Caller(issue_token(actor, service_account=account).text, home, "operator")
    for name, subject, pk in (
        ("all", "organisation", None),
        ("each", "key", None),
        ("team", "team", team.pk),
        ("project", "project", "Chat"),
        ("ours", "key", "ours"),
        ("route", "route", "chat"),
        ("not theirs", "project", "Default"),
        ("nor this", "key", "theirs"),
        ("nor who", "end_user", "ann"),
    ):
        made(admin, name, subject, pk)
    found = narrow.get("/limits/").json()["results"]
    assert sorted(one["name"] for one in found) == [
        *("all", "each", "ours", "project", "route", "team")
    ]
    assert narrow.post("/limits/", {"name": "x", "subject": "key", **PER_MINUTE}).status_code == 403
    assert narrow.patch(f"/limits/{found[0]['id']}/", {"amount": 1}).status_code == 403


def test_a_key_carries_what_its_requests_are(admin: Caller) -> None:
    told = {"tags": ["gold", "team=search", "gold"], "priority": "interactive"}
    key = admin.made("/keys/", {"name": "app", **told})
    assert (key["tags"], key["priority"], key["default_task"]) == (
        ["gold", "team=search"],
        "interactive",
        None,
    )
    path = f"/keys/{key['id']}/"
    assert admin.patch(path, {"default_task": "code", "tags": []}).json()["tags"] == []
    row = Key.objects.get()
    assert (row.priority, row.default_task, row.tags) == ("interactive", "code", [])
    (bucket,) = staged_snapshot().keys.values()
    record = bucket[key["public_id"]]
    assert (record.priority, record.default_task, record.tags) == ("interactive", "code", ())
    assert list(admin.patch(path, {"tags": ["no blanks"]}).json()["fields"]) == ["tags"]
    assert list(admin.patch(path, {"tags": ["a"] * 21}).json()["fields"]) == ["tags"]
    assert list(admin.patch(path, {"priority": "urgent"}).json()["fields"]) == ["priority"]
