"""Bodies of responses, messages, rerank and score: their bounds, what is refused or replaced."""

import json

import pytest

from inference.contract.kinds import Endpoint
from inference.errors import InvalidRequest
from inference.gateway.schemas import InferenceRequest, parse_request, upstream_body

OPTIONS = {"include_usage": b"true", "continuous_usage_stats": b"true"}
MESSAGES = [{"role": "user", "content": "a"}]


def parsed(endpoint: Endpoint, **fields: object) -> InferenceRequest:
    return parse_request(endpoint, json.dumps({"model": "m", **fields}).encode())


def sent(request: InferenceRequest) -> dict[str, object]:
    body = upstream_body(request, served_model="served", usage_options=OPTIONS)
    found: dict[str, object] = json.loads(body)
    return found


def refusal(endpoint: Endpoint, **fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(endpoint, **fields)
    return caught.value


@pytest.mark.parametrize("store", [{}, {"store": True}, {"store": None}, {"store": False}])
def test_no_worker_is_asked_to_store_a_response(store: dict[str, object]) -> None:
    request = parsed(Endpoint.RESPONSES, input="a", x_unknown={"a": [1, None]}, **store)
    assert sent(request) == {
        "model": "served",
        "input": "a",
        "x_unknown": {"a": [1, None]},
        "store": False,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", {"id": "conv_1"}),
        ("conversation", "conv_1"),
        ("background", True),
    ],
)
def test_what_would_need_a_stored_response_is_refused_by_name(name: str, value: object) -> None:
    error = refusal(Endpoint.RESPONSES, input="a", **{name: value})
    assert error.param == name
    assert f"`{name}` is not offered" in str(error)
    assert "not stored" in str(error)


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_what_is_null_asks_for_nothing(name: str) -> None:
    assert sent(parsed(Endpoint.RESPONSES, input="a", **{name: None}))[name] is None


@pytest.mark.parametrize("given", [None, False])
def test_what_is_not_to_run_in_the_background_is_said_in_a_way_that_engines_take(
    given: object,
) -> None:
    assert sent(parsed(Endpoint.RESPONSES, input="a", background=given))["background"] is False


@pytest.mark.parametrize("endpoint", [Endpoint.RESPONSES, Endpoint.MESSAGES])
def test_streams_that_tell_their_usage_unasked_are_asked_for_nothing(endpoint: Endpoint) -> None:
    fields = {"input": "a", "messages": MESSAGES, "stream": True}
    request = parsed(endpoint, **fields, stream_options={"include_obfuscation": False})
    assert request.is_stream
    assert sent(request)["stream_options"] == {"include_obfuscation": False}
    assert "stream_options" not in sent(parsed(endpoint, **fields))


@pytest.mark.parametrize(
    ("endpoint", "fields", "param"),
    [
        (Endpoint.RESPONSES, {}, "input"),
        (Endpoint.RESPONSES, {"input": 7}, "input"),
        (Endpoint.RESPONSES, {"input": "a", "store": "no"}, "store"),
        (Endpoint.RESPONSES, {"input": "a", "stream": 1}, "stream"),
        (Endpoint.RESPONSES, {"input": "a", "max_output_tokens": "x"}, "max_output_tokens"),
        (Endpoint.MESSAGES, {}, "messages"),
        (Endpoint.MESSAGES, {"messages": "a"}, "messages"),
        (Endpoint.MESSAGES, {"messages": MESSAGES, "max_tokens": 1.5}, "max_tokens"),
        (Endpoint.COUNT_TOKENS, {"messages": {}}, "messages"),
        (Endpoint.RERANK, {"documents": ["a"]}, "query"),
        (Endpoint.RERANK, {"query": "a"}, "documents"),
        (Endpoint.RERANK, {"query": "a", "documents": "b"}, "documents"),
        (Endpoint.SCORE, {"text_1": "a"}, "text_1"),
        (Endpoint.SCORE, {"queries": "a", "text_2": "b"}, "text_1"),
    ],
)
def test_what_bounds_a_request_must_be_readable(
    endpoint: Endpoint, fields: dict[str, object], param: str
) -> None:
    assert refusal(endpoint, **fields).param == param


@pytest.mark.parametrize(
    ("endpoint", "fields", "requested"),
    [
        (Endpoint.RESPONSES, {"input": [], "max_output_tokens": 9}, 9),
        (Endpoint.RESPONSES, {"input": "a"}, None),
        (Endpoint.MESSAGES, {"messages": MESSAGES, "max_tokens": 9}, 9),
        (Endpoint.MESSAGES, {"messages": MESSAGES, "max_completion_tokens": 9}, None),
    ],
)
def test_an_endpoints_own_maximum_bounds_its_answer(
    endpoint: Endpoint, fields: dict[str, object], requested: int | None
) -> None:
    facts = parsed(endpoint, **fields).facts
    assert (facts.endpoint, facts.output_tokens_requested, facts.answers) == (
        endpoint,
        requested,
        1,
    )


@pytest.mark.parametrize(
    ("endpoint", "fields", "prompt"),
    [
        (Endpoint.RESPONSES, {"instructions": "be brief", "input": "a"}, b'"be brief""a"'),
        (Endpoint.RESPONSES, {"input": [1]}, b"[1]"),
        (Endpoint.MESSAGES, {"system": "s", "messages": []}, b'"s"[]'),
        (Endpoint.MESSAGES, {"messages": []}, b"[]"),
        (Endpoint.RERANK, {"query": "q", "documents": ["d"]}, b'"q"["d"]'),
        (Endpoint.SCORE, {"queries": "q", "items": "i"}, b'"q""i"'),
    ],
)
def test_a_prompt_is_all_that_the_model_is_given(
    endpoint: Endpoint, fields: dict[str, object], prompt: bytes
) -> None:
    request = parsed(endpoint, **fields)
    assert request.prompt_bytes == prompt


def test_pictures_of_either_kind_count_as_no_text() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD" * 100}
    content = [{"type": "image", "source": source}]
    message = parsed(Endpoint.MESSAGES, messages=[{"role": "user", "content": content}])
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "QUJD" * 100}
    response = parsed(Endpoint.RESPONSES, input=[{"role": "user", "content": [picture]}])
    assert message.media_bytes > 400
    assert response.media_bytes > 400


@pytest.mark.parametrize(
    ("fields", "pairs", "once"),
    [
        ({"text_1": "qq", "text_2": ["a", "b", "c"]}, 3, '["a", "b", "c"]'),
        ({"text_1": ["a", "b"], "text_2": ["c", "d"]}, 2, '["a", "b"]["c", "d"]'),
        ({"queries": "q", "documents": "d"}, 1, '"q""d"'),
        ({"data_1": "q", "data_2": []}, 1, '"q"'),
    ],
)
def test_a_lone_side_may_be_read_with_each_of_the_others(
    fields: dict[str, object], pairs: int, once: str
) -> None:
    facts = parsed(Endpoint.SCORE, **fields).facts
    whole = len(json.dumps({"model": "m", **fields}))
    assert facts.prompts == pairs
    assert facts.prompt_tokens_max == len(once) + pairs * (whole - len(once)) + 32 * pairs
    assert (facts.answers, facts.output_tokens_requested) == (0, None)
