"""Versions of a price: which one is in force when, and what is taken for a slip of the unit."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from inference.contract.params import PRICE_FIELDS

CUSTOMER_FIELDS = ("customer_input_nanousd_per_mtok", "customer_output_nanousd_per_mtok")
"""What customers are asked for the same tokens; no gateway's business."""

AMOUNTS = (*PRICE_FIELDS, *CUSTOMER_FIELDS)
"""What a version says, in the order in which it is told."""

PER_REQUEST = "request_nanousd"

MOST_USUAL_PER_MTOK = 10**15
"""A dollar a token: hundreds of times the dearest price ever listed."""
MOST_USUAL_PER_REQUEST = 10**11
"""A hundred dollars a request."""

Amounts = Mapping[str, int | None]


class Timed(Protocol):
    """What is in force from a moment on."""

    @property
    def effective_from(self) -> datetime: ...


T = TypeVar("T", bound=Timed)


def in_force(versions: Iterable[T], at: datetime) -> T | None:
    """The newest of those that have begun; None before the first."""
    begun = [one for one in versions if one.effective_from <= at]
    return max(begun, key=_begin, default=None)


def upcoming(versions: Iterable[T], at: datetime) -> list[T]:
    """Those that begin later, the next one first."""
    return sorted((one for one in versions if one.effective_from > at), key=_begin)


def ahead(versions: Iterable[T], at: datetime) -> list[T]:
    """The one in force and all that begin later: what gateways need to know from then on."""
    known = list(versions)
    current = in_force(known, at)
    return [*([] if current is None else [current]), *upcoming(known, at)]


def is_priced(amounts: Amounts) -> bool:
    """Whether these amounts are a price; without them it is unknown, which is never 0."""
    return amounts.get("input_nanousd_per_mtok") is not None


def incomplete(amounts: Amounts) -> str | None:
    """The field that is missing of a price of input and output; None if both are there, or none."""
    sides = ("input_nanousd_per_mtok", "output_nanousd_per_mtok")
    missing = [name for name in sides if amounts.get(name) is None]
    return missing[0] if len(missing) == 1 else None


def unusual(amounts: Amounts) -> Mapping[str, str]:
    """What is so dear that it's likely a slip of the unit: why, by field."""
    found = {}
    for name, amount in amounts.items():
        if amount is None or name not in AMOUNTS:
            continue
        if name == PER_REQUEST and amount > MOST_USUAL_PER_REQUEST:
            found[name] = "Above $100 a request: it must be confirmed."
        elif name != PER_REQUEST and amount > MOST_USUAL_PER_MTOK:
            found[name] = "Above a dollar a token: it must be confirmed."
    return found


def _begin(one: Timed) -> datetime:
    return one.effective_from
