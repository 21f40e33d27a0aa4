"""What customers are asked for what was served, beside what it was booked at, by the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import OperationalError, connection, transaction

from controlplane.errors import Invalid
from controlplane.models import Organisation
from controlplane.selectors.access import Access

GROUPS: Mapping[str, tuple[str, str]] = {
    "team": ("r.team_id", "team_id"),
    "project": ("r.project_id", "project_id"),
    "model": ("c.model_id", "model_id"),
    "pool": ("c.pool_id", "pool_id"),
}
"""What margins are told by: the columns of the ledger and of corrections."""

PATIENCE_MS = 5_000
"""How long a page waits for the ledger's own rows."""

LONGEST = timedelta(days=92)
_CANCELLED = "57014"

_READ = """
SELECT value, ROUND(COALESCE(SUM(revenue), 0))::bigint,
    COALESCE(SUM(CASE WHEN is_attempt AND revenue IS NULL THEN 1 ELSE 0 END), 0)::bigint,
    COALESCE(SUM(cost), 0)::bigint, COALESCE(SUM(unknown), 0)::bigint,
    SUM(is_attempt::int)::bigint,
    COALESCE(SUM(CASE WHEN revenue IS NULL THEN 0 ELSE tokens END), 0)::bigint
FROM (
    SELECT {charge} AS value, TRUE AS is_attempt, c.cost_nanousd AS cost,
        (c.cost_nanousd IS NULL)::int AS unknown,
        COALESCE(c.prompt_tokens, 0) + COALESCE(c.completion_tokens, 0) AS tokens,
        (COALESCE(c.prompt_tokens, 0)::numeric * v.customer_input_nanousd_per_mtok
            + COALESCE(c.completion_tokens, 0)::numeric * v.customer_output_nanousd_per_mtok
        ) / 1000000 AS revenue
    FROM controlplane_request r JOIN controlplane_charge c USING (event_id, day)
    LEFT JOIN controlplane_priceversion v ON v.id = c.price_id
    WHERE r.organisation_id = %(home)s AND r.day >= %(first)s AND r.day <= %(last)s
        AND r.at >= %(since)s AND r.at < %(until)s
    UNION ALL
    SELECT {correction}, FALSE, amount_nanousd, -(was_unknown::int), 0, NULL
    FROM controlplane_spendcorrection
    WHERE organisation_id = %(home)s AND at >= %(since)s AND at < %(until)s
) AS booked
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


def list_margins(
    access: Access, organisation: Organisation, *, since: datetime, until: datetime, group: str
) -> Sequence[MarginLine]:
    """Of requests that ended in [since, until), by one of GROUPS, the dearest first.

    Raises Invalid if the ledger has more of it than can be read while somebody waits; nothing for
    a role that doesn't reach the whole organisation.
    """
    if not access.reads_organisation(organisation.pk):
        return ()
    charge, correction = GROUPS[group]
    asked = {
        "home": organisation.pk,
        "since": since,
        "until": until,
        "first": since.astimezone(UTC).date(),
        "last": until.astimezone(UTC).date(),
    }
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(PATIENCE_MS)])
            cursor.execute(_READ.format(charge=charge, correction=correction), asked)
            rows = cursor.fetchall()
            cursor.execute("SELECT set_config('statement_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
            raise
        raise Invalid.field("since", "There is too much of it; give a shorter time.") from error
    return [MarginLine(str(value), *map(int, sums)) for value, *sums in rows]
