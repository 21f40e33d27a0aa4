"""Several jobs and several people at once: each report is sent once, each month closed once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest
from django.db import connection, transaction

from controlplane.errors import Conflict
from controlplane.models import (
    Delivery,
    Organisation,
    ReportRun,
    ReportSchedule,
    Statement,
    UsageDay,
)
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel
from controlplane.services.organisations import create_organisation
from controlplane.services.schedules import create_schedule, send_due
from controlplane.services.statements import close_month

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FIRST = datetime(2026, 11, 1, 7, tzinfo=UTC)


@pytest.fixture
def home(actor: Actor) -> Organisation:
    return create_organisation(actor, name="Busy")


def at_once(work: Callable[[], int]) -> int:
    """What eight threads with connections of their own come to in all."""

    def one(_: int) -> int:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(one, range(16)))


def test_jobs_at_once_send_each_period_once(home: Organisation, actor: Actor) -> None:
    channel = create_channel(
        actor, organisation=home, name="Finance", kind="email", recipients=["cfo@example.com"]
    )
    create_schedule(
        actor,
        organisation=home,
        name="Teams",
        group_by="team",
        cadence="monthly",
        channel=channel,
    )
    ReportSchedule.objects.update(since=datetime(2026, 1, 1, tzinfo=UTC))
    assert at_once(lambda: len(send_due(FIRST))) == 1
    assert (Delivery.objects.count(), ReportRun.objects.count()) == (1, 1)
    assert ReportRun.objects.get().delivery_id == Delivery.objects.get().pk


def test_closing_a_month_waits_for_no_recorder(home: Organisation, actor: Actor) -> None:
    place = {"organisation_id": home.pk, "dimension": "team", "project_id": "proj_1"}
    UsageDay.objects.create(**place, day=date(2026, 10, 2), value="team_1", requests=1)

    def close() -> Statement:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '10s'")
            return close_month(actor, organisation=home, month=date(2026, 10, 1), now=FIRST)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        # as a recorder that has written and not committed yet
        UsageDay.objects.create(**place, day=date(2026, 10, 3), value="team_2", requests=1)
        statement = pool.submit(close).result()
    assert [row.value for row in statement.rows.filter(dimension="team")] == ["team_1"]


def test_a_month_is_closed_by_one_of_those_who_close_it_at_once(
    home: Organisation, actor: Actor
) -> None:
    def close() -> int:
        try:
            close_month(actor, organisation=home, month=date(2026, 10, 1), now=FIRST)
        except Conflict:
            return 0
        return 1

    assert at_once(close) == 1
    assert Statement.objects.count() == 1
