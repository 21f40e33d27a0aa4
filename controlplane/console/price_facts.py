"""A price and its versions in words, and what past traffic would cost at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.console.formats import NO_PRICE, UNKNOWN, dollars
from controlplane.decisions.prices import AMOUNTS, PER_REQUEST
from controlplane.models import Price, PriceVersion
from inference.contract.events import PriceUsed, Usage
from inference.decisions.cost import cost_of

LABELS: Mapping[str, str] = {
    "input_nanousd_per_mtok": "Input",
    "output_nanousd_per_mtok": "Output",
    "cached_input_nanousd_per_mtok": "Cached input",
    "reasoning_output_nanousd_per_mtok": "Reasoning output",
    "embedding_input_nanousd_per_mtok": "Embeddings input",
    "request_nanousd": "Request",
    "customer_input_nanousd_per_mtok": "Customer input",
    "customer_output_nanousd_per_mtok": "Customer output",
}
_UNSET: Mapping[str, str] = {
    "input_nanousd_per_mtok": NO_PRICE,
    "output_nanousd_per_mtok": NO_PRICE,
    "cached_input_nanousd_per_mtok": "as input",
    "reasoning_output_nanousd_per_mtok": "as output",
    "embedding_input_nanousd_per_mtok": "as input",
}


def title_of(row: Price) -> str:
    """What a price is of."""
    return row.model.name if row.pool is None else f"{row.model.name} in {row.pool.name}"


def label_of(name: str) -> str:
    return LABELS[name]


def unit_of(name: str) -> str:
    return "a request" if name == PER_REQUEST else "per 1M tokens"


def amount_words(name: str, amount: int | None) -> str:
    """An amount, or what it means that there is none."""
    return _UNSET.get(name, UNKNOWN) if amount is None else dollars(amount)


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version: whether it is `ahead`, `current` or `past`, and what it changed."""

    version: PriceVersion
    state: str
    amounts: Sequence[str]
    difference: str


def version_lines(row: Price, now: datetime) -> Sequence[VersionLine]:
    """The versions of a price, the newest beginning first, each with what it changed."""
    versions = sorted(row.versions.all(), key=lambda one: one.effective_from)
    current = row.at(now)
    lines = []
    for place, one in enumerate(versions):
        before = versions[place - 1] if place else None
        state = "ahead" if one.effective_from > now else "past"
        lines.append(
            VersionLine(
                one,
                "current" if current is not None and one.pk == current.pk else state,
                [amount_words(name, one.amounts[name]) for name in AMOUNTS],
                difference(before, one),
            )
        )
    return lines[::-1]


def difference(before: PriceVersion | None, after: PriceVersion) -> str:
    """What a version says otherwise than the one before, in words."""
    if before is None:
        return "the first"
    if not after.is_priced:
        return "ended"
    changed = [name for name in AMOUNTS if before.amounts[name] != after.amounts[name]]
    return ", ".join(
        f"{LABELS[name]} {amount_words(name, before.amounts[name])} \N{RIGHTWARDS ARROW} "
        f"{amount_words(name, after.amounts[name])}"
        for name in changed
    )


def price_at(changes: Mapping[str, Any], row: Price | None) -> PriceUsed | None:
    """The price as it is with the changes; None if it is none."""
    found = {name: changes.get(name, getattr(row, name, None)) for name in AMOUNTS}
    into, out = found["input_nanousd_per_mtok"], found["output_nanousd_per_mtok"]
    if into is None or out is None:
        return None
    return PriceUsed(
        price_id="",
        input_nanousd_per_mtok=into,
        output_nanousd_per_mtok=out,
        cached_input_nanousd_per_mtok=found["cached_input_nanousd_per_mtok"],
        reasoning_output_nanousd_per_mtok=found["reasoning_output_nanousd_per_mtok"],
        request_nanousd=found[PER_REQUEST] or 0,
    )


def cost_of_many(usage: Usage, price: PriceUsed | None, *, requests: int) -> int | None:
    """What so many requests with these tokens in all cost; None without a price."""
    one = cost_of(usage, price)
    if one is None or price is None:
        return None
    return one + max(requests - 1, 0) * price.request_nanousd
