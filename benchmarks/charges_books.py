"""Budgets beside the ledger: what accounts, counters and the ledger's own rows say of the same."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import psycopg
from psycopg.rows import dict_row
from redis import Redis

from controlplane.bridge.budget_counters import NOTHING, read_counters

_ROWS = """
    SELECT r.organisation_id AS organisation, r.key_id AS key, r.end_user, r.tags AS tag,
           r.route_id AS route, c.model_id AS model, r.received_at, c.cost_nanousd
    FROM controlplane_request r JOIN controlplane_charge c USING (event_id, day)
"""
_ACCOUNTS = """
    SELECT budget_id, subjects, key, starts_at, spent_nanousd, unknown_cost
    FROM controlplane_budgetaccount WHERE ends_at > now()
"""
_CORRECTIONS = """
    SELECT budget_id, why, SUM(added_nanousd)::bigint AS added, SUM(taken_nanousd)::bigint AS taken
    FROM controlplane_budgetcorrection WHERE at >= %s GROUP BY 1, 2
"""

Place = tuple[str, tuple[str, ...]]
"""A budget and those it counts for, in the period under way."""


@dataclass
class Purse:
    """One account: its counter's key, what the ledger's account has, what the store says."""

    key: str
    spent: int
    settled: int = 0
    reserved: int = 0


@dataclass
class Budgets:
    """All accounts of some budgets at one moment, and each thing that doesn't agree."""

    purses: Mapping[Place, Purse]
    corrections: Sequence[Mapping[str, Any]]
    faults: list[str] = field(default_factory=list)

    @property
    def unsettled(self) -> list[str]:
        """Accounts whose counter in the store isn't what the ledger has, or holds something."""
        return [
            f"{place}: the ledger has {one.spent}, the store {one.settled} and {one.reserved} held"
            for place, one in self.purses.items()
            if (one.settled, one.reserved) != (one.spent, 0)
        ]

    def added(self, budget_id: str) -> int:
        """What the ledger told the store of a budget that no gateway had told it."""
        return sum(row["added"] for row in self.corrections if row["budget_id"] == budget_id)

    def summary(self) -> str:
        held = sum(one.reserved for one in self.purses.values())
        told = ", ".join(
            f"{why} {sum(row['added'] - row['taken'] for row in rows):+,}"
            for why, rows in _by_why(self.corrections).items()
        )
        return (
            f"budgets: {len({budget for budget, _ in self.purses})}, {len(self.purses)} accounts,"
            f" {held} nano-USD held; corrected by the ledger: {told or 'nothing'}"
        )


def read_budgets(
    database_url: str, store: "Redis[bytes]", budgets: Sequence[Mapping[str, Any]], since: datetime
) -> Budgets:
    """Read these budgets' accounts, their counters, and the ledger's rows, summed anew."""
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        accounts = connection.execute(_ACCOUNTS).fetchall()
        corrections = connection.execute(_CORRECTIONS, [since]).fetchall()
        rows = connection.execute(_ROWS).fetchall()
    own = {one["id"].removeprefix("bud_"): one for one in budgets}
    own |= {one["id"]: one for one in budgets}
    purses: dict[Place, Purse] = {}
    for row in accounts:
        if row["budget_id"] in own:
            counter = read_counters(store, [row["key"]]).get(row["key"], NOTHING)
            place = own[row["budget_id"]]["name"], tuple(row["subjects"])
            told = counter.settled, counter.reserved
            purses[place] = Purse(row["key"], row["spent_nanousd"], *told)
    found = Budgets(purses, [one for one in corrections if one["budget_id"] in own])
    expected = _sums(rows, budgets)
    for place in expected.keys() | purses.keys():
        told = purses[place].spent if place in purses else 0
        if told != expected.get(place, 0):
            found.faults.append(
                f"{place}: the account has {told}, the ledger's rows come to {expected.get(place)}"
            )
    return found


def _sums(
    rows: Sequence[Mapping[str, Any]], budgets: Sequence[Mapping[str, Any]]
) -> Mapping[Place, int]:
    """What the ledger's rows of the present periods come to, reckoned apart from the product."""
    sums: dict[Place, int] = defaultdict(int)
    now = datetime.now(UTC)
    for budget in budgets:
        begin = _begin(budget["period"], now)
        for row in rows:
            if row["received_at"] < begin:
                continue
            sides = [_subjects(row, scope) for scope in budget["scopes"]]
            for subjects in product(*sides):
                sums[budget["name"], subjects] += row["cost_nanousd"] or 0
    return sums


def _subjects(row: Mapping[str, Any], scope: Mapping[str, Any]) -> Sequence[str]:
    """Those of a row that a scope counts; of a key, model or route no single one is named here."""
    found = row[scope["subject"]] or ()
    values = [found] if isinstance(found, str) else found
    return [one for one in values if scope["subject_id"] in (None, one)]


def _begin(period: str, now: datetime) -> datetime:
    """When the present period began, in UTC, which is the organisation's zone here."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return day
    if period == "week":
        return day - timedelta(days=day.weekday())
    if period == "month":
        return day.replace(day=1)
    return day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)


def _by_why(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["why"]].append(row)
    return found
