"""What budgets did to requests, an hour a row: written by the recorder, kept like accounts."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from django.db import connection

from controlplane.decisions.budget_effects import EffectSum
from controlplane.models import BudgetEffect
from controlplane.services.budget_accounts import KEPT

_COLUMNS = ("budget_id", "effect", "at", "requests", "last_at")


def add_effects(effects: Sequence[EffectSum]) -> None:
    """Add what ends that are new in the ledger tell of budgets' effects.

    Belongs into the transaction that records them, after the accounts.
    """
    rows = [
        {
            "budget_id": one.budget_id,
            "effect": one.effect.value,
            "at": datetime.fromtimestamp(one.hour_ms / 1000, UTC),
            "requests": one.requests,
            "last_at": datetime.fromtimestamp(one.last_ms / 1000, UTC),
        }
        for one in effects
    ]
    if not rows:
        return
    table, names = BudgetEffect._meta.db_table, ", ".join(_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {names} "
            f"FROM json_populate_recordset(NULL::{table}, %s::json) "
            "ON CONFLICT (budget_id, effect, at) DO UPDATE SET "
            f"requests = {table}.requests + EXCLUDED.requests, "
            f"last_at = GREATEST({table}.last_at, EXCLUDED.last_at)",
            [msgspec.json.encode(rows).decode()],
        )


def forget_old_effects(now: datetime) -> int:
    """Remove what budgets did long ago; returns how many rows."""
    return BudgetEffect.objects.filter(at__lt=now - KEPT).delete()[0]
