"""Reports by REST: months that stay as they were closed, files, and what a calendar sends once."""

import csv
from datetime import UTC, date, datetime, timedelta
from io import BytesIO, StringIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.models import (
    AuditEntry,
    Delivery,
    ReportExport,
    ReportSchedule,
    Statement,
    StatementRow,
    Team,
    UsageDay,
)
from controlplane.selectors import reports, statements
from controlplane.services import schedules
from controlplane.services.schedules import send_due
from controlplane.tasks.reports import forget_old, make_files
from tests.controlplane.api.test_requests import record
from tests.controlplane.api.test_spend import charged
from tests.controlplane.conftest import Caller

pytestmark = pytest.mark.slow

OCTOBER, NOVEMBER = "2026-10", "2026-11"


def lines(document: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in document["results"]]


def report(caller: Caller, month: str, group: str = "team") -> Any:
    response = caller.get(f"/reports/?month={month}&group_by={group}")
    assert response.status_code == 200, response.content
    return response.json()


def close(caller: Caller, month: str) -> Any:
    return caller.made("/statements/", {"month": month})


@pytest.fixture
def used(admin: Caller) -> Caller:
    """October and September of two teams, one of which is removed afterwards."""
    team = Team.objects.get(organisation=admin.organisation)
    record(
        admin,
        charged(1, "2026-09-30T23:59", 1_000, team_id="team_1"),
        charged(2, "2026-10-01T00:00", 10, team_id="team_1", tags=("a", "b")),
        charged(3, "2026-10-31T23:59", 100, team_id=team.pk, end_user="ann"),
        charged(4, "2026-10-15T12:00", None, team_id="team_1"),
    )
    return admin


def test_a_month_that_is_closed_stays_as_it_was_and_the_next_one_has_what_came_later(
    used: Caller,
) -> None:
    before = report(used, OCTOBER)
    assert (before["statement"], before["is_reconciled"]) == (None, True)
    assert lines(before, "label", "cost_nanousd", "unknown_cost") == [
        ("Default", "100", 0),
        ("team_1", "10", 1),
    ]
    statement = close(used, OCTOBER)
    assert (statement["month"], statement["number"], statement["state"]) == (OCTOBER, 1, "closed")
    Team.objects.filter(organisation=used.organisation).update(name="Renamed")
    record(used, charged(5, "2026-10-20T12:00", 7, team_id="team_1"))
    UsageDay.objects.filter(dimension="team", label="Default").update(cost_nanousd=40)
    after = report(used, OCTOBER)
    assert after["statement"]["id"] == statement["id"]
    assert lines(after, "label", "cost_nanousd") == lines(before, "label", "cost_nanousd")
    assert after["total"] == before["total"]
    draft = report(used, NOVEMBER)
    assert lines(draft, "label", "of_month", "requests", "cost_nanousd") == [
        ("team_1", "2026-10-01", 1, "7"),
        ("Default", "2026-10-01", 0, "-60"),
    ]
    closed = close(used, NOVEMBER)
    assert lines(report(used, NOVEMBER), "label", "cost_nanousd") == [
        ("team_1", "7"),
        ("Default", "-60"),
    ]
    assert report(used, "2026-12")["results"] == []
    entries = AuditEntry.objects.filter(noun="statements").order_by("id")
    assert [(one.action, one.object_id) for one in entries] == [
        ("close", statement["id"]),
        ("close", closed["id"]),
    ]


def test_a_closed_month_is_read_again_only_if_something_came_since(used: Caller) -> None:
    close(used, OCTOBER)
    home, month = used.organisation.pk, date(2026, 10, 1)
    # a recorder may have begun to write before the month was closed
    assert reports.list_changed_months(home, [month]) == [month]
    UsageDay.objects.update(changed_at=timezone.now() - timedelta(hours=1))
    assert reports.list_changed_months(home, [month]) == []
    with CaptureQueriesContext(connection) as queries:
        assert report(used, NOVEMBER)["results"] == []
    assert sum("AS line" in one["sql"] for one in queries) == 1
    # what comes late is told, of days that were there and of others
    for number, day in ((6, "2026-10-20"), (7, "2026-10-31")):
        UsageDay.objects.update(changed_at=timezone.now() - timedelta(hours=1))
        record(used, charged(number, f"{day}T12:00", 7, team_id="team_1"))
        assert reports.list_changed_months(home, [month]) == [month]
    assert lines(report(used, NOVEMBER), "label", "of_month", "cost_nanousd") == [
        ("team_1", "2026-10-01", "14")
    ]
    # and so is what another zone's days move
    UsageDay.objects.update(changed_at=timezone.now() - timedelta(hours=1))
    used.patch(f"/organisations/{home}/", {"time_zone": "Asia/Kathmandu"})
    assert reports.list_changed_months(home, [month]) == [month]


def test_every_dimension_of_a_statement_has_the_whole(used: Caller) -> None:
    close(used, OCTOBER)
    for group in ("route", "pool", "model", "project", "team", "key", "tag", "end_user"):
        told = report(used, OCTOBER, group)
        assert (told["total"]["requests"], told["total"]["cost_nanousd"]) == (3, "110")
    assert sorted(lines(report(used, OCTOBER, "tag"), "kind", "value", "requests")) == [
        ("none", "", 2),
        ("several", "", -1),
        ("value", "a", 1),
        ("value", "b", 1),
    ]


def test_an_administrator_opens_a_month_again_with_a_reason_and_nothing_is_told_twice(
    used: Caller, make_caller: Any
) -> None:
    first = close(used, OCTOBER)
    record(used, charged(5, "2026-10-20T12:00", 7, team_id="team_1"))
    close(used, NOVEMBER)
    path = f"/statements/{first['id']}/reopen/"
    assert used.post(path).status_code == 400
    finance = make_caller("finance", used.organisation)
    assert finance.post(path, **{"X-Headworks-Reason": "wrong"}).status_code == 403
    opened = used.post(path, **{"X-Headworks-Reason": "a price was wrong"})
    assert opened.status_code == 200, opened.content
    assert opened.json()["reopened_reason"] == "a price was wrong"
    assert StatementRow.objects.filter(statement_id=first["id"], dimension="team").count() == 2
    again = finance.made("/statements/", {"month": OCTOBER})
    assert again["number"] == 2
    own = StatementRow.objects.filter(dimension="team", of_month=date(2026, 10, 1))
    closed = own.filter(statement__state="closed")
    assert sum(row.cost_nanousd for row in closed) == 117
    assert used.post(path, **{"X-Headworks-Reason": "once more"}).status_code == 409


@pytest.mark.parametrize(
    ("document", "code"),
    [({"month": "2026-13"}, 400), ({"month": "2999-01"}, 400), ({"month": OCTOBER}, 409)],
)
def test_a_month_that_cannot_be_closed_says_why(used: Caller, document: Any, code: int) -> None:
    close(used, OCTOBER)
    assert used.post("/statements/", document).status_code == code
    zone = timezone.now()
    assert used.post("/statements/", {"month": f"{zone:%Y-%m}"}).status_code == 400


def test_a_report_comes_in_pages_the_dearest_first(used: Caller) -> None:
    def page(number: int) -> Any:
        asked = f"month={OCTOBER}&group_by=team&page_size=1&page={number}"
        return used.get(f"/reports/?{asked}").json()

    first, second, third = page(1), page(2), page(3)
    assert [lines(one, "label") for one in (first, second, third)] == [
        [("Default",)],
        [("team_1",)],
        [],
    ]
    assert {one["count"] for one in (first, second, third)} == {2}
    assert {one["total"]["cost_nanousd"] for one in (first, second, third)} == {"110"}
    assert "page=2" in first["next"]
    assert (second["next"], third["next"]) == (None, None)
    for wrong in ("page=0", "page_size=0", "page_size=10001", "page=x"):
        assert used.get(f"/reports/?{wrong}").status_code == 400


def test_what_has_too_many_lines_is_refused_and_never_cut_off(
    used: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reports, statements):
        monkeypatch.setattr(module, "MOST_LINES", 1)
    refused = used.post("/statements/", {"month": OCTOBER})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["month"])
    assert not Statement.objects.exists()
    for asked in (f"month={OCTOBER}", "since=2026-10-01&until=2026-11-02"):
        assert used.get(f"/reports/?{asked}&group_by=project").status_code == 200
        assert used.get(f"/reports/?{asked}&group_by=team").status_code == 400


def test_a_report_by_one_dimension_reads_no_other(used: Caller) -> None:
    close(used, OCTOBER)
    record(used, charged(5, "2026-10-20T12:00", 7, team_id="team_1"))
    with CaptureQueriesContext(connection) as asked:
        report(used, NOVEMBER)
    found = [one["sql"] for one in asked if 'FROM "controlplane_statementrow"' in one["sql"]]
    assert len(found) == 3
    assert all("IN ('team')" in one for one in found[:2])
    assert "IN ('project')" in found[2]


def test_reports_are_for_roles_of_the_whole_organisation(used: Caller, narrow: Caller) -> None:
    for path in ("/reports/", "/statements/", "/report-exports/", "/report-schedules/"):
        assert narrow.get(path).status_code == 403
    asked = {"since": "2026-10-01", "until": "2026-11-01"}
    assert narrow.post("/report-exports/", asked).status_code in (400, 403)


def exported(caller: Caller, **changes: Any) -> Any:
    asked = {"since": "2026-10-01", "until": "2026-11-01", "group_by": "team"}
    made = caller.made("/report-exports/", asked | changes)
    assert make_files() == made["id"]
    return caller.get(f"/report-exports/{made['id']}/").json()


def test_a_file_has_exact_figures_and_what_a_spreadsheet_would_compute_is_text(
    used: Caller,
) -> None:
    record(used, charged(6, "2026-10-02T12:00", 3, end_user='=HYPERLINK("x")\ufffd'))
    told = exported(used, group_by="end_user")
    assert (told["state"], told["lines"], told["done"], told["total"]) == ("done", 3, 1, 1)
    answer = used.get(f"/report-exports/{told['id']}/content/")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert len(answer.content) == told["size_bytes"]
    rows = list(csv.DictReader(StringIO(answer.content.decode())))
    assert {row["name"]: row["cost_nanousd"] for row in rows} == {
        "ann": "100",
        "None": "10",
        '\'=HYPERLINK("x")\ufffd': "3",
    }
    assert {row["unknown_cost"] for row in rows} == {"0", "1"}


def test_a_parquet_file_tells_days_apart_with_their_types(used: Caller) -> None:
    told = exported(used, format="parquet", part="day")
    assert (told["done"], told["total"]) == (5, 5)
    answer = used.get(f"/report-exports/{told['id']}/content/")
    table = pq.read_table(BytesIO(answer.content))
    assert table.schema.field("cost_nanousd").type == "int64"
    rows = table.select(["day", "name", "cost_nanousd"]).to_pylist()
    assert rows == [
        {"day": date(2026, 10, 1), "name": "team_1", "cost_nanousd": 10},
        {"day": date(2026, 10, 15), "name": "team_1", "cost_nanousd": 0},
        {"day": date(2026, 10, 31), "name": "Default", "cost_nanousd": 100},
    ]


def test_a_file_expires_and_one_whose_job_is_gone_fails(used: Caller) -> None:
    told = exported(used)
    ReportExport.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert forget_old() == 1
    assert used.get(f"/report-exports/{told['id']}/content/").status_code == 404
    assert used.get(f"/report-exports/{told['id']}/").json()["state"] == "done"
    lost = used.made("/report-exports/", {"since": "2026-10-01", "until": "2026-10-02"})
    ReportExport.objects.filter(pk=lost["id"]).update(
        state="running", beat_at=timezone.now() - timedelta(minutes=5)
    )
    assert make_files() is None
    failed = used.get(f"/report-exports/{lost['id']}/").json()
    assert (failed["state"], failed["detail"]) == ("failed", "The job that made it has ended.")


def test_an_empty_range_is_an_empty_file_and_a_wrong_one_is_refused(used: Caller) -> None:
    told = exported(used, since="2025-01-01", until="2025-01-02", format="parquet")
    assert (told["state"], told["lines"]) == ("done", 0)
    for asked in (
        {"since": "2026-10-01", "until": "2026-10-01"},
        {"since": "2020-10-01", "until": "2026-10-01"},
        {"since": "2026-10-01"},
    ):
        assert used.post("/report-exports/", asked).status_code == 400


@pytest.fixture
def channel(admin: Caller) -> Any:
    return admin.made(
        "/channels/", {"name": "Finance", "kind": "email", "recipients": ["cfo@example.com"]}
    )


def scheduled(caller: Caller, channel: Any, **changes: Any) -> ReportSchedule:
    asked = {
        "name": "Teams",
        "group_by": "team",
        "cadence": "monthly",
        "hour": 7,
        "channel": channel["id"],
    }
    made = caller.made("/report-schedules/", asked | changes)
    ReportSchedule.objects.filter(pk=made["id"]).update(since=datetime(2026, 1, 1, tzinfo=UTC))
    return ReportSchedule.objects.get(pk=made["id"])


FIRST = datetime(2026, 11, 1, 7, tzinfo=UTC)


def test_a_scheduled_report_is_sent_once_with_the_months_figures(
    used: Caller, channel: Any
) -> None:
    schedule = scheduled(used, channel)
    assert send_due(FIRST) == [schedule.pk]
    assert send_due(FIRST + timedelta(minutes=1)) == []
    assert send_due(FIRST + timedelta(days=20)) == []
    delivery = Delivery.objects.get()
    assert (delivery.kind, delivery.state, delivery.channel_id) == (
        "report",
        "queued",
        channel["id"],
    )
    assert delivery.content["title"] == "Teams: October 2026"
    assert delivery.content["facts"] == [
        ["Default", "$0.0000001, 1 request"],
        ["team_1", "$0.00000001, 2 requests, 1 of them without a price"],
    ]
    assert send_due(datetime(2026, 12, 1, 7, tzinfo=UTC)) == [schedule.pk]


def test_another_cadence_swallows_no_report(used: Caller, channel: Any) -> None:
    schedule = scheduled(used, channel, cadence="daily")
    second = datetime(2026, 10, 2, 7, tzinfo=UTC)
    assert send_due(second) == [schedule.pk]
    path = f"/report-schedules/{schedule.pk}/"
    assert used.patch(path, {"cadence": "monthly"}).status_code == 200
    ReportSchedule.objects.update(since=second)
    assert send_due(FIRST) == [schedule.pk]
    assert send_due(FIRST) == []
    titles = sorted(one.content["title"] for one in Delivery.objects.all())
    assert titles == ["Teams: 1 October 2026", "Teams: October 2026"]


def test_a_schedule_that_fails_holds_up_no_other(
    used: Caller, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = scheduled(used, channel)
    others = [scheduled(used, channel, name=f"S {number}", group_by="project") for number in (1, 2)]
    with monkeypatch.context() as few:
        few.setattr(schedules, "MOST_LINES", 1)
        assert sorted(send_due(FIRST)) == sorted(one.pk for one in others)
    assert send_due(FIRST) == [broken.pk]


def test_what_ended_before_a_schedule_began_is_not_sent(used: Caller, channel: Any) -> None:
    made = scheduled(used, channel)
    ReportSchedule.objects.filter(pk=made.pk).update(since=FIRST + timedelta(seconds=1))
    assert send_due(FIRST + timedelta(hours=1)) == []
    assert used.patch(f"/report-schedules/{made.pk}/", {"hour": 8}).status_code == 200
    assert used.delete(f"/report-schedules/{made.pk}/").status_code == 204


def test_a_schedule_is_checked_and_one_without_a_channel_sends_nothing(
    used: Caller, channel: Any, make_caller: Any
) -> None:
    schedule = scheduled(used, channel)
    stranger = make_caller("admin")
    asked = {"name": "X", "group_by": "team", "cadence": "daily", "channel": channel["id"]}
    assert stranger.post("/report-schedules/", asked).status_code == 400
    assert used.post("/report-schedules/", asked | {"hour": 24}).status_code == 400
    assert used.delete(f"/channels/{channel['id']}/").status_code == 204
    told = used.get(f"/report-schedules/{schedule.pk}/").json()
    assert (told["channel"], told["channel_id"]) == (None, None)
    assert send_due(FIRST) == []
