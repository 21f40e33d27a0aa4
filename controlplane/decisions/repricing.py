"""Pricing booked attempts anew: what each costs at the book as it is, and the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from controlplane.decisions.prices import Timed, in_force
from inference.contract.events import PriceUsed, Usage
from inference.contract.kinds import ChargeKind, Endpoint
from inference.decisions.cost import MAX_NANOUSD, cost_of


class Version(Timed, Protocol):
    """A version of a price, as far as it is needed here."""

    @property
    def pk(self) -> str: ...
    @property
    def amounts(self) -> Mapping[str, int | None]: ...


Place = tuple[str, str | None]
"""A model, and a pool or None for any."""

Book = Mapping[Place, Sequence[Version]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt as it stands in the ledger, with what was corrected of it since.

    `booked` None had no price; then `corrected` says what it costs if `is_known` since.
    """

    event_id: str
    attempt: int
    pool_id: str
    model_id: str
    endpoint: Endpoint
    kind: ChargeKind
    usage: Usage
    error_code: str | None
    received_at: datetime
    booked: int | None
    corrected: int = 0
    is_known: bool = True

    @property
    def cost(self) -> int | None:
        """What it costs as everything stands; None is not known."""
        if self.booked is None and not self.is_known:
            return None
        return (self.booked or 0) + self.corrected


@dataclass(frozen=True, slots=True)
class Repriced:
    """What an attempt costs at the book; `version_id` None has no price there, so nothing moves."""

    attempt: Attempt
    version_id: str | None
    cost: int | None

    @property
    def delta(self) -> int:
        """What must be added to what is booked."""
        return 0 if self.cost is None else self.cost - (self.attempt.cost or 0)

    @property
    def is_change(self) -> bool:
        return self.cost is not None and self.cost != self.attempt.cost


def price_in(book: Book, attempt: Attempt) -> tuple[str, PriceUsed] | None:
    """The version in force when the request came, and its price; the pool's own goes first."""
    for place in ((attempt.model_id, attempt.pool_id), (attempt.model_id, None)):
        version = in_force(book.get(place, ()), attempt.received_at)
        if version is None:
            continue
        price = used_of(version, attempt.endpoint)
        if price is not None:
            return version.pk, price
    return None


def used_of(version: Version, endpoint: Endpoint) -> PriceUsed | None:
    """A version as a charge keeps it; None of one that ends the price."""
    amounts = version.amounts
    into, out = amounts["input_nanousd_per_mtok"], amounts["output_nanousd_per_mtok"]
    if into is None or out is None:
        return None
    own = amounts["embedding_input_nanousd_per_mtok"]
    if endpoint is Endpoint.EMBEDDINGS and own is not None:
        into = own
    return PriceUsed(
        version.pk,
        into,
        out,
        amounts["cached_input_nanousd_per_mtok"],
        amounts["reasoning_output_nanousd_per_mtok"],
        amounts["request_nanousd"] or 0,
    )


def reprice(book: Book, attempt: Attempt) -> Repriced:
    """What an attempt costs at the book, as a gateway would have booked it."""
    found = price_in(book, attempt)
    if found is None:
        return Repriced(attempt, None, None)
    version_id, price = found
    if attempt.kind is ChargeKind.ESTIMATED:
        cost = price.request_nanousd if attempt.error_code is None else 0
    else:
        cost = cost_of(attempt.usage, price) or 0
    return Repriced(attempt, version_id, cost)


@dataclass(slots=True)
class Side:
    """Sums of one team or model: known costs before and after, and attempts of unknown cost."""

    before_nanousd: int = 0
    after_nanousd: int = 0
    attempts: int = 0
    changed: int = 0
    unknown_before: int = 0
    unknown_after: int = 0

    def add(self, one: Repriced) -> None:
        """Count an attempt; without a price in the book it keeps what it has."""
        before = one.attempt.cost
        after = before if one.cost is None else one.cost
        self.before_nanousd = min(self.before_nanousd + (before or 0), MAX_NANOUSD)
        self.after_nanousd = min(self.after_nanousd + (after or 0), MAX_NANOUSD)
        self.attempts += 1
        self.changed += one.is_change
        self.unknown_before += before is None
        self.unknown_after += after is None


@dataclass(slots=True)
class Sums:
    """What a repricing comes to, by team and by model."""

    total: Side = field(default_factory=Side)
    by_team: dict[str, Side] = field(default_factory=dict)
    by_model: dict[str, Side] = field(default_factory=dict)

    def add(self, team_id: str, one: Repriced) -> None:
        self.total.add(one)
        self.by_team.setdefault(team_id, Side()).add(one)
        self.by_model.setdefault(one.attempt.model_id, Side()).add(one)


def becomes_known(priced: Sequence[Repriced]) -> bool:
    """Whether the cost of a request becomes known by what its attempts cost now."""
    was_known = all(one.attempt.cost is not None for one in priced)
    is_known = all(one.cost is not None or one.attempt.cost is not None for one in priced)
    return is_known and not was_known
