"""The lines of a request's cost agree with what the ledger booked, to the nano-dollar."""

from decimal import Decimal

import pytest

from controlplane.console.request_facts import PriceLine, price_lines
from controlplane.models import Charge
from inference.contract.events import PriceUsed, Usage
from inference.decisions.cost import cost_of


def charge(usage: Usage, price: PriceUsed) -> Charge:
    return Charge(
        attempt=1,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        input_nanousd_per_mtok=price.input_nanousd_per_mtok,
        output_nanousd_per_mtok=price.output_nanousd_per_mtok,
        cached_input_nanousd_per_mtok=price.cached_input_nanousd_per_mtok,
        cost_nanousd=cost_of(usage, price),
    )


def nanousd(line: PriceLine) -> int:
    return int(Decimal(line.cost.removeprefix("$").replace(",", "")).scaleb(9))


@pytest.mark.parametrize(
    ("usage", "price", "costs"),
    [
        (Usage(1, 0), PriceUsed("prc_1", 500_000, 0), [1, 0]),
        (Usage(1, 1), PriceUsed("prc_1", 500_000, 500_000), [1, 0]),
        (Usage(3, 1, 1), PriceUsed("prc_1", 250_000, 500_000, 400_000), [1, 0, 0]),
        (
            Usage(2**31 - 1, 1),
            PriceUsed("prc_1", 10**13 + 1, 3),
            [21_474_836_470_002_147, 0],
        ),
    ],
    ids=["half up", "halves of two lines", "a part cached", "beyond what floats hold"],
)
def test_lines_add_up_to_what_was_booked(usage: Usage, price: PriceUsed, costs: list[int]) -> None:
    booked = charge(usage, price)
    shown = [nanousd(line) for line in price_lines([booked])]
    assert shown == costs
    assert sum(shown) == booked.cost_nanousd


def test_what_is_unknown_has_no_figure() -> None:
    lines = price_lines([charge(Usage(1_000_000, None), PriceUsed("prc_1", 5_000_000, 7))])
    assert [(line.kind, line.cost) for line in lines] == [
        ("Input", "$0.005"),
        ("Output", "\N{EN DASH}"),
    ]
