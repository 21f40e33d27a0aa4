"""The price book as a file tells it, and what is served without a price."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum
from django.utils import timezone

from controlplane.decisions.price_lists import COLUMNS, dollars_text
from controlplane.models import CatalogueModel, Organisation, UsageMinute
from controlplane.selectors.access import Access
from controlplane.selectors.prices import list_prices

LOOKED_BACK = timedelta(days=7)


def list_book(access: Access, organisation: Organisation) -> Sequence[Mapping[str, str]]:
    """What is in force now and what is planned, a row a version, as files tell it."""
    now = timezone.now()
    rows = []
    found = list_prices(access).filter(organisation=organisation).order_by("model__name", "pk")
    for price in found:
        current = price.at(now)
        for version in [*([current] if current else []), *price.upcoming]:
            if version is current and not version.is_priced:
                continue
            amounts = {name: version.amounts[column] for name, column in COLUMNS.items()}
            rows.append(
                {
                    "model": price.model.name,
                    "pool": "" if price.pool is None else price.pool.name,
                    **{name: dollars_text(amount) for name, amount in amounts.items()},
                    "effective_from": version.effective_from.isoformat(),
                }
            )
    return rows


@dataclass(frozen=True, slots=True)
class Unpriced:
    """A model that was served at an unknown cost lately, and by how much."""

    model_id: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    is_priced_now: bool


def list_unpriced(access: Access, organisation: Organisation, now: datetime) -> Sequence[Unpriced]:
    """Models of which the last week's requests have no cost, most of them first.

    Those that have a price by now are in it: what was booked before can be priced anew.
    """
    rows = UsageMinute.objects.filter(
        organisation_id=organisation.pk, minute__gte=now - LOOKED_BACK, unknown_cost__gt=0
    ).exclude(model_id="")
    names = ("unknown_cost", "prompt_tokens", "completion_tokens")
    sums: Any = (
        access.visible_organisation_wide(rows)
        .values("model_id")
        .annotate(**{f"sum_{name}": Sum(name) for name in names})
        .order_by("-sum_unknown_cost", "model_id")
    )
    models = {
        one.pk: one
        for one in CatalogueModel.objects.filter(organisation=organisation).prefetch_related(
            "prices__versions"
        )
    }
    return [
        Unpriced(
            row["model_id"],
            models[row["model_id"]].name if row["model_id"] in models else row["model_id"],
            int(row["sum_unknown_cost"]),
            int(row["sum_prompt_tokens"]),
            int(row["sum_completion_tokens"]),
            _is_priced(models.get(row["model_id"])),
        )
        for row in sums
    ]


def _is_priced(model: CatalogueModel | None) -> bool:
    price = None if model is None else model.price
    return price is not None and price.is_priced
