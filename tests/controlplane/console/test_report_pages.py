"""The report pages: a month, closing it and opening it again, files, and scheduled reports."""

from collections.abc import Callable

import pytest

from controlplane.models import ReportExport, ReportSchedule, Role, Statement
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel
from controlplane.tasks.reports import make_files
from tests.controlplane.api.test_spend import charged
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow
from tests.controlplane.console.test_request_pages import words_of

pytestmark = pytest.mark.slow

OCTOBER = "/reports/?month=2026-10&group_by=team"
CLOSE, REOPEN = "/reports/close/?month=2026-10", "/reports/reopen/?month=2026-10"


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    reader = make_reader("ada", Role.ADMIN)
    reader.record(
        charged(1, "2026-10-10T12:00", 2 * 10**9, team_id="team_1"),
        charged(2, "2026-10-11T12:00", None, team_id="team_2"),
    )
    return reader


def test_a_month_is_closed_with_a_reason_and_opened_again(admin: Reader) -> None:
    page = words_of(admin.page(OCTOBER))
    assert "team_1 1 1,846 182 $2.00" in page
    assert "team_2 1 1,846 182 no price 1" in page
    assert "Ledger total = sum of rows 2 3,692 364 $2.00 1" in page
    assert "never changes" in words_of(admin.page(CLOSE))
    assert admin.client.post(CLOSE).status_code == 400
    assert admin.client.post(CLOSE, {"reason": "invoiced"}).status_code == 302
    admin.record(charged(3, "2026-10-12T12:00", 10**9, team_id="team_1"))
    page = words_of(admin.page(OCTOBER))
    assert "Closed by ada" in page
    assert "invoiced" in page
    assert "As it was closed 2 3,692 364 $2.00 1" in page
    november = words_of(admin.page("/reports/?month=2026-11&group_by=team"))
    assert "team_1 adjustment of October 2026 1 1,846 182 $1.00" in november
    assert admin.client.post(REOPEN, {"reason": "wrong"}).status_code == 302
    assert Statement.objects.get().reopened_reason == "wrong"
    assert "$3.00" in words_of(admin.page(OCTOBER))


def test_who_may_not_close_sees_no_button_and_gets_a_403(
    make_reader: Callable[..., Reader],
) -> None:
    reader = make_reader("vic", Role.VIEWER)
    assert "Close the month" not in reader.page(OCTOBER)
    assert reader.get(CLOSE).status_code == 403
    assert reader.client.post(CLOSE, {"reason": "x"}).status_code == 403


def test_a_file_is_asked_for_made_and_downloaded(admin: Reader) -> None:
    asked = {"since": "2026-10-01", "until": "2026-11-01", "group_by": "team"}
    made = admin.client.post("/reports/files/", asked | {"part": "day", "format": "csv"})
    assert made.status_code == 302
    waiting = admin.page("/reports/files/")
    assert "waits" in waiting
    assert "hx-trigger" in waiting
    make_files()
    done = admin.page("/reports/files/")
    assert "hx-trigger" not in done
    assert "October 2026, by team and day CSV" in words_of(done)
    file = admin.get(f"/reports/files/{ReportExport.objects.get().pk}/")
    assert file["Content-Disposition"].endswith('report-team-2026-10-01-2026-11-01.csv"')
    assert file.content.count(b"\n") == 3


def test_a_report_is_scheduled_changed_and_removed(admin: Reader, actor: Actor) -> None:
    channel = create_channel(
        actor,
        organisation=admin.organisation,
        name="Finance",
        kind="email",
        recipients=["cfo@example.com"],
    )
    values = {
        "name": "Teams",
        "group_by": "team",
        "cadence": "monthly",
        "hour": "7",
        "channel": channel.pk,
        "is_enabled": "on",
    }
    flow = Flow(admin.client, "/reports/schedules/new/")
    assert "Finance" in flow.page
    sent = flow.send("save", **values)
    assert sent.status_code == 302, flow.words
    schedule = ReportSchedule.objects.get()
    told = words_of(admin.page(f"/reports/schedules/{schedule.pk}/"))
    assert "monthly, at 07:00 of UTC" in told
    assert "None yet" in told
    assert "monthly, 07:00" in words_of(admin.page("/reports/schedules/"))
    for path in ("edit/", "delete/"):
        assert admin.get(f"/reports/schedules/{schedule.pk}/{path}").status_code == 200


@pytest.mark.parametrize("asked", ["month=soon", "since=2026-10-01", "since=1&until=2"])
def test_a_question_that_cannot_be_answered_says_so(admin: Reader, asked: str) -> None:
    assert "The question cannot be answered" in admin.page(f"/reports/?{asked}")
