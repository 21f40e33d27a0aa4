"""The ledger's own rows, read as a budget counts them.

Roll-ups can't tell it: they are by when requests ended, and by one thing at a time. So an account
is read from the ledger once, where its counting begins, and kept by the recorder from then on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import OperationalError, connection, transaction

from controlplane.decisions.budget_sums import Spending, bucket_s
from inference.contract.kinds import BudgetSubject
from inference.contract.snapshot import BudgetRecord, BudgetScope
from inference.decisions.budgets import Account, Period, is_by_caller

PATIENCE_MS = 2_000
"""How long a page waits for what a budget would have done."""

_BEFORE_S = 3_600
"""An end may say it was this much before its request came: clocks are set back."""

_LATEST_DAYS = 2
"""No request ends later after its period than this; what is under way is all read in any case."""

_CANCELLED = "57014"


@dataclass(frozen=True, slots=True)
class _Side:
    """How one scope is read from the ledger: what it is of a row, and which rows are its own."""

    value: str
    condition: str
    join: str = ""
    asked: tuple[str, ...] = ()


_COLUMNS: Mapping[BudgetSubject, str] = {
    BudgetSubject.ORGANISATION: "r.organisation_id",
    BudgetSubject.TEAM: "r.team_id",
    BudgetSubject.PROJECT: "r.project_id",
    BudgetSubject.KEY: "r.key_id",
    BudgetSubject.END_USER: "r.end_user",
    BudgetSubject.MODEL: "c.model_id",
    BudgetSubject.ROUTE: "r.route_id",
}


_LEDGER = "controlplane_request r JOIN controlplane_charge c USING (event_id, day)"
_BOOKED = (
    "COALESCE(SUM(c.cost_nanousd), 0)::bigint AS spent, COUNT(*) AS attempts, "
    "COUNT(*) FILTER (WHERE c.cost_nanousd IS NULL) AS unknown"
)
_CORRECTIONS = "controlplane_spendcorrection r JOIN controlplane_spendcorrection c USING (id)"
_CORRECTED = (
    "SUM(c.amount_nanousd)::bigint AS spent, 0::bigint AS attempts, "
    "-COUNT(*) FILTER (WHERE c.was_unknown) AS unknown"
)


def _side(scope: BudgetScope) -> _Side:
    named = () if scope.subject_id is None else (scope.subject_id,)
    if scope.subject is BudgetSubject.TAG:
        join = "CROSS JOIN LATERAL jsonb_array_elements_text(r.tags) AS tag"
        return _Side("tag", "tag = %s" if named else "TRUE", join, named)
    column = _COLUMNS[scope.subject]
    return _Side(column, f"{column} = %s" if named else f"{column} <> ''", "", named)


def ledger_query(
    budget: BudgetRecord, since_s: int, current: Period
) -> tuple[str, Sequence[object]]:
    """The reading of the ledger that a budget's accounts are filled from.

    Rows a combination of subjects and bucket, one of what was booked and one of what was corrected
    since: whether it came in the current period, the bucket's
    first second (0 where there are none), booked cost, attempts, those of unknown cost, the
    subjects. Requests belong to the time at which they came.
    """
    sides = [_side(scope) for scope in budget.scopes]
    length = bucket_s(budget)
    at = f"floor(extract(epoch FROM r.received_at) / {length}) * {length}"
    if is_by_caller(budget) and not budget.is_rolling:
        at = "0"
    subjects = ", ".join(f"{one.value} AS subject_{place}" for place, one in enumerate(sides))
    since, begin, end = (
        datetime.fromtimestamp(one, UTC) for one in (since_s, current.starts_s, current.ends_s)
    )
    early = since - timedelta(seconds=_BEFORE_S)

    def reading(sums: str, rows: str) -> str:
        return (
            f"SELECT r.received_at >= %s AS is_current, ({at})::bigint AS at, {sums}, {subjects} "
            f"FROM {rows} {' '.join(one.join for one in sides)} "
            "WHERE r.organisation_id = %s AND r.day >= %s AND r.day <= %s AND r.at >= %s "
            "AND r.received_at >= %s AND r.received_at < %s AND "
            f"{' AND '.join(one.condition for one in sides)} "
            f"GROUP BY 1, 2, {', '.join(str(6 + place) for place in range(len(sides)))}"
        )

    statement = f"{reading(_BOOKED, _LEDGER)} UNION ALL {reading(_CORRECTED, _CORRECTIONS)}"
    asked = [value for one in sides for value in one.asked]
    last = (end + timedelta(days=_LATEST_DAYS)).date()
    where = (budget.organisation_id, early.date(), last, early, since, end, *asked)
    return statement, (begin, *where) * 2


def spendings_of(
    rows: Iterable[tuple[object, ...]], budget: BudgetRecord, before: Period, current: Period
) -> Sequence[Spending]:
    """Rows of that reading by account, ordered by its key."""
    found: dict[str, Spending] = {}
    for is_current, at_s, spent, attempts, unknown, *subjects in rows:
        period = current if is_current else before
        account = Account(budget, tuple(map(str, subjects)), period)
        found.setdefault(account.key, Spending(account)).add(
            int(str(at_s)),
            spent_nanousd=int(str(spent)),
            attempts=int(str(attempts)),
            unknown_cost=int(str(unknown)),
        )
    return [found[key] for key in sorted(found)]


def read_past(budget: BudgetRecord, period: Period) -> Sequence[Spending] | None:
    """What the accounts of a budget, a drafted one too, had in a period that is over.

    None if the ledger has more than can be read while a page waits.
    """
    statement, values = ledger_query(budget, period.starts_s, period)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(PATIENCE_MS)])
            cursor.execute(statement, values)
            rows = cursor.fetchall()
            cursor.execute("SELECT set_config('statement_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
            raise
        return None
    return spendings_of(rows, budget, period, period)
