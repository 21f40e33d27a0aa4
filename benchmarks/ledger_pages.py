"""A ledger of any size made by SQL, and every page about usage and spending asked for over it.

Imported by benchmarks/ledger_size.py once Django is set up.
"""

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

from django.core.management import call_command
from django.db import connection
from django.test import Client

from benchmarks.ledger_furnished import furnish, is_furnished, last_month
from controlplane.models import Budget, Organisation, Role, User
from controlplane.selectors.margins import GROUPS as MARGIN_GROUPS
from controlplane.selectors.usage_queries import GROUPS
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.organisations import create_organisation
from controlplane.services.requests import ensure_partitions
from controlplane.services.users import create_user, grant_role

NAME = "Large"

BEFORE_ROLL_UPS = "0018"
"""The newest migration whose roll-ups are those of before; what comes after sums the ledger."""

TURNS = 3
_MS = 1_000
_KEY = "lpad(to_hex({key}), 26, '0')"

_REQUESTS = f"""
INSERT INTO controlplane_request (
    day, event_id, at, received_at, recorded_at, organisation_id, team_id, project_id, key_id,
    endpoint, requested_model, is_stream, gateway, lineage, version, route_id, route_name, outcome,
    http_status, total_ms, first_token_ms, attempts, pool_id, pool_name, model_id, model_name,
    worker_id, prompt_tokens, completion_tokens, cached_tokens, cost_nanousd, cost_max_nanousd,
    journal, seq, end_user, tags
)
SELECT %(day)s, 'req_' || lpad((%(first)s + n)::text, 26, '0'), at, at - interval '1 second', at,
    %(organisation)s, 'team_' || key %% 8, 'proj_' || key %% 20, {_KEY.format(key="key")},
    'chat', 'chat', true, 'gw-1', '01', 1, 'rt_' || key %% 12, 'route-' || key %% 12,
    CASE WHEN n %% 50 = 0 THEN 'error' ELSE 'ok' END, CASE WHEN n %% 50 = 0 THEN 503 ELSE 200 END,
    900, 200, 1, 'pool_' || n %% 6, 'pool-' || n %% 6, 'mdl_' || key %% 5, 'model-' || key %% 5,
    'pool_' || n %% 6 || '-0', 1846, 182, 1024,
    CASE WHEN n %% 20 <> 0 THEN 487200 END, CASE WHEN n %% 20 <> 0 THEN 487200 END,
    'journal-' || n %% 8, (%(first)s + n) / 8 + 1,
    CASE WHEN n %% 5 < 2 THEN 'user-' || key || '-' || n %% 6 END,
    CASE WHEN n %% 10 < 3 THEN jsonb_build_array('tag-' || key %% 30, 'tag-' || n %% 3 + 30) END
FROM (
    SELECT n, (%(keys)s * power(random(), 3))::int AS key,
        %(day)s::date::timestamp AT TIME ZONE 'UTC' + random() * interval '86399 seconds' AS at
    FROM generate_series(1, %(rows)s) AS n
) AS made
"""

_CHARGES = """
INSERT INTO controlplane_charge (
    day, event_id, attempt, organisation_id, target_id, pool_id, pool_name, model_id, model_name,
    worker_id, kind, started_at, duration_ms, first_token_ms, http_status, prompt_tokens,
    completion_tokens, cached_tokens, price_id, input_nanousd_per_mtok, output_nanousd_per_mtok,
    cost_nanousd, cost_max_nanousd
)
SELECT day, event_id, 1, organisation_id, 'tgt_1', pool_id, pool_name, model_id, model_name,
    worker_id, 'final', received_at, 880, 210, http_status, prompt_tokens, completion_tokens,
    cached_tokens, CASE WHEN cost_nanousd IS NOT NULL THEN 'prc_1' END,
    CASE WHEN cost_nanousd IS NOT NULL THEN 300000000 END,
    CASE WHEN cost_nanousd IS NOT NULL THEN 900000000 END, cost_nanousd, cost_max_nanousd
FROM controlplane_request WHERE day = %(day)s
"""

_MINUTES = """
INSERT INTO controlplane_usageminute
SELECT count(*), count(*) FILTER (WHERE outcome = 'error'), count(*), sum(prompt_tokens),
    sum(completion_tokens), sum(cached_tokens), coalesce(sum(cost_nanousd), 0), 0,
    count(*) FILTER (WHERE cost_nanousd IS NULL), organisation_id, date_trunc('minute', at),
    route_id, pool_id, model_id, project_id
FROM controlplane_request WHERE day = %(day)s
GROUP BY organisation_id, date_trunc('minute', at), route_id, pool_id, model_id, project_id
"""


def fill(days: Sequence[date], *, requests: int, keys: int, organisation_id: str) -> None:
    """Write the ledger and its minutes, a day at a time."""
    ensure_partitions(days)
    rows = requests // len(days)
    for place, day in enumerate(days):
        values = {
            "day": day,
            "first": place * rows,
            "rows": rows,
            "keys": keys,
            "organisation": organisation_id,
        }
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
            for statement in (_REQUESTS, _CHARGES, _MINUTES):
                cursor.execute(statement, values)
        print(f"\r{(place + 1) * rows:,} requests", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def prepare(requests: int, days: int, keys: int) -> None:
    """Make a database with an organisation, a person, and a ledger with all that stands beside it.

    What is there already of an earlier run is left.
    """
    with timed("brought up to date"):
        call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    actor = system_actor("benchmark", via=Via.COMMAND)
    if not Organisation.objects.filter(name=NAME).exists():
        _prepare_ledger(actor, requests, days, keys)
    if not is_furnished():
        organisation = Organisation.objects.get(name=NAME)
        with timed("prices, own cost, corrections, closed months and budgets"):
            furnish(actor, organisation, datetime.now(UTC).date() - timedelta(days=days - 1))
        with timed("analysed"), connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def _prepare_ledger(actor: Actor, requests: int, days: int, keys: int) -> None:
    organisation = create_organisation(actor, name=NAME)
    user = create_user(actor, username="reader", password="a-long-enough-passphrase-4")
    grant_role(actor, subject=user, organisation=organisation, role=Role.ADMIN)
    today = datetime.now(UTC).date()
    made = [today - timedelta(days=place) for place in range(days)]
    with timed("the ledger filled"):
        fill(made, requests=requests, keys=keys, organisation_id=organisation.pk)
    call_command("migrate", "controlplane", BEFORE_ROLL_UPS, verbosity=0)
    with timed("its roll-ups summed by the upgrade"):
        call_command("migrate", verbosity=0)


def addresses(days: int) -> Sequence[str]:
    """Every page and call that is timed."""
    today = datetime.now(UTC).date()
    first, end = today - timedelta(days=days - 1), today + timedelta(days=1)
    before = today - timedelta(days=31)
    closed = (last_month() - timedelta(days=1)).replace(day=1)
    whole = f"from={first}T00:00&to={end}T00:00"
    groups = [*GROUPS, "none"]
    pages = [
        *(f"/usage/?range={named}" for named in ("24h", "7d", "30d", "mtd", "last-month")),
        *(f"/usage/?group_by={one}&measure=cost&bucket=day&{whole}" for one in groups),
        *(f"/usage/?group_by={one}&bucket=hour&range=7d" for one in ("key", "team", "route")),
        "/me/usage/",
        "/me/usage/?group_by=key",
        *(f"/spend/?month={before:%Y-%m}&group_by={one}" for one in groups),
        f"/spend/?day={before}&group_by=key",
        "/spend/",
        *(
            f"/reports/?month={month:%Y-%m}&group_by={one}"
            for one in GROUPS
            for month in (closed, last_month())
        ),
        *(
            f"/{page}/?span={span}&group={one}"
            for page, span in (("margins", "30d"), ("margins", "90d"), ("own-costs", "30d"))
            for one in MARGIN_GROUPS
        ),
        *(f"/{page}/" for page in ("prices", "corrections", "repricings", "budgets", "requests")),
        *(f"/budgets/{pk}/" for pk in Budget.objects.values_list("pk", flat=True)),
        "/system/",
    ]
    ends = f"from={first}T00:00:00Z&to={end}T00:00:00Z"
    calls = [
        *(f"/api/v1/usage/?bucket=day&group_by={one}&top=100&{ends}" for one in GROUPS),
        "/api/v1/usage/?bucket=minute",
        "/api/v1/usage/?bucket=hour&group_by=key&range=30d",
        "/api/v1/usage/?bucket=day&group_by=model&project=proj_3&range=30d",
        "/api/v1/usage/?bucket=hour&group_by=pool&route=rt_3&range=7d",
        *(f"/api/v1/spend/?group_by={one}" for one in GROUPS),
        *(
            f"/api/v1/reports/?month={month:%Y-%m}&group_by={one}"
            for one in GROUPS
            for month in (closed, last_month())
        ),
        *(
            f"/api/v1/{call}/?group={one}&since={first}T00:00:00Z"
            for call in ("margins", "own-costs")
            for one in MARGIN_GROUPS
        ),
        *(f"/api/v1/{call}/" for call in ("statements", "corrections", "budgets", "requests")),
    ]
    return [*pages, *calls]


def measure(days: int) -> Mapping[str, tuple[float, float]]:
    """Median and longest of some turns by address, in ms."""
    client = Client()
    client.force_login(User.objects.get(username="reader"))
    found = {}
    for address in addresses(days):
        took = []
        for _ in range(TURNS + 1):
            began = time.perf_counter()
            response = client.get(address, headers={"host": "localhost"})
            took.append((time.perf_counter() - began) * _MS)
            assert response.status_code == 200, (address, response.status_code)
        found[address] = (statistics.median(took[1:]), max(took[1:]))
    return found
