"""What budgets did to requests of late."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Sum

from controlplane.decisions.budget_effects import REFUSING_S, Effect
from controlplane.models import Budget, BudgetEffect, Organisation


@dataclass(frozen=True, slots=True)
class EffectTold:
    """How many requests had an effect of a budget since some time, and when the last came."""

    effect: Effect
    requests: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Refusing:
    """A budget that refused somebody just now, as the Overview tells it; of this hour."""

    id: str
    name: str
    requests: int
    owner: str


def list_refusing(organisation: Organisation, now: datetime) -> Sequence[Refusing]:
    """The budgets of an organisation that are on and refused somebody in the last minutes."""
    since = now - timedelta(seconds=REFUSING_S)
    rows = BudgetEffect.objects.filter(
        effect=Effect.REFUSED.value, at__gte=since - timedelta(hours=1), last_at__gte=since
    )
    counts = {row.budget_id: row.requests for row in rows.order_by("at")}
    if not counts:
        return ()
    budgets = Budget.objects.filter(
        pk__in=list(counts), organisation=organisation, is_enabled=True
    ).order_by("name")
    return [Refusing(one.pk, one.name, counts[one.pk], one.owner) for one in budgets]


def list_effects(
    budget_ids: Collection[str], since: datetime
) -> Mapping[str, Mapping[Effect, EffectTold]]:
    """The effects of budgets, by budget, in the hours since then."""
    found: dict[str, dict[Effect, EffectTold]] = {}
    rows = BudgetEffect.objects.filter(budget_id__in=list(budget_ids), at__gte=since)
    for one in rows.values("budget_id", "effect").annotate(n=Sum("requests"), last=Max("last_at")):
        effect = Effect(one["effect"])
        told = EffectTold(effect, int(one["n"]), one["last"])
        found.setdefault(one["budget_id"], {})[effect] = told
    return found
