"""What the page of one request says beside its rows. Pure: rows in, words out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.console.formats import (
    NO_PRICE,
    UNKNOWN,
    cost,
    count,
    dollars,
    milliseconds,
    share,
    tokens,
)
from controlplane.console.tables.requests import cost_words, total_ms
from controlplane.models import Charge, Request
from inference.contract.events import PriceUsed, Usage
from inference.decisions.cost import cost_of


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of the strip."""

    label: str
    figure: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One kind of token of one attempt: how many, at what price, for how much."""

    attempt: int
    kind: str
    tokens: str
    price: str
    cost: str


def facts_of(request: Request, charges: Sequence[Charge]) -> list[Fact]:
    """The strip under the title."""
    cached = share(request.cached_tokens, request.prompt_tokens)
    return [
        Fact("Total", *milliseconds(total_ms(request))),
        Fact("First token", *milliseconds(request.first_token_ms)),
        Fact("Per output token", *milliseconds(_per_token_ms(charges))),
        Fact("Tokens in / out", tokens(request.prompt_tokens, request.completion_tokens)),
        Fact("Prefix cache", cached, "" if cached == UNKNOWN else "% of input"),
        _cost_fact(request),
    ]


def at_most(request: Request) -> str:
    """The most a request can have cost, where that is more than what is booked; else nothing."""
    booked, most = request.cost_nanousd, request.cost_max_nanousd
    return "" if booked is None or most is None or most <= booked else dollars(most)


def _cost_fact(request: Request) -> Fact:
    most = at_most(request)
    if request.cost_nanousd is None or not most:
        return Fact("Cost", cost_words(request))
    return Fact("Cost", dollars(request.cost_nanousd), f"at most {most}")


def _per_token_ms(charges: Sequence[Charge]) -> float | None:
    """Mean time between the last attempt's tokens; None for fewer than two or unknown ones."""
    if not charges:
        return None
    last = charges[-1]
    if last.first_token_ms is None or last.completion_tokens is None or last.completion_tokens < 2:
        return None
    return float(max(0.0, last.duration_ms - last.first_token_ms) / (last.completion_tokens - 1))


def price_lines(charges: Iterable[Charge]) -> list[PriceLine]:
    """How each attempt's cost is made up."""
    return [line for charge in charges for line in _lines_of(charge)]


def _lines_of(charge: Charge) -> list[PriceLine]:
    """One line a kind; what they cost adds up to what the ledger has, which is rounded once."""
    prompt, completion = charge.prompt_tokens, charge.completion_tokens
    if prompt is None and completion is None:
        booked = cost(charge.cost_nanousd, charge.cost_max_nanousd)
        return [PriceLine(charge.attempt, "Not reported", UNKNOWN, UNKNOWN, booked)]
    cached = min(charge.cached_tokens or 0, prompt or 0)
    input_price, cached_price = charge.input_nanousd_per_mtok, charge.cached_input_nanousd_per_mtok
    uncached = None if prompt is None else prompt - cached
    parts = [("Input", uncached, input_price, Usage(uncached))]
    if cached:
        price = input_price if cached_price is None else cached_price
        parts.append(("Input, cached", cached, price, Usage(prompt, cached_tokens=cached)))
    whole = Usage(prompt, completion, cached)
    parts.append(("Output", completion, charge.output_nanousd_per_mtok, whole))
    lines, before = [], 0
    for kind, amount, price, so_far in parts:
        total = cost_of(so_far, _price_of(charge)) or 0
        lines.append(_line(charge.attempt, kind, amount, price, total - before))
        before = total
    return lines


def _price_of(charge: Charge) -> PriceUsed | None:
    if charge.input_nanousd_per_mtok is None or charge.output_nanousd_per_mtok is None:
        return None
    return PriceUsed(
        price_id=charge.price_id or "",
        input_nanousd_per_mtok=charge.input_nanousd_per_mtok,
        output_nanousd_per_mtok=charge.output_nanousd_per_mtok,
        cached_input_nanousd_per_mtok=charge.cached_input_nanousd_per_mtok,
    )


def _line(
    attempt: int, kind: str, amount: int | None, price: int | None, nanousd: int
) -> PriceLine:
    amount_cost = UNKNOWN if amount is None or price is None else dollars(nanousd)
    price_words = NO_PRICE if price is None else dollars(price)
    return PriceLine(attempt, kind, count(amount), price_words, amount_cost)
