"""What requests may cost and did cost, to the nano-USD."""

from dataclasses import replace

import pytest

from inference.contract.events import PriceUsed, Usage
from inference.contract.kinds import Endpoint
from inference.contract.snapshot import PriceRecord
from inference.decisions.cost import (
    MAX_NANOUSD,
    MAX_TOKENS,
    bound_output_tokens,
    bound_prompt_tokens,
    cost_at_most,
    cost_of,
    is_complete,
    merge_usage,
    price_used,
    usage_from,
)

DOLLAR = 10**9
PER_THOUSAND = 1000 * DOLLAR  # $1 a thousand tokens, as nano-USD a million tokens
PRICE = PriceUsed("prc", PER_THOUSAND, 2 * PER_THOUSAND, PER_THOUSAND // 10)
UNCACHED = PriceUsed("prc", PER_THOUSAND, 2 * PER_THOUSAND)


def test_ten_in_and_five_out_cost_two_cents() -> None:
    assert cost_of(Usage(10, 5), UNCACHED) == 20_000_000


@pytest.mark.parametrize(
    ("cached", "cost"),
    [
        (900, 210_000_000),
        (0, 1_020_000_000),
        (None, 1_020_000_000),
        (1_000, 120_000_000),
        (5_000, 120_000_000),  # more than the prompt is cut to it
    ],
)
def test_cached_tokens_cost_their_own_price_once(cached: int | None, cost: int) -> None:
    assert cost_of(Usage(1_000, 10, cached), PRICE) == cost


def test_without_a_cached_price_cached_tokens_cost_what_others_do() -> None:
    assert cost_of(Usage(1_000, 0, 900), UNCACHED) == 1_000_000_000


def test_reasoning_tokens_are_part_of_the_completion() -> None:
    assert cost_of(Usage(0, 10, 0, 8), UNCACHED) == cost_of(Usage(0, 10), UNCACHED) == 20_000_000


def test_zero_usage_costs_zero_and_no_price_costs_nobody_knows_what() -> None:
    assert cost_of(Usage(0, 0), PRICE) == 0
    assert cost_of(Usage(10, 5), None) is None
    assert cost_of(Usage(10, 5), PriceUsed("prc", 0, 0)) == 0


@pytest.mark.parametrize(
    ("tokens", "price", "cost"),
    [(1, 499_999, 0), (1, 500_000, 1), (1, 1_499_999, 1), (3, 500_000, 2), (1, 1_500_000, 2)],
)
def test_halves_are_rounded_up_and_only_the_sum_is_rounded(
    tokens: int, price: int, cost: int
) -> None:
    assert cost_of(Usage(tokens, 0), PriceUsed("prc", price, 0)) == cost


def test_the_parts_of_a_cost_are_added_before_they_are_rounded() -> None:
    assert cost_of(Usage(1, 1), PriceUsed("prc", 400_000, 400_000)) == 1


def test_tokens_that_were_not_said_add_nothing() -> None:
    assert cost_of(Usage(prompt_tokens=10), UNCACHED) == 10_000_000
    assert cost_of(Usage(completion_tokens=5), UNCACHED) == 10_000_000


def test_costs_and_tokens_fit_the_ledgers_columns() -> None:
    assert cost_of(Usage(MAX_TOKENS, MAX_TOKENS), PriceUsed("prc", 10**18, 10**18)) == MAX_NANOUSD
    assert bound_output_tokens(10**30, answers=10**9, default_tokens=1) == MAX_TOKENS
    assert usage_from({"prompt_tokens": 10**30}).prompt_tokens == MAX_TOKENS


def test_a_prompts_bound_is_its_bytes_and_its_templates() -> None:
    assert bound_prompt_tokens(body_bytes=100, messages=3) == 148


@pytest.mark.parametrize(
    ("requested", "answers", "tokens"),
    [(None, 1, 4096), (None, 3, 12_288), (7, 1, 7), (7, 2, 14), (0, 5, 0), (-3, 1, 0), (7, 0, 0)],
)
def test_an_outputs_bound_is_what_was_asked_times_the_answers(
    requested: int | None, answers: int, tokens: int
) -> None:
    assert bound_output_tokens(requested, answers=answers, default_tokens=4096) == tokens


def test_the_most_a_request_can_cost_takes_the_dearer_prompt_price() -> None:
    assert cost_at_most(10, 5, UNCACHED) == 20_000_000
    assert cost_at_most(10, 5, PriceUsed("prc", 10**12, 2 * 10**12, 3 * 10**12)) == 40_000_000
    assert cost_at_most(10, 5, None) is None


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1000, 10, 900, 4), 224_000_000),
        (Usage(1000, 10, 900, None), 220_000_000),
        (Usage(1000, 10, None, 40), 1_040_000_000),
        (Usage(1000, None, None, 4), 1_010_000_000),
        (Usage(None, None, 5, 5), 10_000_000),
    ],
    ids=["part", "not said", "more than the completion", "without a completion", "nothing else"],
)
def test_reasoning_is_part_of_the_completion_and_a_request_costs_its_own(
    usage: Usage, cost: int
) -> None:
    price = PriceUsed(
        "prc", PER_THOUSAND, 2 * PER_THOUSAND, PER_THOUSAND // 10, 3 * PER_THOUSAND, 10_000_000
    )
    assert cost_of(usage, price) == cost
    most = cost_at_most(usage.prompt_tokens or 0, usage.completion_tokens or 0, price)
    assert most is not None
    assert most >= (cost if usage.prompt_tokens else 0)


def test_reasoning_that_is_free_makes_no_cost_negative() -> None:
    price = PriceUsed("prc", 0, 2 * PER_THOUSAND, 0, 0)
    assert cost_of(Usage(10, 5, 99, 99), price) == 0


def test_a_price_is_kept_as_it_was() -> None:
    record = PriceRecord("prc", "org", "mdl", 1, 2, 3)
    assert price_used(record) == PriceUsed("prc", 1, 2, 3)
    assert price_used(None) is None


def test_embeddings_have_an_input_of_their_own_and_an_end_is_no_price() -> None:
    record = PriceRecord("prc", "org", "mdl", 1, 2, embedding_input_nanousd_per_mtok=7)
    used = price_used(record, Endpoint.EMBEDDINGS)
    assert used is not None
    assert used.input_nanousd_per_mtok == 7
    assert price_used(record, Endpoint.CHAT) == PriceUsed("prc", 1, 2)
    assert price_used(replace(record, embedding_input_nanousd_per_mtok=None)) is not None
    ended = replace(record, input_nanousd_per_mtok=None, output_nanousd_per_mtok=None)
    assert price_used(ended, Endpoint.EMBEDDINGS) is None


@pytest.mark.parametrize(
    ("member", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": None, "completion_tokens": 5}, Usage(None, 5)),
        ({"prompt_tokens": -1, "completion_tokens": 2.5}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": "5"}, Usage()),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, None, 4)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, Usage(9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}, Usage(9)),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 3}},
            Usage(None, 9, None, 3),
        ),
        ({}, Usage()),
    ],
)
def test_a_usage_is_read_without_taking_nothing_for_zero(
    member: dict[str, object], usage: Usage
) -> None:
    assert usage_from(member) == usage


def test_parts_of_a_usage_are_put_together() -> None:
    prompt, completion = Usage(prompt_tokens=10), Usage(completion_tokens=5)
    assert merge_usage(prompt, completion) == Usage(10, 5)
    assert merge_usage(Usage(10, 3), Usage(completion_tokens=5)) == Usage(10, 5)
    assert not is_complete(prompt)
    assert is_complete(merge_usage(prompt, Usage(completion_tokens=0)))
