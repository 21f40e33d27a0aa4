"""What each endpoint's usage says in the words of the ledger."""

from collections.abc import Mapping

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint
from inference.decisions.cost import MAX_TOKENS, tokens_not_generated
from inference.decisions.endpoints import COUNTING, READING
from inference.decisions.usage import at_least, usage_of


@pytest.mark.parametrize(
    ("endpoint", "member", "usage"),
    [
        (Endpoint.CHAT, {"prompt_tokens": 1, "completion_tokens": 2}, Usage(1, 2)),
        (
            Endpoint.RESPONSES,
            {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 3},
                "total_tokens": 15,
            },
            Usage(10, 5, 4, 3),
        ),
        (Endpoint.RESPONSES, {"input_tokens": 0, "output_tokens": 0}, Usage(0, 0)),
        (Endpoint.RESPONSES, {"input_tokens": None, "output_tokens": True}, Usage()),
        (Endpoint.MESSAGES, {"input_tokens": 10, "output_tokens": 5}, Usage(10, 5)),
        (
            Endpoint.MESSAGES,
            {
                "input_tokens": 2,
                "cache_read_input_tokens": 80,
                "cache_creation_input_tokens": 18,
                "output_tokens": 5,
            },
            Usage(100, 5, 80),
        ),
        (Endpoint.MESSAGES, {"input_tokens": 0, "cache_read_input_tokens": 0}, Usage(0, None, 0)),
        (Endpoint.MESSAGES, {"output_tokens": 5, "cache_read_input_tokens": 7}, Usage(None, 5, 7)),
        (
            Endpoint.MESSAGES,
            {"input_tokens": MAX_TOKENS, "cache_read_input_tokens": 7},
            Usage(MAX_TOKENS, None, 7),
        ),
        (Endpoint.RERANK, {"total_tokens": 20}, Usage(20, 0)),
        (Endpoint.RERANK, {"prompt_tokens": 18, "total_tokens": 20}, Usage(18, 0)),
        (Endpoint.SCORE, {"prompt_tokens": 7, "completion_tokens": 9}, Usage(7, 0)),
        (Endpoint.EMBEDDINGS, {}, Usage(None, 0)),
    ],
)
def test_a_usage_is_read_in_its_endpoints_words(
    endpoint: Endpoint, member: Mapping[str, object], usage: Usage
) -> None:
    assert usage_of(endpoint, member) == usage


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize("member", [None, [], "x", 7])
def test_what_is_no_usage_is_none_unless_there_is_nothing_to_use(
    endpoint: Endpoint, member: object
) -> None:
    nothing = Usage(0, 0) if endpoint in COUNTING else None
    assert usage_of(endpoint, member) == nothing


@pytest.mark.parametrize("endpoint", sorted(READING))
def test_what_only_reads_has_no_output(endpoint: Endpoint) -> None:
    usage = usage_of(endpoint, {"prompt_tokens": 3})
    assert usage == Usage(3, 0)


@pytest.mark.parametrize(
    ("usage", "pieces", "least"),
    [
        (None, 0, None),
        (None, 3, Usage(None, 3)),
        (Usage(10, 0), 3, Usage(10, 3)),
        (Usage(10, None, 4, 1), 3, Usage(10, 3, 4, 1)),
        (Usage(10, 5), 3, Usage(10, 5)),
        (Usage(10, 0), 0, Usage(10, 0)),
    ],
)
def test_each_piece_of_an_answer_was_a_token_at_least(
    usage: Usage | None, pieces: int, least: Usage | None
) -> None:
    assert at_least(usage, pieces=pieces) == least


@pytest.mark.parametrize(
    ("usage", "requested", "most", "spared"),
    [
        (Usage(10, 30), 100, 100, 70),
        (Usage(10, None), 100, 100, 100),
        (Usage(), 100, 200, 200),
        (Usage(10, 130), 100, 100, 0),
        (Usage(10, 30), None, 4096, None),
        (Usage(10, 0), 0, 0, 0),
    ],
)
def test_what_was_not_generated_is_known_only_of_those_who_named_a_maximum(
    usage: Usage, requested: int | None, most: int, spared: int | None
) -> None:
    found = tokens_not_generated(usage, output_tokens_requested=requested, output_tokens_max=most)
    assert found == spared
