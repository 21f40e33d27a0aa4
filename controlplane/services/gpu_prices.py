"""Edits of what an hour of a GPU costs. One that has begun stays: a later one follows it."""

from datetime import datetime

from django.utils import timezone

from controlplane.errors import Conflict, Invalid
from controlplane.models import GpuPrice, Organisation
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit

MOST_USUAL_NANOUSD = 100 * 10**9
"""A hundred dollars an hour for one GPU."""


def create_gpu_price(
    actor: Actor,
    *,
    organisation: Organisation,
    gpu_type: str,
    capacity_class: str,
    hour_nanousd: int,
    effective_from: datetime | None = None,
    is_confirmed: bool = False,
) -> GpuPrice:
    """Say what an hour of one GPU of this type and class costs from a moment on; raises Invalid."""
    if hour_nanousd > MOST_USUAL_NANOUSD and not is_confirmed:
        raise Invalid.field("hour_nanousd", "Above $100 an hour: it must be confirmed.")
    with configuration_edit():
        price = rows.insert(
            GpuPrice(
                organisation=organisation,
                gpu_type=gpu_type,
                capacity_class=capacity_class,
                hour_nanousd=hour_nanousd,
                effective_from=effective_from or timezone.now(),
            )
        )
        edits.note(actor, "create", "gpu_prices", price, after=edits.values_of(price))
    return price


def delete_gpu_price(
    actor: Actor, *, gpu_price_id: str, expected_version: int | None = None
) -> None:
    """Take back a price that hasn't begun; raises Conflict for one that has."""
    with configuration_edit():
        price = rows.lock(GpuPrice, gpu_price_id, expected_version=expected_version)
        if price.effective_from <= timezone.now():
            raise Conflict("It is in force or was: add a later one instead.")
        before = edits.values_of(price)
        rows.remove(price)
        edits.note(actor, "delete", "gpu_prices", price, before=before)
