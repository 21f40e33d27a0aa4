"""What customers are asked for what was served, beside what it was booked at, by whole days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import connection

from controlplane.models import Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import whole_days

GROUPS: Mapping[str, str] = {
    "team": "team_id",
    "project": "project_id",
    "model": "model_id",
    "pool": "pool_id",
}
"""What margins are told by, and the column of each."""

LONGEST = timedelta(days=400)

# a version that leaves either side out doesn't say what customers are asked; nor is it known of
# tokens that nobody counted
_READ = """
SELECT value, ROUND(COALESCE(SUM(
        prompt::numeric * v.customer_input_nanousd_per_mtok
        + completion::numeric * v.customer_output_nanousd_per_mtok
    ), 0) / 1000000)::bigint,
    SUM(CASE
        WHEN v.customer_input_nanousd_per_mtok IS NULL OR v.customer_output_nanousd_per_mtok IS NULL
        THEN attempts ELSE unknown_usage
    END)::bigint,
    SUM(cost)::bigint, SUM(unpriced)::bigint, SUM(attempts)::bigint,
    COALESCE(SUM(prompt + completion) FILTER (WHERE
        v.customer_input_nanousd_per_mtok IS NOT NULL
        AND v.customer_output_nanousd_per_mtok IS NOT NULL
    ), 0)::bigint
FROM (
    SELECT {column} AS value, version_id, SUM(prompt_tokens) AS prompt,
        SUM(completion_tokens) AS completion, SUM(cost_nanousd) AS cost, SUM(unpriced) AS unpriced,
        SUM(attempts) AS attempts, SUM(unknown_usage) AS unknown_usage
    FROM controlplane_usagepriced
    WHERE organisation_id = %(home)s AND day >= %(first)s AND day < %(end)s
    GROUP BY 1, 2
) AS summed LEFT JOIN controlplane_priceversion v ON v.id = version_id
GROUP BY value ORDER BY 4 DESC, value
"""


@dataclass(frozen=True, slots=True)
class MarginLine:
    """One group; what isn't known is left out of a sum and counted, by attempt.

    `tokens` are those of attempts with a revenue that is known.
    """

    value: str
    revenue_nanousd: int
    unknown_revenue: int
    cost_nanousd: int
    unknown_cost: int
    attempts: int
    tokens: int = 0

    @property
    def revenue_nanousd_per_mtok(self) -> int | None:
        """Of a million tokens that have a customer price; None if none has."""
        return round(self.revenue_nanousd * 1_000_000 / self.tokens) if self.tokens else None

    @property
    def revenue_nanousd_per_attempt(self) -> int | None:
        """Of an attempt that has a customer price; None if none has."""
        known = self.attempts - self.unknown_revenue
        return round(self.revenue_nanousd / known) if known > 0 else None

    @property
    def margin_nanousd(self) -> int | None:
        """Revenue less booked cost; None while any of either isn't known."""
        if self.unknown_revenue or self.unknown_cost:
            return None
        return self.revenue_nanousd - self.cost_nanousd


@dataclass(frozen=True, slots=True)
class Margins:
    """The lines, the dearest first, and the whole days of the organisation's zone that they sum."""

    since: datetime
    until: datetime
    lines: Sequence[MarginLine]


def get_margins(
    access: Access, organisation: Organisation, *, since: datetime, until: datetime, group: str
) -> Margins:
    """Of requests that ended on the days that [since, until) touches, by one of GROUPS.

    Nothing for a role that doesn't reach the whole organisation.
    """
    zone = ZoneInfo(organisation.time_zone)
    first, end = whole_days(since, until, zone)
    if not access.reads_organisation(organisation.pk):
        return Margins(first, end, ())
    asked = {
        "home": organisation.pk,
        "first": first.astimezone(zone).date(),
        "end": end.astimezone(zone).date(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(column=GROUPS[group]), asked)
        lines = [MarginLine(str(value), *map(int, sums)) for value, *sums in cursor.fetchall()]
    return Margins(first, end, lines)
