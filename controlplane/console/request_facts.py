"""What the page of one request says beside its rows. Pure: rows in, words out."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.console.formats import (
    NO_PRICE,
    UNKNOWN,
    cost,
    count,
    decimals_of,
    dollars,
    milliseconds,
    share,
    tokens,
)
from controlplane.console.tables.requests import cost_words, total_ms
from controlplane.models import Charge, Request
from inference.contract.events import PriceUsed, Usage
from inference.contract.kinds import ChargeKind
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


def rule_words(request: Request, name: str | None) -> str:
    """The rule that decided, "" if none did; one that is gone goes by its id."""
    return "" if request.rule_id is None else name or f"{request.rule_id} (gone since)"


def at_most(request: Request, decimals: int = 2) -> str:
    """The most a request can have cost, where that is more than what is booked; else nothing."""
    booked, most = request.cost_nanousd, request.cost_max_nanousd
    return "" if booked is None or most is None or most <= booked else dollars(most, decimals)


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


def decimals_in(charges: Sequence[Charge]) -> int:
    """How many digits after the point the costs of these attempts and their sum need."""
    amounts = [amount for one in charges for amount in (one.cost_nanousd, one.cost_max_nanousd)]
    totals = [sum(charge_total for charge_total in amounts if charge_total is not None)]
    lines = [_parts_of(one) for one in charges]
    return max(
        2, decimals_of([*amounts, *totals, *(part.nanousd for own in lines for part in own)])
    )


def price_lines(charges: Sequence[Charge]) -> list[PriceLine]:
    """How each attempt's cost is made up; a column's figures line up."""
    decimals = decimals_in(charges)
    prices = [
        price
        for one in charges
        for price in (
            one.input_nanousd_per_mtok,
            one.output_nanousd_per_mtok,
            one.cached_input_nanousd_per_mtok,
        )
    ]
    price_decimals = max(2, decimals_of(prices))
    return [line for charge in charges for line in _lines_of(charge, decimals, price_decimals)]


def closing_words(charges: Sequence[Charge]) -> str:
    """What the booked figure rests on."""
    unpriced = [one for one in charges if one.cost_nanousd is None]
    if len(unpriced) == len(charges):
        return "The model had no price, so nothing is booked."
    words = "From the engine's own closing usage."
    if any(one.kind != ChargeKind.FINAL for one in charges if one.cost_nanousd is not None):
        words = "An attempt ended without the engine's closing usage, so its lower bound is booked."
    return f"{words} Attempts without a price are not in it." if unpriced else words


def _lines_of(charge: Charge, decimals: int, price_decimals: int) -> list[PriceLine]:
    """One line a kind of token, or one that says that nothing was reported."""
    if charge.prompt_tokens is None and charge.completion_tokens is None:
        booked = cost(charge.cost_nanousd, charge.cost_max_nanousd, decimals)
        return [PriceLine(charge.attempt, "Not reported", UNKNOWN, UNKNOWN, booked)]
    return [
        PriceLine(
            attempt=charge.attempt,
            kind=part.kind,
            tokens=count(part.tokens),
            price=NO_PRICE if part.price is None else dollars(part.price, price_decimals),
            cost=UNKNOWN if part.nanousd is None else dollars(part.nanousd, decimals),
        )
        for part in _parts_of(charge)
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    kind: str
    tokens: int | None
    price: int | None
    nanousd: int | None


def _parts_of(charge: Charge) -> list[_Part]:
    """What each kind of token cost; it adds up to what the ledger has, which is rounded once."""
    prompt, completion = charge.prompt_tokens, charge.completion_tokens
    if prompt is None and completion is None:
        return []
    cached = min(charge.cached_tokens or 0, prompt or 0)
    input_price, cached_price = charge.input_nanousd_per_mtok, charge.cached_input_nanousd_per_mtok
    uncached = None if prompt is None else prompt - cached
    kinds = [("Input", uncached, input_price, Usage(uncached))]
    if cached:
        price = input_price if cached_price is None else cached_price
        kinds.append(("Input, cached", cached, price, Usage(prompt, cached_tokens=cached)))
    out, thought = charge.output_nanousd_per_mtok, charge.reasoning_output_nanousd_per_mtok
    reasoning = min(charge.reasoning_tokens or 0, completion or 0) if thought is not None else 0
    said = None if completion is None else completion - reasoning
    kinds.append(("Output", said, out, Usage(prompt, said, cached)))
    if reasoning:
        whole = Usage(prompt, completion, cached, reasoning)
        kinds.append(("Output, reasoning", reasoning, thought, whole))
    parts, before = [], charge.request_nanousd or 0
    if charge.request_nanousd:
        parts.append(_Part("Request", 1, charge.request_nanousd, charge.request_nanousd))
    for kind, amount, price, so_far in kinds:
        total = cost_of(so_far, _price_of(charge)) or 0
        is_known = amount is not None and price is not None
        parts.append(_Part(kind, amount, price, total - before if is_known else None))
        before = total
    return parts


def _price_of(charge: Charge) -> PriceUsed | None:
    if charge.input_nanousd_per_mtok is None or charge.output_nanousd_per_mtok is None:
        return None
    return PriceUsed(
        price_id=charge.price_id or "",
        input_nanousd_per_mtok=charge.input_nanousd_per_mtok,
        output_nanousd_per_mtok=charge.output_nanousd_per_mtok,
        cached_input_nanousd_per_mtok=charge.cached_input_nanousd_per_mtok,
        reasoning_output_nanousd_per_mtok=charge.reasoning_output_nanousd_per_mtok,
        request_nanousd=charge.request_nanousd or 0,
    )
