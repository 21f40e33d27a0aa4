"""Budgets by REST: what they are of is found and goes with them; raises end; how they stand."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from redis import Redis

from controlplane.models import AuditEntry, Budget, BudgetAccount
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.projects import create_project
from controlplane.services.usage import record_usage
from controlplane.services.users import create_service_account, issue_token
from inference.contract.kinds import BudgetPeriod, BudgetSubject
from inference.contract.snapshot import BudgetRecord, BudgetScope
from inference.contract.wire import limits_holders_key
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import make_charge, make_end, make_origin
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow

DOLLAR = 10**9
MONTHLY: Mapping[str, Any] = {"amount_nanousd": str(9_000 * DOLLAR), "period": "month"}


def scope(subject: str, pk: str | None = None) -> dict[str, Any]:
    return {"subject": subject, "subject_id": pk}


def made(caller: Caller, name: str, *scopes: dict[str, Any], **fields: Any) -> Any:
    return caller.made("/budgets/", {"name": name, "scopes": list(scopes), **MONTHLY, **fields})


def problems(caller: Caller, **fields: Any) -> dict[str, Any]:
    told = {"name": "x", "scopes": [scope("key")], **MONTHLY, **fields}
    answer = caller.post("/budgets/", told)
    assert answer.status_code == 400, answer.content
    found: dict[str, Any] = answer.json()["fields"]
    return found


def test_a_budget_is_of_those_that_are_named_and_gateways_read_it(
    admin: Caller, route: Any
) -> None:
    key = admin.made("/keys/", {"name": "app"})
    budget = made(admin, "of app", scope("key", "app"), scope("end_user"), grace_percent=5)
    assert budget["scopes"] == [scope("key", key["id"]), scope("end_user")]
    assert budget["counts"] == "$9000.00 a month for key app and each end user"
    assert budget["amount_nanousd"] == "9000000000000"
    assert budget["thresholds_percent"] == [50, 80, 100]
    assert (budget["action"], budget["unknown_price"]) == ("block", "refuse")
    record = staged_snapshot().budgets[budget["id"]]
    assert record == BudgetRecord(
        id=budget["id"],
        organisation_id=admin.organisation.pk,
        name="of app",
        scopes=(
            BudgetScope(BudgetSubject.KEY, key["public_id"]),
            BudgetScope(BudgetSubject.END_USER),
        ),
        amount_nanousd=9_000 * DOLLAR,
        period=BudgetPeriod.MONTH,
        grace_percent=5,
    )
    version = admin.get("/snapshots/?page_size=1").json()["results"][0]["version"]
    told = admin.get(f"/snapshots/{version}/?noun=budgets").json()
    assert str(told).count(key["id"]) == 1
    assert "'amount_nanousd': '9000000000000'" in str(told)


def test_fields_that_do_not_fit_are_refused_where_they_are(admin: Caller, make_caller: Any) -> None:
    theirs = make_caller("admin").made("/keys/", {"name": "theirs"})
    at_first = problems(admin, scopes=[scope("key", theirs["id"])])
    assert at_first == {"scopes.0.subject_id": ["There is no key of this name or id."]}
    for subject in ("tag", "end_user"):
        assert problems(admin, scopes=[scope(subject, "a\0b")]) == {}
        assert "scopes" in str(problems(admin, scopes=[scope(subject, "x" * (2**20 - 1_000))]))
        assert "scopes" in str(problems(admin, scopes=[scope(subject, "x\x7f")]))
    assert "scopes" in str(problems(admin, scopes=[scope("tag", "a b")]))
    large = {"name": "x", "scopes": [scope("tag", "x" * 2**20)], **MONTHLY}
    assert admin.post("/budgets/", large).status_code == 413
    assert "scopes" in str(problems(admin, scopes=[scope("organisation", "x")]))
    assert list(problems(admin, scopes=[])) == ["scopes"]
    assert list(problems(admin, scopes=[scope("key"), scope("key")])) == ["scopes"]
    four = [scope(one) for one in ("key", "team", "model", "route")]
    assert list(problems(admin, scopes=four)) == ["scopes"]
    assert "scopes" in str(problems(admin, scopes=[scope("planet")]))
    for wrong_amount in ("-1", "1.5", str(10**18 + 1)):
        assert list(problems(admin, amount_nanousd=wrong_amount)) == ["amount_nanousd"]
    assert list(problems(admin, period="year")) == ["period"]
    assert list(problems(admin, grace_percent=101)) == ["grace_percent"]
    assert list(problems(admin, thresholds_percent=[0])) == ["thresholds_percent.0"]
    assert list(problems(admin, raised_until="2030-01-01T00:00:00Z")) == ["raised_until"]
    made(admin, "Twice", scope("key"))
    assert list(problems(admin, name="twice")) == ["name"]


def test_a_raise_has_an_end_and_is_audited(admin: Caller) -> None:
    budget = made(admin, "all", scope("organisation"))
    path = f"/budgets/{budget['id']}/raise/"
    until = (timezone.now() + timedelta(days=2)).isoformat()
    more = {"raised_to_nanousd": str(12_000 * DOLLAR), "raised_until": until}
    for wrong, field in (
        ({**more, "raised_until": None}, "raised_until"),
        ({**more, "raised_to_nanousd": None}, "raised_to_nanousd"),
        ({**more, "raised_to_nanousd": "1"}, "raised_to_nanousd"),
        ({**more, "raised_until": "2020-01-01T00:00:00Z"}, "raised_until"),
        ({"raised_to_nanousd": "1"}, "raised_until"),
    ):
        assert list(admin.post(path, wrong).json()["fields"]) == [field]
    none = {"raised_to_nanousd": None, "raised_until": None}
    assert admin.post(path, none).status_code == 400
    raised = admin.post(path, more, If_Match='"1"', X_Headworks_Reason="fair")
    assert (raised.status_code, raised["ETag"]) == (200, '"2"')
    assert admin.post(path, more, If_Match='"1"').status_code == 412
    record = staged_snapshot().budgets[budget["id"]]
    assert (record.amount_nanousd, record.raised_to_nanousd) == (9_000 * DOLLAR, 12_000 * DOLLAR)
    entry = AuditEntry.objects.filter(noun="budgets").latest("id")
    assert (entry.action, entry.reason) == ("raise", "fair")
    assert admin.get(f"/budgets/{budget['id']}/status/").json()["amount_nanousd"] == str(
        12_000 * DOLLAR
    )
    assert admin.post(path, none).json()["raised_until"] is None
    assert AuditEntry.objects.filter(noun="budgets").latest("id").action == "end_raise"


def test_a_change_names_its_version_and_what_was_read_can_be_sent_back(admin: Caller) -> None:
    budget = made(admin, "each", scope("key"))
    path = f"/budgets/{budget['id']}/"
    changed = admin.patch(path, {"amount_nanousd": "0"}, If_Match='"1"')
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    assert admin.patch(path, {"amount_nanousd": "1"}, If_Match='"1"').status_code == 412
    same = admin.get(path).json()
    assert admin.patch(path, same).json() == same
    wrong = admin.patch(path, {"scopes": [scope("key", "none such")]})
    assert list(wrong.json()["fields"]) == ["scopes.0.subject_id"]
    other = admin.patch(path, {"scopes": [scope("tag", "eval"), scope("model")]})
    assert other.json()["counts"] == "$0.00 a month for tag eval and each model"
    for asked, found in (("subject=tag", 1), ("subject=key", 0), ("period=month&action=block", 1)):
        assert len(admin.get(f"/budgets/?{asked}").json()["results"]) == found
    assert admin.delete(path).status_code == 204
    assert staged_snapshot().budgets == {}


def test_a_budget_goes_with_what_it_is_about_keys_in_use_or_not(
    admin: Caller, actor: Actor
) -> None:
    home = admin.organisation
    team = admin.made("/teams/", {"name": "Support"})
    project = create_project(
        actor, organisation=home, name="desk", team=home.teams.get(name="Support")
    )
    key = admin.made("/keys/", {"name": "app", "project": "desk"})
    made(admin, "of team", scope("team", "Support"), scope("model"))
    made(admin, "of key", scope("end_user", "ann"), scope("key", "app"))
    made(admin, "of each", scope("team"))
    assert admin.delete(f"/teams/{team['id']}/").status_code == 409
    assert Budget.objects.count() == 3
    admin.post(f"/keys/{key['id']}/revoke/")
    assert set(Budget.objects.values_list("name", flat=True)) == {"of team", "of each"}
    admin.delete(f"/projects/{project.pk}/")
    assert admin.delete(f"/teams/{team['id']}/").status_code == 204
    assert [one.name for one in staged_snapshot().budgets.values()] == ["of each"]
    told = AuditEntry.objects.filter(noun="budgets", action="delete")
    assert {entry.before["name"] for entry in told} == {"of team", "of key"}


def test_whom_a_budget_binds_reads_it_and_only_what_is_his_of_the_spending(
    admin: Caller, actor: Actor
) -> None:
    home = admin.organisation
    account = create_service_account(actor, organisation=home, name="narrow")
    project = home.projects.get()
    grant_role(actor, subject=account, organisation=home, role="viewer", project=project)
    narrow = Caller(issue_token(actor, service_account=account).text, home, "viewer")
    elsewhere = create_project(actor, organisation=home, name="other", team=project.team)
    each = made(admin, "each", scope("project"))
    made(admin, "whole", scope("organisation"))
    made(admin, "user", scope("end_user", "ann"))
    made(admin, "his", scope("project", project.pk), scope("end_user"))
    made(admin, "other", scope("project", elsewhere.pk))
    seen = {one["name"] for one in narrow.get("/budgets/").json()["results"]}
    assert seen == {"each", "whole", "his"}
    spend(home.pk, (project.pk, 3), (elsewhere.pk, 5))
    begin_to_count(Budget.objects.get(pk=each["id"]), timezone.now())
    told = narrow.get(f"/budgets/{each['id']}/status/").json()
    assert told["totals"] is None
    assert told["previous"] is None
    assert [(one["subjects"][0]["id"], one["spent_nanousd"]) for one in told["accounts"]] == [
        (project.pk, str(3 * DOLLAR))
    ]
    whole = admin.get(f"/budgets/{each['id']}/status/?top=1").json()
    assert whole["totals"]["accounts"] == 2
    assert whole["totals"]["spent_nanousd"] == str(8 * DOLLAR)
    assert [one["subjects"][0]["name"] for one in whole["accounts"]] == ["other"]
    assert admin.get(f"/budgets/{each['id']}/status/?top=x").status_code == 400
    assert narrow.post(f"/budgets/{each['id']}/raise/", {}).status_code == 403


def spend(organisation_id: str, *amounts: tuple[str, int]) -> None:
    """Requests of now, one a project."""
    now = timezone.now()
    at = int(now.timestamp() * 1000)
    record_usage(
        [
            make_end(
                number,
                at_ms=at,
                received_at_ms=at,
                origin=make_origin(organisation_id=organisation_id, project_id=project),
                charges=(make_charge(cost_nanousd=amount * DOLLAR),),
            )
            for number, (project, amount) in enumerate(amounts, 1)
        ],
        now=now,
    )


def test_status_tells_what_is_spent_left_and_where_it_goes(admin: Caller) -> None:
    home = admin.organisation
    budget = made(admin, "all", scope("organisation"), amount_nanousd=str(10 * DOLLAR))
    before = admin.get(f"/budgets/{budget['id']}/status/").json()
    assert (before["is_counted"], before["is_each"], before["time_zone"]) == (False, False, "UTC")
    assert before["accounts"][0]["spent_nanousd"] == "0"
    begin_to_count(Budget.objects.get(), timezone.now())
    spend(home.pk, ("proj_1", 9))
    told = admin.get(f"/budgets/{budget['id']}/status/").json()
    assert told["is_counted"]
    assert told["period"]["starts_at"] < told["period"]["ends_at"]
    (account,) = told["accounts"]
    assert (account["spent_nanousd"], account["left_nanousd"]) == (str(9 * DOLLAR), str(DOLLAR))
    assert (account["state"], account["threshold_percent"]) == ("threshold", 80)
    assert account["used_percent"] == 90.0
    assert int(account["forecast"]["at_end_nanousd"]) >= 9 * DOLLAR
    assert account["subjects"][0]["id"] == home.pk


def test_what_dead_gateways_had_reserved_is_held_by_nobody_and_what_came_late_is_told(
    admin: Caller, state_store: Redis
) -> None:
    made(admin, "all", scope("organisation"), amount_nanousd=str(10 * DOLLAR))
    row = Budget.objects.get()
    begin_to_count(row, timezone.now())
    spend(admin.organisation.pk, ("proj_1", 1))
    key = BudgetAccount.objects.get().key
    seconds, _ = state_store.time()
    clock = {"at": seconds * 1_000, "clock": 50_000, "alive": "49000:7", "dead": "46000:9"}
    state_store.hset(limits_holders_key(admin.organisation.pk), mapping=clock)
    held = {"g": 9 * DOLLAR, "l": 5 * DOLLAR, "l:alive": 2 * DOLLAR, "l:dead": 2 * DOLLAR}
    late = {"l:gone": DOLLAR, "late": DOLLAR, "past": 40_000_000}
    state_store.hset(key, mapping={**held, **late})
    (account,) = admin.get(f"/budgets/{row.pk}/status/").json()["accounts"]
    assert account["reserved_nanousd"] == str(2 * DOLLAR)
    assert (account["late_nanousd"], account["late_past_nanousd"]) == (str(DOLLAR), "40000000")
    # while nobody at all is heard, time goes on
    state_store.hset(limits_holders_key(admin.organisation.pk), "at", (seconds - 60) * 1_000)
    (account,) = admin.get(f"/budgets/{row.pk}/status/").json()["accounts"]
    assert account["reserved_nanousd"] == "0"
