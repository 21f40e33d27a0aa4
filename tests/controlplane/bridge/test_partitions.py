"""The ledger's days: each its partition, and a row of any other day is kept all the same."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Model

from controlplane.models import Charge, Request
from controlplane.services.requests import ensure_partitions
from tests.controlplane.bridge.conftest import Recording
from tests.controlplane.ledger_events import NOON_MS, feed, make_end

pytestmark = pytest.mark.slow

DAY_MS = 24 * 3_600_000
_TYPES = {
    "text": "TextField",
    "integer": "IntegerField",
    "bigint": "BigIntegerField",
    "date": "DateField",
    "timestamp with time zone": "DateTimeField",
    "double precision": "FloatField",
    "boolean": "BooleanField",
    "jsonb": "JSONField",
}


def partition_of(event_id: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass::text FROM controlplane_request WHERE event_id = %s",
            [event_id],
        )
        return str(cursor.fetchone()[0])


def partitions(table: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass",
            [table],
        )
        return {row[0] for row in cursor.fetchall()}


def test_partitions_are_made_ahead_and_for_days_met(recording: Recording) -> None:
    feed(recording.store, make_end(1), make_end(2, at_ms=NOON_MS - 30 * DAY_MS))
    recording.drain()
    found = partitions("controlplane_request")
    ahead = {recording.now.date() + timedelta(days=days) for days in range(8)}
    assert {f"controlplane_request_{day:%Y%m%d}" for day in ahead} <= found
    assert partition_of(make_end(1).event_id) == "controlplane_request_20261124"
    assert partition_of(make_end(2).event_id) == "controlplane_request_20261025"
    assert partitions("controlplane_charge") >= {"controlplane_charge_20261025"}


def test_an_event_of_an_unlikely_day_is_kept_in_the_default_partition(
    recording: Recording,
) -> None:
    feed(recording.store, make_end(1, at_ms=0), make_end(2, at_ms=NOON_MS + 400 * DAY_MS))
    recording.drain()
    for number in (1, 2):
        assert partition_of(make_end(number).event_id) == "controlplane_request_default"


def test_a_day_that_gets_its_partition_late_brings_its_rows_along(recording: Recording) -> None:
    day = date(2031, 5, 17)
    at_ms = int(datetime(2031, 5, 17, 9, tzinfo=UTC).timestamp() * 1000)
    feed(recording.store, make_end(1, at_ms=at_ms), make_end(2, at_ms=at_ms + DAY_MS))
    recording.drain()
    ensure_partitions([day])
    ensure_partitions([day])
    assert partition_of(make_end(1).event_id) == "controlplane_request_20310517"
    assert partition_of(make_end(2).event_id) == "controlplane_request_default"
    assert Charge.objects.filter(day=day).count() == 1


def columns_of(model: type[Model]) -> dict[str, tuple[str, bool]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_name = %s",
            [model._meta.db_table],
        )
        return {name: (_TYPES[kind], null == "YES") for name, kind, null in cursor.fetchall()}


def test_the_hand_written_tables_are_what_the_models_say(db: None) -> None:
    for model in (Request, Charge):
        fields = [field for field in model._meta.fields if field.name != "pk"]
        expected = {field.column: (field.get_internal_type(), bool(field.null)) for field in fields}
        assert columns_of(model) == expected
