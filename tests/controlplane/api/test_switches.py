"""Kill switches by REST: thrown, told, put back, and over by themselves."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import AuditEntry, Switch
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.projects import create_project
from controlplane.services.users import create_service_account, issue_token
from inference.contract.kinds import SwitchSubject
from tests.controlplane.conftest import Caller
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow


def entries() -> list[tuple[str, str]]:
    """What was done to switches, and the name each entry keeps."""
    rows = AuditEntry.objects.filter(noun="switches").order_by("id")
    return [(one.action, (one.after or one.before or {}).get("name", "")) for one in rows]


def ids(caller: Caller) -> list[str]:
    return [one["id"] for one in caller.get("/switches/").json()["results"]]


def over(pk: str) -> None:
    """Let a switch's time be over."""
    Switch.objects.filter(pk=pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def test_what_is_thrown_is_off_at_gateways_until_it_is_put_back(admin: Caller, route: Any) -> None:
    key = admin.made("/keys/", {"name": "app"})
    home = admin.organisation.pk
    told = {"subject": "key", "subject_id": "app", "reason": "It leaked."}
    switch = admin.made("/switches/", told)
    assert (switch["subject_id"], switch["subject_name"]) == (key["id"], "app")
    assert (switch["reason"], switch["expires_at"], switch["version"]) == ("It leaked.", None, 1)
    thrown = staged_snapshot().thrown
    assert list(thrown) == [(home, SwitchSubject.KEY, key["public_id"])]
    whole = admin.made("/switches/", {"subject": "organisation"})
    assert (home, SwitchSubject.ORGANISATION, None) in staged_snapshot().thrown
    assert ids(admin) == [whole["id"], switch["id"]]
    assert admin.delete(f"/switches/{whole['id']}/", If_Match='"7"').status_code == 412
    for pk in ids(admin):
        assert admin.delete(f"/switches/{pk}/").status_code == 204
    assert (ids(admin), dict(staged_snapshot().thrown)) == ([], {})
    assert entries() == [
        ("throw", "key app"),
        ("throw", "the whole organisation"),
        ("put_back", "the whole organisation"),
        ("put_back", "key app"),
    ]


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"subject": "route"}, "subject_id"),
        ({"subject": "route", "subject_id": "none such"}, "subject_id"),
        ({"subject": "organisation", "subject_id": "chat"}, "subject_id"),
        ({"subject": "team", "subject_id": "Default"}, "subject"),
        ({"subject": "organisation", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"subject": "organisation", "reason": "two\nlines"}, "reason"),
        ({"subject": "pool", "subject_id": "mine"}, "subject_id"),
    ],
)
def test_what_cannot_be_thrown_is_refused_where_it_is_wrong(
    told: dict[str, Any], field: str, admin: Caller, route: Any
) -> None:
    admin.made("/switches/", {"subject": "pool", "subject_id": "mine"})
    answer = admin.post("/switches/", told)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_reason_and_end_can_be_changed_and_nothing_else(admin: Caller, route: Any) -> None:
    switch = admin.made("/switches/", {"subject": "route", "subject_id": "chat"})
    path = f"/switches/{switch['id']}/"
    until = "2099-01-01T00:00:00Z"
    changed = admin.patch(path, {"reason": "Mended soon.", "expires_at": until})
    assert (changed.json()["reason"], changed.json()["expires_at"]) == ("Mended soon.", until)
    record = staged_snapshot().switches[switch["id"]]
    assert (record.reason, record.expires_at) == ("Mended soon.", 4_070_908_800.0)
    refused = admin.patch(path, {"subject_id": None})
    assert list(refused.json()["fields"]) == ["subject_id"]
    assert admin.patch(path, changed.json()).status_code == 200
    past = admin.patch(path, {"expires_at": "2001-01-01T00:00:00Z"})
    assert list(past.json()["fields"]) == ["expires_at"]


def test_one_whose_time_is_over_is_off_no_more_and_can_be_thrown_anew(
    admin: Caller, route: Any
) -> None:
    told = {"subject": "route", "subject_id": "chat"}
    old = admin.made("/switches/", told)
    over(old["id"])
    assert ids(admin) == []
    assert admin.patch(f"/switches/{old['id']}/", {"reason": "x"}).status_code == 404
    new = admin.made("/switches/", told)
    assert ids(admin) == [new["id"]]
    assert [action for action, _ in entries()] == ["throw", "expire", "throw"]


def test_a_switch_goes_with_what_it_turns_off(admin: Caller, route: Any) -> None:
    admin.made("/switches/", {"subject": "route", "subject_id": "chat"})
    admin.made("/switches/", {"subject": "pool", "subject_id": "mine"})
    assert admin.delete(f"/routes/{route['id']}/").status_code == 204
    pool = admin.get("/pools/").json()["results"][0]
    assert admin.delete(f"/pools/{pool['id']}/").status_code == 204
    assert Switch.objects.count() == 0
    assert [action for action, _ in entries()] == ["throw", "throw", "delete", "delete"]


def test_a_role_of_a_project_sees_what_is_off_for_it_and_turns_nothing_off(
    admin: Caller, actor: Actor, route: Any
) -> None:
    home = admin.organisation
    project = create_project(actor, organisation=home, team=home.teams.get(), name="Chat")
    account = create_service_account(actor, organisation=home, name="narrow")
    grant_role(actor, subject=account, organisation=home, role="admin", project=project)
    narrow = Caller(issue_token(actor, service_account=account).text, home, "admin")
    admin.made("/keys/", {"name": "theirs"})
    seen = [
        admin.made("/switches/", {"subject": "project", "subject_id": "Chat"})["id"],
        admin.made("/switches/", {"subject": "route", "subject_id": "chat"})["id"],
    ]
    admin.made("/switches/", {"subject": "project", "subject_id": "Default"})
    admin.made("/switches/", {"subject": "key", "subject_id": "theirs"})
    assert sorted(ids(narrow)) == sorted(seen)
    assert narrow.post("/switches/", {"subject": "organisation"}).status_code == 403
    assert narrow.delete(f"/switches/{seen[0]}/").status_code == 403
