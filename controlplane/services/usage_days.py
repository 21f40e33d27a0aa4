"""The day roll-up told anew, for an organisation whose time zone changed."""

from dataclasses import fields

from django.db import connection

from controlplane.decisions.rollups import Sums
from controlplane.services.budget_accounts import COUNTING_LOCK

_SUMS = tuple(field.name for field in fields(Sums))

_KEEP_LABELS = """
CREATE TEMPORARY TABLE former_label ON COMMIT DROP AS
    SELECT dimension, value, day, max(label) AS label FROM controlplane_usageday
    WHERE organisation_id = %s AND label <> '' GROUP BY dimension, value, day
"""
_FORGET = """
DELETE FROM controlplane_usageday WHERE organisation_id = %(organisation)s AND day >= (
    SELECT (min(hour) AT TIME ZONE %(zone_before)s)::date FROM controlplane_usagehour
    WHERE organisation_id = %(organisation)s
)
"""
_SUM = f"""
INSERT INTO controlplane_usageday AS kept
    (organisation_id, day, dimension, value, project_id, {", ".join(_SUMS)}, label)
SELECT %s, one.day, one.dimension, one.value, one.project_id,
    {", ".join(f"one.{name}" for name in _SUMS)}, COALESCE((
        SELECT label FROM former_label AS former
        WHERE former.dimension = one.dimension AND former.value = one.value
            AND former.day <= one.day + 1
        ORDER BY former.day DESC LIMIT 1
    ), '')
FROM (
    SELECT (hour AT TIME ZONE %s)::date AS day, dimension, value, project_id,
        {", ".join(f"sum({name}) AS {name}" for name in _SUMS)}
    FROM controlplane_usagehour WHERE organisation_id = %s
    GROUP BY 1, 2, 3, 4
) AS one
ON CONFLICT (organisation_id, day, dimension, value, project_id)
DO UPDATE SET {", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in _SUMS)},
    changed_at = statement_timestamp()
"""


def retell_days(organisation_id: str, time_zone: str, *, zone_before: str) -> None:
    """Sum an organisation's days anew from its hours, for another time zone.

    Days before the first hour, which an upgrade kept, stay as they are.

    Belongs into the transaction that changes the zone; recorders wait for its end. Hours keep the
    beginnings they were counted by, so of zones that differ by part of an hour the days before the
    change are told to the hour. What callers name is counted by day alone and stays as it is.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [COUNTING_LOCK])
        cursor.execute(_KEEP_LABELS, [organisation_id])
        cursor.execute("CREATE INDEX ON former_label (dimension, value, day)")
        before = {"organisation": organisation_id, "zone_before": zone_before}
        cursor.execute(_FORGET, before)
        cursor.execute(_SUM, [organisation_id, time_zone, organisation_id])
        cursor.execute("DROP TABLE former_label")
