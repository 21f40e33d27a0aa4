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

_TOKENS_PER_PRICE = 1_000_000


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
    prompt, completion, cached = (
        charge.prompt_tokens,
        charge.completion_tokens,
        charge.cached_tokens,
    )
    if prompt is None and completion is None:
        booked = cost(charge.cost_nanousd, charge.cost_max_nanousd)
        return [PriceLine(charge.attempt, "Not reported", UNKNOWN, UNKNOWN, booked)]
    input_price, output_price = charge.input_nanousd_per_mtok, charge.output_nanousd_per_mtok
    cached_price = charge.cached_input_nanousd_per_mtok
    if cached_price is None:
        cached_price = input_price
    parts = [("Input", prompt, input_price), ("Output", completion, output_price)]
    if prompt is not None and cached:
        cached = min(cached, prompt)
        parts[0] = ("Input", prompt - cached, input_price)
        parts.insert(1, ("Input, cached", cached, cached_price))
    return [_line(charge.attempt, *part) for part in parts]


def _line(attempt: int, kind: str, amount: int | None, price: int | None) -> PriceLine:
    amount_cost = UNKNOWN
    if amount is not None and price is not None:
        amount_cost = dollars(round(amount * price / _TOKENS_PER_PRICE))
    price_words = NO_PRICE if price is None else dollars(price)
    return PriceLine(attempt, kind, count(amount), price_words, amount_cost)
