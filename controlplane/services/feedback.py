"""Writes of what people say of answers."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection

from controlplane.decisions.ledger import stored_text, time_of
from controlplane.models import Feedback
from inference.contract import events

KEPT = timedelta(days=400)
"""A year can be compared with the one before."""

_COLUMNS = (
    *("event_id", "organisation_id", "request_id", "at", "project_id", "key_id"),
    *("rater", "score", "label", "comment", "is_completed"),
)

# the newest counts, whichever recorder hears it first
_WRITE = f"""
INSERT INTO {Feedback._meta.db_table} AS kept ({", ".join(_COLUMNS)})
VALUES ({", ".join(["%s"] * len(_COLUMNS))})
ON CONFLICT (event_id) DO UPDATE SET {", ".join(f"{one} = EXCLUDED.{one}" for one in _COLUMNS[3:])}
WHERE kept.at <= EXCLUDED.at
"""


def write_feedback(said: Sequence[events.Feedback]) -> None:
    """Keep the newest that each rater says of each request; inside the recorder's transaction.

    In the order of their keys, as all writers do. What is written already changes nothing.
    """
    rows = sorted(said, key=lambda one: (one.event_id, one.at_ms))
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_WRITE, [_values(one) for one in rows])


def forget_feedback(now: datetime) -> int:
    """Remove what is older than it is kept; returns how many."""
    return Feedback.objects.filter(at__lt=now - KEPT).delete()[0]


def _values(one: events.Feedback) -> Sequence[object]:
    return (
        *(stored_text(one.event_id), one.organisation_id, stored_text(one.request_id)),
        *(time_of(one.at_ms), one.project_id, one.key_id),
        *(one.rater, one.score, one.label, one.comment, one.is_completed),
    )
