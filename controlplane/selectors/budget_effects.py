"""What budgets did to requests of late."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Sum

from controlplane.decisions.budget_effects import Effect
from controlplane.models import BudgetEffect


@dataclass(frozen=True, slots=True)
class EffectTold:
    """How many requests had an effect of a budget since some time, and when the last came."""

    effect: Effect
    requests: int
    last_at: datetime


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
