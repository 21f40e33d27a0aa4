"""The price book as a file tells it, and what is served without a price."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Sum
from django.utils import timezone

from controlplane.decisions.price_lists import COLUMNS, dollars_text
from controlplane.models import CatalogueModel, Organisation, UsageDay, UsagePriced
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
    """A model that was served at an unknown cost lately: how many requests, what they used."""

    model_id: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    is_priced_now: bool


def list_unpriced(access: Access, organisation: Organisation, now: datetime) -> Sequence[Unpriced]:
    """Models of which requests of today and the week before have no cost, most of them first.

    Those that have a price by now are in it: what was booked before can be priced anew.
    """
    first = now.astimezone(ZoneInfo(organisation.time_zone)).date() - LOOKED_BACK
    days = UsageDay.objects.filter(
        organisation_id=organisation.pk, dimension="model", day__gte=first, unknown_cost__gt=0
    ).exclude(value="")
    requests = dict(
        access.visible_organisation_wide(days)
        .values_list("value")
        .annotate(requests=Sum("unknown_cost"))
    )
    attempts = UsagePriced.objects.filter(
        organisation_id=organisation.pk, version_id="", day__gte=first, model_id__in=requests
    )
    tokens = {
        model_id: sums
        for model_id, *sums in attempts.values_list("model_id").annotate(
            prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens")
        )
    }
    models = {
        one.pk: one
        for one in CatalogueModel.objects.filter(organisation=organisation).prefetch_related(
            "prices__versions"
        )
    }
    return [
        Unpriced(
            model_id,
            models[model_id].name if model_id in models else model_id,
            int(count),
            *map(int, tokens.get(model_id, (0, 0))),
            _is_priced(models.get(model_id)),
        )
        for model_id, count in sorted(requests.items(), key=lambda one: (-one[1], one[0]))
    ]


def _is_priced(model: CatalogueModel | None) -> bool:
    price = None if model is None else model.price
    return price is not None and price.is_priced
