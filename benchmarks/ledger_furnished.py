"""What stands beside a generated ledger: customer prices, own cost, corrections, closed months.

Imported by benchmarks/ledger_size.py once Django is set up.
"""

from datetime import UTC, date, datetime, timedelta

from django.db import connection

from controlplane.models import Organisation, PriceVersion, Statement
from controlplane.selectors.spend import month_after
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.models import create_model
from controlplane.services.prices import create_price
from controlplane.services.statements import close_month

CORRECTIONS = 100_000
BUDGETS = {
    "organisation": "month",
    "team": "month",
    "project": "quarter",
    "key": "month",
    "end_user": "month",
    "tag": "week",
}
"""What each budget counts apart, and for how long."""

_OWN = """
INSERT INTO controlplane_owncost (
    organisation_id, pool_id, hour, kind, team_id, project_id, model_id, gpu_type, capacity_class,
    gpu_seconds, tokens, attempts, own_nanousd, list_nanousd, unpriced, hour_nanousd, computed_at
)
SELECT %(organisation)s, 'pool_' || pool, hour, kind, team, project, model, 'H100', 'on_demand',
    80, tokens, attempts, 44444444, attempts * 487200, 0, 2000000000, now()
FROM generate_series(0, 5) AS pool
CROSS JOIN generate_series(
    %(first)s::date::timestamp AT TIME ZONE 'UTC', date_trunc('hour', now()), interval '1 hour'
) AS hour
CROSS JOIN (
    SELECT DISTINCT 'work' AS kind, 'team_' || key %% 8 AS team, 'proj_' || key %% 20 AS project,
        'mdl_' || key %% 5 AS model, 50000 AS tokens, 20 AS attempts
    FROM generate_series(0, 499) AS key
    UNION ALL SELECT 'idle', '', '', '', 0, 0
) AS line
"""
_CORRECTED = """
INSERT INTO controlplane_spendcorrection (
    id, organisation_id, day, at, received_at, booked_at, repricing_id, event_id, attempt, team_id,
    project_id, key_id, route_id, pool_id, model_id, version_id, amount_nanousd, was_unknown,
    is_request_known, reason, created_by
)
SELECT 'cor_' || lpad(n::text, 26, '0'), %(organisation)s, at::date, at, at, now(), 'rep_made',
    'req_' || lpad(n::text, 26, '0'), 1, 'team_' || n %% 8, 'proj_' || n %% 20,
    lpad(to_hex(n %% 500), 26, '0'), 'rt_' || n %% 12, 'pool_' || n %% 6, 'mdl_' || n %% 5, 'prc_1',
    12000, false, false, 'made up', 'benchmark'
FROM (
    SELECT n, now() - n * interval '60 seconds' AS at FROM generate_series(1, %(rows)s) AS n
) AS made
"""


def furnish(actor: Actor, organisation: Organisation, first: date) -> None:
    """Add all of it to the ledger's organisation, whose days begin with `first`."""
    model = create_model(actor, organisation=organisation, name="priced")
    price = create_price(
        actor,
        model=model,
        input_nanousd_per_mtok=300_000_000,
        output_nanousd_per_mtok=900_000_000,
    )
    PriceVersion.objects.create(
        id="prc_1",
        organisation=organisation,
        price=price,
        effective_from=datetime(2020, 1, 1, tzinfo=UTC),
        input_nanousd_per_mtok=300_000_000,
        output_nanousd_per_mtok=900_000_000,
        customer_input_nanousd_per_mtok=400_000_000,
        customer_output_nanousd_per_mtok=1_100_000_000,
    )
    with connection.cursor() as cursor:
        cursor.execute(_OWN, {"organisation": organisation.pk, "first": first})
        cursor.execute(_CORRECTED, {"organisation": organisation.pk, "rows": CORRECTIONS})
        # as if each day had been recorded when it was
        cursor.execute("UPDATE controlplane_usageday SET changed_at = day + interval '1 day'")
    for month in months_to_close(first):
        close_month(actor, organisation=organisation, month=month)
    for subject, period in BUDGETS.items():
        budget = create_budget(
            actor,
            organisation=organisation,
            name=subject,
            scopes=[{"subject": subject, "subject_id": None}],
            amount_nanousd=10**15,
            period=period,
        )
        begin_to_count(budget, datetime.now(UTC))


def months_to_close(first: date) -> list[date]:
    """All but the newest of the months that are over."""
    found, month = [], first.replace(day=1)
    while month_after(month_after(month)) <= datetime.now(UTC).date():
        found.append(month)
        month = month_after(month)
    return found


def is_furnished() -> bool:
    """Whether it was done, so that a kept ledger isn't furnished twice."""
    return Statement.objects.exists()


def last_month() -> date:
    """The newest month that is over: it stays open."""
    return (datetime.now(UTC).date().replace(day=1) - timedelta(days=1)).replace(day=1)
