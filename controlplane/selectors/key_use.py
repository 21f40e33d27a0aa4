"""How much a key is used: days from the roll-up, the last hour by a bounded look at the ledger."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Max, Sum

from controlplane.decisions.key_states import IN_USE
from controlplane.models import Key, Request, UsageDay

USE_DAYS = 30
_MOST_LOOKED_AT = 20_000
"""Of a busy organisation's last hour only so many requests are looked at; more counts as use."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Requests of the last 30 days, today among them, and the last of these days with any."""

    requests: int
    errors: int
    last_day: date | None
    cost_nanousd: int
    unknown_cost: int


NO_USE = KeyUse(0, 0, None, 0, 0)


def get_key_use(
    organisation_id: str, public_ids: Collection[str], now: datetime
) -> Mapping[str, KeyUse]:
    """The use of keys the caller may see, by public id, in one query; one without any is absent."""
    return get_use_of_keys([organisation_id], public_ids, now)


def get_use_of_keys(
    organisation_ids: Collection[str], public_ids: Collection[str], now: datetime
) -> Mapping[str, KeyUse]:
    """The same for keys of several organisations."""
    days = UsageDay.objects.filter(organisation_id__in=list(organisation_ids))
    since = now.astimezone(UTC).date() - timedelta(days=USE_DAYS - 1)
    rows = days.filter(dimension="key", value__in=list(public_ids), day__gte=since, requests__gt=0)
    sums = rows.values("value").annotate(
        total=Sum("requests"),
        failed=Sum("errors"),
        last=Max("day"),
        cost=Sum("cost_nanousd"),
        unknown=Sum("unknown_cost"),
    )
    return {
        row["value"]: KeyUse(
            int(row["total"]),
            int(row["failed"]),
            row["last"],
            int(row["cost"]),
            int(row["unknown"]),
        )
        for row in sums
    }


def is_key_in_use(key: Key, now: datetime) -> bool:
    """Whether the key was used in the last hour; True when there is too much traffic to tell."""
    rows = Request.objects.filter(organisation_id=key.organisation_id)
    since = now - IN_USE
    recent = rows.filter(day__gte=since.astimezone(UTC).date(), at__gte=since)
    newest = recent.order_by("-at", "-event_id").values_list("key_id", flat=True)
    seen = list(newest[:_MOST_LOOKED_AT])
    return key.public_id in seen or len(seen) == _MOST_LOOKED_AT
