"""Replays as a caller may see them, and the part of the ledger that they are made of."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, F, QuerySet
from django.db.models.functions import TruncMinute

from controlplane.models import Charge, ConfigRevision, Replay, Request
from controlplane.selectors.access import Access

LONGEST = timedelta(hours=2)
"""A request that took longer is not looked for beyond the end of a window it arrived in."""

_REQUEST_COLUMNS = (
    *("event_id", "received_at", "key_id", "endpoint", "requested_model", "is_stream"),
    *("route_id", "outcome", "error_code", "queued_ms", "first_token_ms", "output_tokens_max"),
    *("pool_id", "model_id", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("cost_nanousd", "end_user", "tags", "priority", "task", "lineage", "version", "cache"),
)
_CHARGE_COLUMNS = (
    *("event_id", "attempt", "target_id", "pool_id", "worker_id", "started_at", "duration_ms"),
    *("first_token_ms", "error_code", "prompt_tokens", "completion_tokens", "cached_tokens"),
)


def list_replays(access: Access) -> QuerySet[Replay]:
    """Replays of organisations the caller reads all of: they tell of everybody's traffic."""
    return access.visible_organisation_wide(Replay.objects.all())


def count_by_minute(
    organisation_id: str, since: datetime, until: datetime
) -> Mapping[datetime, int]:
    """How many requests arrived in each minute of a time; those of none are left out."""
    rows = _arrived(organisation_id, since, until).annotate(minute=TruncMinute("received_at"))
    counts = rows.values_list("minute").annotate(count=Count("event_id")).order_by("minute")
    return dict(counts)


def list_arrived(organisation_id: str, since: datetime, until: datetime) -> Sequence[Any]:
    """The requests that arrived in a time, the earliest first, as mappings by column.

    `facts` and `plan_u` are from the decision record; a body is in none of them.
    """
    rows = _arrived(organisation_id, since, until).order_by("received_at", "event_id")
    return list(rows.values(*_REQUEST_COLUMNS, facts=F("decision__facts"), plan_u=F("decision__u")))


def list_attempts(organisation_id: str, since: datetime, until: datetime) -> Sequence[Any]:
    """The attempts that began in a time, as mappings by column, in the order of their numbers."""
    first, last = since.astimezone(UTC).date(), (until + LONGEST).astimezone(UTC).date()
    charges = Charge.objects.filter(
        organisation_id=organisation_id,
        day__gte=first,
        day__lte=last,
        started_at__gte=since,
        started_at__lt=until,
    )
    return list(charges.order_by("started_at", "attempt").values(*_CHARGE_COLUMNS))


def list_revisions_since(replay: Replay) -> Sequence[ConfigRevision]:
    """The versions that the organisation's edits made since a replay was asked for."""
    rows = ConfigRevision.objects.filter(
        organisation_id=replay.organisation_id, created_at__gte=replay.created_at
    )
    return list(rows.order_by("id"))


def _arrived(organisation_id: str, since: datetime, until: datetime) -> QuerySet[Request]:
    first, last = since.astimezone(UTC).date(), (until + LONGEST).astimezone(UTC).date()
    return Request.objects.filter(
        organisation_id=organisation_id,
        day__gte=first,
        day__lte=last,
        at__gte=since,
        at__lt=until + LONGEST,
        received_at__gte=since,
        received_at__lt=until,
    )
