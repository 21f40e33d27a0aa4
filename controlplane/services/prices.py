"""Edits of the price book. Each adds a version or takes back one that hasn't begun.

What was booked stays what it was: a version counts from its moment on, and is never changed.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.utils import timezone

from controlplane.decisions.prices import AMOUNTS, incomplete, unusual
from controlplane.errors import Invalid, NotFound
from controlplane.models import CatalogueModel, Pool, Price, PriceVersion
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit

_EDITABLE = frozenset((*AMOUNTS, "effective_from", "is_confirmed"))
_SIDES = ("input_nanousd_per_mtok", "output_nanousd_per_mtok")


class PriceAmounts(TypedDict, total=False):
    """What a version says; see `PriceVersion`."""

    input_nanousd_per_mtok: int | None
    output_nanousd_per_mtok: int | None
    cached_input_nanousd_per_mtok: int | None
    reasoning_output_nanousd_per_mtok: int | None
    embedding_input_nanousd_per_mtok: int | None
    request_nanousd: int | None
    customer_input_nanousd_per_mtok: int | None
    customer_output_nanousd_per_mtok: int | None


def create_price(
    actor: Actor,
    *,
    model: CatalogueModel,
    pool: Pool | None = None,
    effective_from: datetime | None = None,
    is_confirmed: bool = False,
    **amounts: Unpack[PriceAmounts],
) -> Price:
    """Give a model its price, or one of its own in a pool; from now on unless told otherwise.

    In nano-USD for a million tokens; 0 is free. Raises Invalid: also of a price above a dollar a
    token, unless it `is_confirmed`.
    """
    _require_both(amounts)
    with configuration_edit():
        price = _place(model, pool)
        version = add_version(actor, price, effective_from, amounts, is_confirmed=is_confirmed)
        after = {**edits.values_of(price), **told(version)}
        edits.conclude(actor, "create", "prices", price, after=after, subject_id=version.pk)
    return price


def update_price(
    actor: Actor,
    *,
    price_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Price:
    """Add a version: the one in force at `effective_from` (now), with what is named changed.

    Raises Invalid, NotFound or VersionMismatch. What says the same as before adds nothing.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        price = lock_price(price_id, expected_version)
        begins = changes.get("effective_from")
        amounts = {name: changes[name] for name in AMOUNTS if name in changes}
        revise(actor, price, begins, amounts, is_confirmed=bool(changes.get("is_confirmed")))
    return price


def revise(
    actor: Actor,
    price: Price,
    begins: datetime | None,
    amounts: Mapping[str, int | None],
    *,
    is_confirmed: bool,
) -> PriceVersion | None:
    """The same of a price that is locked, inside an edit; None if nothing differs."""
    base = price.at(begins or timezone.now())
    before = dict.fromkeys(AMOUNTS) if base is None else base.amounts
    changed = {name: value for name, value in amounts.items() if value != before[name]}
    if not changed:
        if begins is not None and (base is None or begins != base.effective_from):
            raise Invalid.field("effective_from", "Nothing differs from what is in force then.")
        return None
    if base is None or not base.is_priced:
        _require_both({**before, **amounts})
    version = add_version(actor, price, begins, {**before, **amounts}, is_confirmed=is_confirmed)
    old = {name: before[name] for name in changed}
    if base is not None:
        old |= {"effective_from": base.effective_from, "version_id": base.pk}
    new = {**changed, "effective_from": version.effective_from, "version_id": version.pk}
    edits.conclude(actor, "update", "prices", price, before=old, after=new, subject_id=version.pk)
    return version


def delete_price(actor: Actor, *, price_id: str, expected_version: int | None = None) -> None:
    """Make the price unknown again, which is not the same as free; a pool's, as its model's is.

    Its versions stay for what was booked at them; those that haven't begun are dropped.
    """
    with configuration_edit():
        price = lock_price(price_id, expected_version)
        current = price.current
        before = edits.values_of(price) | ({} if current is None else told(current))
        end_price(price)
        edits.conclude(actor, "delete", "prices", price, before=before)


def end_price(price: Price) -> None:
    """Take a locked price out of the book, inside an edit."""
    now = timezone.now()
    price.versions.filter(effective_from__gt=now).delete()
    if (current := price.at(now)) is not None and current.is_priced:
        rows.insert(
            PriceVersion(organisation_id=price.organisation_id, price=price, effective_from=now)
        )
    rows.change(price, {"removed_at": now})


def drop_version(
    actor: Actor, *, price_id: str, version_id: str, expected_version: int | None = None
) -> Price:
    """Take back a version that hasn't begun; raises Invalid for one that has: it may be used."""
    with configuration_edit():
        price = lock_price(price_id, expected_version)
        version = price.versions.filter(pk=version_id).first()
        if version is None:
            raise NotFound
        if version.effective_from <= timezone.now():
            raise Invalid("The version is in force or was: add another instead.")
        before = told(version)
        rows.remove(version)
        rows.change(price, {}, touch=True)
        edits.conclude(actor, "drop_version", "prices", price, before=before)
    return price


def lock_price(price_id: str, expected_version: int | None = None) -> Price:
    """Lock a price that is in the book, or raise NotFound or VersionMismatch."""
    price = rows.lock(Price, price_id, expected_version=expected_version)
    if price.removed_at is not None:
        raise NotFound
    return price


def add_version(
    actor: Actor,
    price: Price,
    begins: datetime | None,
    amounts: Mapping[str, int | None],
    *,
    is_confirmed: bool,
) -> PriceVersion:
    """Write a version and touch its price, inside an edit; raises Invalid."""
    slips = {} if is_confirmed else unusual(amounts)
    if slips:
        fields = {name: [why] for name, why in slips.items()}
        raise Invalid("A price is unusually high. Say `is_confirmed` to mean it.", fields=fields)
    missing = incomplete(amounts)
    if missing is not None:
        raise Invalid.field(missing, "A price is of input and output, or of neither.")
    version = rows.insert(
        PriceVersion(
            organisation_id=price.organisation_id,
            price=price,
            effective_from=begins or timezone.now(),
            created_by=actor.label,
            **amounts,
        )
    )
    rows.change(price, {}, touch=True)
    return version


def told(version: PriceVersion) -> dict[str, Any]:
    """A version as the audit trail tells it."""
    says = {name: value for name, value in version.amounts.items() if value is not None}
    return {"version_id": version.pk, "effective_from": version.effective_from, **says}


def _place(model: CatalogueModel, pool: Pool | None) -> Price:
    """The model's place in the book, made or taken again; raises Invalid where one is in use."""
    price = Price.objects.filter(model=model, pool=pool).first()
    if price is None:
        place = Price(organisation_id=model.organisation_id, model=model, pool=pool)
        return rows.insert(place)
    if price.removed_at is None:
        raise Invalid.field("model", "The model has a price already.")
    rows.change(price, {"removed_at": None})
    return price


def _require_both(amounts: Mapping[str, Any]) -> None:
    missing = [name for name in _SIDES if amounts.get(name) is None]
    if missing:
        raise Invalid("A price is missing.", fields={one: ["Give a price."] for one in missing})
