"""Bodies: understood as little as needed, forwarded as they came."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import Endpoint
from inference.errors import InvalidRequest
from inference.gateway.schemas import parse_request, upstream_body

UNDERSTOOD = {
    *("model", "messages", "stream", "stream_options"),
    *("n", "max_tokens", "max_completion_tokens"),
}
VLLM_OPTIONS = {"include_usage": b"true", "continuous_usage_stats": b"true"}


def forwarded(body: bytes) -> bytes:
    return upstream_body(
        parse_request(Endpoint.CHAT, body), served_model="served", usage_options=VLLM_OPTIONS
    )


def refused(body: bytes, endpoint: Endpoint = Endpoint.CHAT) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_request(endpoint, body)
    return caught.value


@pytest.mark.parametrize(
    "members",
    [
        '"n":1e-7,"big":9007199254740993,"bigger":123456789012345678901234567890',
        '"temperature":0,"seed":0,"tools":[],"top_p":1.0,"x":-0,"y":1E400',
        '"x_unknown":{"a":[1,null]},"chat_template_kwargs":{"enable_thinking":false}',
        '"s":"\\u00e9\\ud83d\\ude00\\u0000","é":"é😀","a b":1,"":2,"\\"q":3',
        '"top_k":40,"min_p":0.1,"structured_outputs":{"json":{}},"priority":-1,"cache_salt":"s"',
        '"stream":false,"stream_options":{"include_usage":true}',
    ],
)
def test_everything_but_the_model_is_forwarded_byte_by_byte(members: str) -> None:
    members = members.replace('"n":1e-7', '"frequency_penalty":1e-7')
    body = f'{{"messages":[{{"role":"user","content":"a"}}],"model":"m",{members}}}'.encode()
    expected = body.replace(b'"model":"m"', b'"model":"served"')
    assert msgspec.json.decode(forwarded(body), type=dict[str, msgspec.Raw]) == msgspec.json.decode(
        expected, type=dict[str, msgspec.Raw]
    )
    for raw in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).values():
        assert bytes(raw) == b'"m"' or bytes(raw) in forwarded(body)


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda name: name not in UNDERSTOOD),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=6,
    )
)
def test_unknown_members_survive_whatever_they_are(members: dict[str, object]) -> None:
    sent = {"model": "m", "messages": [], **members}
    assert json.loads(forwarded(json.dumps(sent).encode())) == {**sent, "model": "served"}


def test_of_two_members_of_one_name_the_last_counts_for_everybody() -> None:
    request = parse_request(
        Endpoint.CHAT, b'{"model":"a","messages":[],"model":"b","stream":true,"stream":false}'
    )
    assert (request.model, request.is_stream) == ("b", False)
    sent = upstream_body(request, served_model="served", usage_options={})
    assert sent == b'{"model":"served","messages":[],"stream":false}'


@pytest.mark.parametrize(
    ("wished", "forwarded_options"),
    [
        ("", {"include_usage": True, "continuous_usage_stats": True}),
        (',"stream_options":null', {"include_usage": True, "continuous_usage_stats": True}),
        (
            ',"stream_options":{"include_usage":false,"x":[1]}',
            {"include_usage": True, "x": [1], "continuous_usage_stats": True},
        ),
    ],
)
def test_streams_ask_the_engine_for_usage_and_keep_the_callers_other_options(
    wished: str, forwarded_options: dict[str, object]
) -> None:
    body = f'{{"model":"m","messages":[],"stream":true{wished}}}'.encode()
    assert json.loads(forwarded(body))["stream_options"] == forwarded_options


@pytest.mark.parametrize(
    ("options", "shows"),
    [
        ("null", (False, False)),
        ("{}", (False, False)),
        ('{"include_usage":false}', (False, False)),
        ('{"include_usage":true}', (True, False)),
        ('{"include_usage":true,"continuous_usage_stats":true}', (True, True)),
    ],
)
def test_what_the_caller_sees_is_what_it_asked_for(options: str, shows: tuple[bool, bool]) -> None:
    request = parse_request(
        Endpoint.CHAT,
        f'{{"model":"m","messages":[],"stream":true,"stream_options":{options}}}'.encode(),
    )
    assert (request.shows_usage, request.shows_continuous_usage) == shows


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model":"m"',
        b"[]",
        b"null",
        b'"x"',
        b'{"model":"m","messages":[NaN]}',
        b'{"model":"m","messages":[],"x":"\xff"}',
        b'{"model":"m","messages":[],"x":"\xed\xa0\xbd"}',
        b'{"model":"m","messages":[],"x":"\\ud83d"}',
        b'{"model":"m","messages":[],"\\ud83d":1}',
        b'{"model":"m","messages":[]}x',
        b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}",
    ],
)
def test_what_is_no_json_object_is_refused_without_a_field(body: bytes) -> None:
    assert refused(body).param is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ('{"messages":[]}', "model"),
        ('{"model":"","messages":[]}', "model"),
        ('{"model":null,"messages":[]}', "model"),
        ('{"model":["m"],"messages":[]}', "model"),
        ('{"model":"m"}', "messages"),
        ('{"model":"m","messages":{}}', "messages"),
        ('{"model":"m","messages":null}', "messages"),
        ('{"model":"m","messages":[],"stream":1}', "stream"),
        ('{"model":"m","messages":[],"stream":"true"}', "stream"),
        ('{"model":"m","messages":[],"stream":true,"stream_options":[]}', "stream_options"),
        ('{"model":"m","messages":[],"n":"two"}', "n"),
        ('{"model":"m","messages":[],"n":true}', "n"),
        ('{"model":"m","messages":[],"max_tokens":1.5}', "max_tokens"),
        ('{"model":"m","messages":[],"max_completion_tokens":{}}', "max_completion_tokens"),
    ],
)
def test_a_field_the_gateway_must_understand_is_named_when_it_cannot(body: str, param: str) -> None:
    assert refused(body.encode()).param == param


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "developer", "content": "a", "name": "b"},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}]},
    ],
)
def test_messages_are_for_the_engine_to_judge(message: dict[str, object]) -> None:
    body = json.dumps({"model": "m", "messages": [message]}).encode()
    assert json.loads(forwarded(body))["messages"] == [message]


@pytest.mark.parametrize(
    ("members", "requested", "answers"),
    [
        ("", None, 1),
        (',"max_tokens":7,"n":null', 7, 1),
        (',"max_tokens":7,"max_completion_tokens":9,"n":2', 9, 2),
        (',"max_tokens":9,"max_completion_tokens":7', 9, 1),
        (',"max_tokens":7,"max_completion_tokens":null', 7, 1),
        (',"max_tokens":7.0,"n":"3"', 7, 3),
        (',"max_tokens":123456789012345678901234567890', 123456789012345678901234567890, 1),
    ],
)
def test_bounds_are_read_as_an_engine_would(
    members: str, requested: int | None, answers: int
) -> None:
    body = f'{{"model":"m","messages":[{{"role":"user"}},{{"role":"user"}}]{members}}}'.encode()
    facts = parse_request(Endpoint.CHAT, body).facts
    assert (facts.output_tokens_requested, facts.answers) == (requested, answers)
    assert facts.prompt_tokens_max == len(body) + 32


@pytest.mark.parametrize(
    ("endpoint", "members", "param"),
    [
        (Endpoint.COMPLETIONS, "", "prompt"),
        (Endpoint.COMPLETIONS, '"prompt":null', "prompt"),
        (Endpoint.COMPLETIONS, '"prompt":{}', "prompt"),
        (Endpoint.COMPLETIONS, '"prompt":7', "prompt"),
        (Endpoint.COMPLETIONS, '"prompt":"a","n":"two"', "n"),
        (Endpoint.COMPLETIONS, '"prompt":"a","best_of":1.5', "best_of"),
        (Endpoint.COMPLETIONS, '"prompt":"a","max_tokens":[]', "max_tokens"),
        (Endpoint.COMPLETIONS, '"prompt":"a","stream":1', "stream"),
        (Endpoint.EMBEDDINGS, "", "input"),
        (Endpoint.EMBEDDINGS, '"input":null', "input"),
        (Endpoint.EMBEDDINGS, '"input":{"a":1}', "input"),
        (Endpoint.EMBEDDINGS, '"input":"a","encoding_format":"bytes"', "encoding_format"),
        (Endpoint.EMBEDDINGS, '"input":"a","encoding_format":["float"]', "encoding_format"),
        (Endpoint.TOKENIZE, "", "prompt"),
        (Endpoint.TOKENIZE, '"prompt":["a"]', "prompt"),
        (Endpoint.TOKENIZE, '"messages":"a"', "messages"),
        (Endpoint.DETOKENIZE, "", "tokens"),
        (Endpoint.DETOKENIZE, '"tokens":"a"', "tokens"),
    ],
)
def test_each_endpoint_names_the_field_it_cannot_do_without(
    endpoint: Endpoint, members: str, param: str
) -> None:
    body = f'{{"model":"m"{"," if members else ""}{members}}}'.encode()
    assert refused(body, endpoint).param == param


@pytest.mark.parametrize(
    ("endpoint", "members", "prompt"),
    [
        (Endpoint.CHAT, '"messages":[{"role": "user"}]', '[{"role": "user"}]'),
        (Endpoint.COMPLETIONS, '"prompt": ["a", "b"] ', '["a", "b"]'),
        (Endpoint.COMPLETIONS, '"prompt":null,"prompt_embeds":"AAAA"', '"AAAA"'),
        (Endpoint.EMBEDDINGS, '"input":[1, 2]', "[1, 2]"),
        (Endpoint.EMBEDDINGS, '"messages":[{"role":"user"}]', '[{"role":"user"}]'),
        (Endpoint.TOKENIZE, '"prompt":"a"', '"a"'),
        (Endpoint.TOKENIZE, '"messages":[1]', "[1]"),
        (Endpoint.DETOKENIZE, '"tokens":[1]', "[1]"),
    ],
)
def test_what_the_model_is_given_is_found_as_it_was_written(
    endpoint: Endpoint, members: str, prompt: str
) -> None:
    request = parse_request(endpoint, f'{{"model":"m",{members}}}'.encode())
    assert request.prompt_bytes == prompt.encode()


@pytest.mark.parametrize(
    ("prompt", "count"),
    [
        ('"a"', 1),
        ('["a","b","c"]', 3),
        ("[1,2,3]", 1),
        ("[ 1 ]", 1),
        ("[[1,2],[3]]", 2),
        ('[ [1], "a" ]', 2),
        ("[]", 1),
        ("[ ]", 1),
        ("[null,null]", 2),
    ],
)
def test_a_list_of_tokens_is_one_prompt_and_a_list_of_others_is_many(
    prompt: str, count: int
) -> None:
    body = f'{{"model":"m","prompt":{prompt},"max_tokens":3,"n":2}}'.encode()
    facts = parse_request(Endpoint.COMPLETIONS, body).facts
    assert (facts.answers, facts.prompt_tokens_max) == (2 * count, len(body) + 16 * count)
    body = f'{{"model":"m","input":{prompt}}}'.encode()
    facts = parse_request(Endpoint.EMBEDDINGS, body).facts
    assert (facts.answers, facts.prompt_tokens_max) == (0, len(body) + 16 * count)


def test_a_prompt_given_twice_over_is_bounded_for_both() -> None:
    body = b'{"model":"m","prompt":["a","b"],"prompt_embeds":["AA","BB","CC"]}'
    assert parse_request(Endpoint.COMPLETIONS, body).facts.answers == 5


@pytest.mark.parametrize(
    ("endpoint", "members"),
    [
        (
            Endpoint.COMPLETIONS,
            '"prompt":"a","echo":true,"suffix":"b","logprobs":5,"top_k":40,"big":9007199254740993',
        ),
        (Endpoint.EMBEDDINGS, '"input":["é"],"dimensions":1e2,"x_unknown":{"a":[1,null]}'),
        (Endpoint.TOKENIZE, '"prompt":"\\u00e9","return_token_strs":true,"stream":true'),
        (Endpoint.DETOKENIZE, '"tokens":[1,2,9007199254740993]'),
    ],
)
def test_every_endpoints_body_goes_on_as_it_came_but_for_the_model(
    endpoint: Endpoint, members: str
) -> None:
    request = parse_request(endpoint, f'{{"model":"m",{members}}}'.encode())
    sent = upstream_body(request, served_model="served", usage_options=VLLM_OPTIONS)
    assert sent == f'{{"model":"served",{members}}}'.encode()


@pytest.mark.parametrize("endpoint", list(Endpoint))
def test_no_endpoint_is_without_a_way_to_be_read(endpoint: Endpoint) -> None:
    assert refused(b'{"model":7}', endpoint).param == "model"


PICTURE = "data:image/png;base64," + "A" * 500


@pytest.mark.parametrize(
    ("content", "media_bytes"),
    [
        ("plain", 0),
        ("data: with words, and commas", 0),
        ('{"data": "quoted"}', 0),
        ([{"type": "image_url", "image_url": {"url": PICTURE}}], len(PICTURE) + 2),
        ([{"type": "input_audio", "input_audio": {"data": "B" * 100}}], len('"data": ""') + 100),
        ([{"url": PICTURE}, {"type": "text", "text": "and"}, {"url": PICTURE}], 1_048),
    ],
)
def test_pictures_and_sounds_are_told_apart_from_text(content: object, media_bytes: int) -> None:
    messages = [{"role": "user", "content": content}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert parse_request(Endpoint.CHAT, body).media_bytes == media_bytes


def test_embedded_prompts_are_no_text() -> None:
    request = parse_request(Endpoint.COMPLETIONS, b'{"model":"m","prompt_embeds":"AAAA"}')
    assert request.media_bytes == 6


def test_looking_for_pictures_takes_no_longer_than_reading() -> None:
    body = json.dumps({"model": "m", "messages": ['"data:/' * 50_000, "data:" + "/" * 500_000]})
    assert parse_request(Endpoint.CHAT, body.encode()).media_bytes == 0
